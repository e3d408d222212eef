//! Files for tests, gone when the store over them is.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use everturn_core::{
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    error::Result,
    id::{ConversationId, Epoch, OwnerId, SessionId},
    storage::{
        Batch, BlobPart, BlobQuery, ChangeQuery, Changes, Chunk, Claim, Committed, Create, Created,
        DocumentQuery, DocumentState, Due, EntryQuery, Hit, Lease, Mail, MailFilter, MailRow, Posted, Seal,
        SearchQuery, SessionQuery, SessionRow, Stats, Storage, Store, SubmissionQuery, Swept, TaskQuery,
        View, ViewQuery,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
    verify::Finding,
};
use everturn_store::{Options, open};
use everturn_testkit::store::scene::owner;
use tempfile::TempDir;

/// A directory for one store.
pub(crate) struct Temporary(TempDir);

impl Temporary {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for temporary files"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("work.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// The store, opened for the scenes' owner.
    pub(crate) async fn open(&self) -> Store {
        self.open_as(owner()).await
    }

    pub(crate) async fn open_as(&self, owner: OwnerId) -> Store {
        open(&self.url(), Options::new(owner)).await.expect("the store opens")
    }

    /// A store that keeps its directory.
    pub(crate) fn into_store(self, reopen: Reopen) -> Store {
        Store::new(Kept { opened: Mutex::new(Opened::default()), reopen, file: self })
    }
}

/// When a store is closed and opened again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reopen {
    Never,
    AfterEveryCommit,
}

struct Kept {
    opened: Mutex<Opened>,
    reopen: Reopen,
    file: Temporary,
}

#[derive(Default)]
struct Opened {
    store: Option<Store>,
    /// What the stores before this one counted.
    counted: Stats,
}

impl Kept {
    async fn store(&self) -> Store {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).store.take();
        let store = match opened {
            Some(store) => store,
            None => self.file.open().await,
        };
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).store = Some(store.clone());
        store
    }

    /// Closes the store, if that is wanted, when `done` with it.
    async fn close<T>(&self, store: Store, done: T) -> T {
        if self.reopen == Reopen::AfterEveryCommit {
            let stats = store.stats().await.expect("a store counts");
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.counted = sum(opened.counted, stats);
            opened.store = None;
        }
        done
    }
}

fn sum(one: Stats, other: Stats) -> Stats {
    Stats {
        commits: one.commits + other.commits,
        groups: one.groups + other.groups,
        syncs: one.syncs + other.syncs,
    }
}

impl Storage for Kept {
    async fn create(&self, create: Create) -> Result<Created> {
        let store = self.store().await;
        let created = store.create(create).await;
        self.close(store, created).await
    }

    async fn claim(&self, claim: Claim) -> Result<Lease> {
        self.store().await.claim(claim).await
    }

    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease> {
        self.store().await.renew(claim, epoch).await
    }

    async fn release(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        self.store().await.release(session, owner, epoch).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let store = self.store().await;
        let committed = store.commit(batch).await;
        self.close(store, committed).await
    }

    async fn session(&self, session: SessionId) -> Result<Option<SessionRow>> {
        self.store().await.session(session).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        self.store().await.sessions(query).await
    }

    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>> {
        self.store().await.conversations(session).await
    }

    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>> {
        self.store().await.conversation(session, id).await
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>> {
        self.store().await.entries(query).await
    }

    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>> {
        self.store().await.documents(query).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>> {
        self.store().await.tasks(query).await
    }

    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>> {
        self.store().await.submissions(query).await
    }

    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>> {
        self.store().await.usage(session).await
    }

    async fn delete(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        self.store().await.delete(session, owner, epoch).await
    }

    async fn view(&self, query: ViewQuery) -> Result<View> {
        self.store().await.view(query).await
    }

    async fn changes(&self, query: ChangeQuery) -> Result<Changes> {
        self.store().await.changes(query).await
    }

    async fn doorbell(&self, heard: u64) -> u64 {
        self.store().await.doorbell(heard).await
    }

    async fn post(&self, mail: Mail) -> Result<Posted> {
        self.store().await.post(mail).await
    }

    async fn mail(&self, session: SessionId, only: MailFilter) -> Result<Vec<MailRow>> {
        self.store().await.mail(session, only).await
    }

    async fn runnable(&self, now: Timestamp, limit: usize) -> Result<Vec<SessionId>> {
        self.store().await.runnable(now, limit).await
    }

    async fn next_due(&self) -> Result<Due> {
        self.store().await.next_due().await
    }

    async fn put_chunk(&self, chunk: Chunk) -> Result<()> {
        self.store().await.put_chunk(chunk).await
    }

    async fn seal(&self, seal: Seal) -> Result<()> {
        self.store().await.seal(seal).await
    }

    async fn blob(&self, query: BlobQuery) -> Result<Option<BlobPart>> {
        self.store().await.blob(query).await
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        self.store().await.search(query).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<Swept> {
        self.store().await.sweep(before).await
    }

    async fn backup(&self, to: PathBuf) -> Result<()> {
        self.store().await.backup(to).await
    }

    async fn vacuum(&self) -> Result<()> {
        self.store().await.vacuum().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.store().await.check().await
    }

    async fn owner(&self) -> Option<OwnerId> {
        self.store().await.owner().await
    }

    async fn stats(&self) -> Result<Stats> {
        let now = self.store().await.stats().await?;
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sum(opened.counted, now))
    }
}

/// Another program that holds the file's write lock until it is dropped.
pub(crate) struct Blocker(rusqlite::Connection);

impl Blocker {
    pub(crate) fn new(path: &Path) -> Self {
        let connection = rusqlite::Connection::open(path).expect("the file opens");
        connection.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes now");
        Self(connection)
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").expect("the lock is given back");
    }
}
