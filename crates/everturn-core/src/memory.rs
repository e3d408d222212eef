//! The memory store: the reference of the storage port.

mod blobs;
mod changes;
mod once;
mod session;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use event_listener::Event;

use crate::{
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    error::{Error, ErrorKind, Result},
    id::{BlobId, ConversationId, Epoch, OwnerId, SessionId},
    storage::{
        ApprovalQuery, ApprovalRow, Batch, BlobPart, BlobQuery, ChangeQuery, Changes, Chunk, Claim,
        Committed, Create, Created, DocumentQuery, DocumentState, Due, EntryQuery, Hit, Lease, Mail,
        MailFilter, MailRow, Posted, RunnableQuery, Seal, SearchQuery, SessionQuery, SessionRow, Stats,
        Storage, SubmissionQuery, Swept, TaskQuery, View, ViewQuery, Write,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
    verify::Finding,
};
use blobs::Blobs;
use session::Session;

/// A store in memory. It is gone when the last handle is dropped.
///
/// ```
/// use everturn_core::{memory::Memory, storage::Store};
/// let store = Store::new(Memory::new());
/// ```
#[derive(Default)]
pub struct Memory {
    tables: Mutex<Tables>,
    rung: AtomicU64,
    bell: Event,
}

#[derive(Default)]
struct Tables {
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions that were deleted, and their last epochs.
    deleted: BTreeMap<SessionId, Epoch>,
    requests: HashMap<String, SessionId>,
    blobs: Blobs,
    stats: Stats,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, id: SessionId, read: impl FnOnce(&Session) -> T) -> Result<T> {
        let tables = self.tables();
        tables.sessions.get(&id).map(read).ok_or_else(|| tables.unknown(id))
    }

    fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.bell.notify(usize::MAX);
    }
}

impl Tables {
    fn unknown(&self, id: SessionId) -> Error {
        let attempted = format!("look for session {id}");
        match self.deleted.contains_key(&id) {
            true => Error::deleted(attempted),
            false => Error::not_found(format!("{attempted}: the store has no such session")),
        }
    }

    fn session(&mut self, id: SessionId) -> Result<&mut Session> {
        if !self.sessions.contains_key(&id) {
            return Err(self.unknown(id));
        }
        Ok(self.sessions.get_mut(&id).expect("it was just found"))
    }

    fn count(&mut self, batch: &Batch) {
        self.stats.commits += 1;
        self.stats.groups += 1;
        if batch.durability == crate::storage::Durability::Durable {
            self.stats.syncs += 1;
        }
    }

    /// What a batch refers to outside of its session.
    fn check_blobs(&self, batch: &Batch) -> Result<()> {
        let refers = |write: &Write| match write {
            Write::Blob(blob) if !self.blobs.has(*blob) => Some(*blob),
            _ => None,
        };
        match batch.writes.iter().find_map(refers) {
            Some(blob) => {
                let (session, seq) = (batch.session, batch.seq);
                let message = format!(
                    "commit to session {session} at seq {seq}: there is no blob {blob}; write it first"
                );
                Err(Error::invalid(message))
            }
            None => Ok(()),
        }
    }
}

impl Storage for Memory {
    async fn create(&self, create: Create) -> Result<Created> {
        let mut tables = self.tables();
        if let Some(id) = create.new.request.as_ref().and_then(|request| tables.requests.get(request)) {
            return Ok(Created::Existing(*id));
        }
        let id = create.first.session;
        let was_deleted = tables.deleted.get(&id).is_some_and(|epoch| *epoch >= create.first.epoch);
        if tables.sessions.contains_key(&id) || was_deleted {
            return Err(Error::conflict(format!("create session {id}: the id is in use, or was")));
        }
        let mut session = Session::new(&create);
        session.check_place(&create.first)?;
        tables.check_blobs(&create.first)?;
        session.commit(&create.first, tables.stats.commits)?;
        tables.count(&create.first);
        let lease = session.lease(create.first.owner, create.until);
        if let Some(request) = create.new.request {
            tables.requests.insert(request, id);
        }
        tables.deleted.remove(&id);
        tables.sessions.insert(id, session);
        drop(tables);
        self.ring();
        Ok(Created::New(lease))
    }

    async fn claim(&self, claim: Claim) -> Result<Lease> {
        let mut tables = self.tables();
        let session = tables.session(claim.session)?;
        if let Some((by, until)) = session.row.owner
            && until > claim.now
        {
            let message = format!("claim session {}: {by} owns it until {until}", claim.session);
            return Err(Error::new(ErrorKind::Owned { by, until }, message));
        }
        session.begin_epoch();
        let lease = session.lease(claim.owner, claim.until);
        drop(tables);
        self.ring();
        Ok(lease)
    }

    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease> {
        let mut tables = self.tables();
        let session = tables.session(claim.session)?;
        session.check_owner("renew the lease of", claim.owner, epoch)?;
        Ok(session.lease(claim.owner, claim.until))
    }

    async fn delete(&self, id: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let mut tables = self.tables();
        tables.session(id)?.check_owner("delete", owner, epoch)?;
        let session = tables.sessions.remove(&id).expect("it was just found");
        if let Some(request) = &session.row.new.request {
            tables.requests.remove(request);
        }
        tables.deleted.insert(id, epoch);
        drop(tables);
        self.ring();
        Ok(())
    }

    async fn release(&self, id: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let mut tables = self.tables();
        let session = tables.session(id)?;
        if session.check_owner("release", owner, epoch).is_ok() {
            session.row.owner = None;
        }
        drop(tables);
        self.ring();
        Ok(())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let mut tables = self.tables();
        let (blobs, stored) = (tables.check_blobs(&batch), tables.stats.commits);
        let session = tables.session(batch.session)?;
        let committed = session.check_place(&batch)?;
        if committed == Committed::Stored {
            blobs?;
            session.commit(&batch, stored)?;
            tables.count(&batch);
            drop(tables);
            self.ring();
        }
        Ok(committed)
    }

    async fn session(&self, id: SessionId) -> Result<Option<SessionRow>> {
        Ok(self.tables().sessions.get(&id).map(|session| session.row.clone()))
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        let tables = self.tables();
        let rows = tables.sessions.values().rev().map(|session| &session.row);
        Ok(rows.filter(|row| query.wants(row)).take(query.limit).cloned().collect())
    }

    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>> {
        self.read(session, Session::conversations)
    }

    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>> {
        self.read(session, |session| session.conversation(id).cloned())
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>> {
        self.read(query.session, |session| session.entries(&query))
    }

    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>> {
        self.read(query.session, |session| session.documents(&query))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>> {
        self.read(query.session, |session| session.tasks(&query))
    }

    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>> {
        self.read(query.session, |session| session.submissions(&query.only))
    }

    async fn approvals(&self, query: ApprovalQuery) -> Result<Vec<ApprovalRow>> {
        let tables = self.tables();
        if let Some(id) = query.session.filter(|id| !tables.sessions.contains_key(id)) {
            return Err(tables.unknown(id));
        }
        let all = tables.sessions.values().flat_map(|session| session.approvals(&query));
        Ok(all.take(query.limit).collect())
    }

    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>> {
        self.read(session, |session| session.usage.clone())
    }

    async fn view(&self, query: ViewQuery) -> Result<View> {
        self.read(query.session, |session| session.view(&query.part))?
    }

    async fn changes(&self, query: ChangeQuery) -> Result<Changes> {
        self.read(query.session, |session| session.changes(&query))
    }

    async fn doorbell(&self, heard: u64) -> u64 {
        loop {
            let rings = self.bell.listen();
            match self.rung.load(Ordering::SeqCst) {
                rung if rung == heard => rings.await,
                rung => return rung,
            }
        }
    }

    async fn post(&self, mail: Mail) -> Result<Posted> {
        let posted = self.tables().session(mail.session)?.post(mail);
        if posted == Posted::New {
            self.ring();
        }
        Ok(posted)
    }

    async fn mail(&self, session: SessionId, only: MailFilter) -> Result<Vec<MailRow>> {
        self.read(session, |session| session.mail(&only))
    }

    async fn runnable(&self, query: RunnableQuery) -> Result<Vec<SessionId>> {
        let tables = self.tables();
        let mut found: Vec<_> = tables.sessions.values().filter_map(|one| one.runs_by(&query)).collect();
        found.sort();
        Ok(found.into_iter().take(query.limit).map(|(_, id)| id).collect())
    }

    async fn next_due(&self) -> Result<Due> {
        Ok(self.tables().sessions.values().map(|session| session.due).min().unwrap_or(Due::None))
    }

    async fn put_chunk(&self, chunk: Chunk) -> Result<()> {
        self.tables().blobs.put(chunk)
    }

    async fn seal(&self, seal: Seal) -> Result<()> {
        self.tables().blobs.seal(seal)
    }

    async fn blob(&self, query: BlobQuery) -> Result<Option<BlobPart>> {
        Ok(self.tables().blobs.read(query))
    }

    async fn blobs(&self, session: SessionId) -> Result<Vec<BlobId>> {
        self.read(session, |session| {
            let mut blobs: Vec<_> = session.blobs.iter().copied().collect();
            blobs.sort();
            blobs
        })
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        let words = query.terms()?;
        let tables = self.tables();
        let asked = |session: &&Session| query.session.is_none_or(|id| id == session.row.id);
        let mut hits: Vec<_> =
            tables.sessions.values().filter(asked).flat_map(|session| session.search(&words)).collect();
        hits.sort_by_key(|(stored, hit)| std::cmp::Reverse((*stored, hit.entry)));
        Ok(hits.into_iter().take(query.limit).map(|(_, hit)| hit).collect())
    }

    async fn sweep(&self, before: Timestamp) -> Result<Swept> {
        let mut tables = self.tables();
        let referred = tables.sessions.values().flat_map(|session| session.blobs.iter().copied()).collect();
        Ok(Swept { blobs: tables.blobs.sweep(before, &referred), sessions: 0 })
    }

    async fn backup(&self, to: PathBuf) -> Result<()> {
        let to = to.display();
        Err(Error::invalid(format!("back up to {to}: a store in memory has no file; use a sqlite: store")))
    }

    async fn vacuum(&self) -> Result<()> {
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn owner(&self) -> Option<OwnerId> {
        None
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.tables().stats)
    }
}
