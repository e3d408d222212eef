//! A store that tells of its commits before and after they happen: where crash tests stop the world.

use everturn_core::{
    BoxFuture, Result,
    conversation::Conversation,
    entry::EntryRecord,
    id::{ConversationId, Epoch, OwnerId, SessionId},
    storage::{
        Batch, Claim, Committed, Create, Created, DocumentQuery, DocumentState, EntryQuery, Lease,
        SessionQuery, SessionRow, Stats, Storage, Store, SubmissionQuery, TaskQuery,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusing::Refusals;

/// When a commit is told of.
///
/// ```
/// use everturn_testkit::watched::Moment;
/// assert_ne!(Moment::Before, Moment::After);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Storage has not been asked.
    Before,
    /// It is stored; nobody has been told.
    After,
}

/// A store whose commits are told of; a creation is a commit.
///
/// ```
/// use everturn_core::{memory::Memory, storage::Store};
/// use everturn_testkit::watched::Watched;
///
/// let memory = Store::new(Memory::new());
/// let store = Store::new(Watched::new(memory, |moment, number| {
///     println!("{moment:?} commit {number}");
///     Box::pin(async {})
/// }));
/// ```
pub struct Watched {
    store: Store,
    tell: Box<dyn Fn(Moment, u64) -> BoxFuture<'static, ()> + Send + Sync>,
    count: AtomicU64,
    refusals: Refusals,
}

impl Watched {
    /// Tells of each commit: the moment, and its number from 1. The commit waits for what `tell` gives: for ever, where
    /// the world is to stop there.
    pub fn new(
        store: Store,
        tell: impl Fn(Moment, u64) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { store, tell: Box::new(tell), count: AtomicU64::new(0), refusals: Refusals::default() }
    }

    /// The same store, which refuses the commits that `refusals` says.
    #[must_use]
    pub fn refusing(mut self, refusals: &Refusals) -> Self {
        self.refusals = refusals.clone();
        self
    }

    async fn told<T>(&self, commit: impl Future<Output = T>) -> T {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        (self.tell)(Moment::Before, number).await;
        let committed = commit.await;
        (self.tell)(Moment::After, number).await;
        committed
    }
}

impl Storage for Watched {
    async fn create(&self, create: Create) -> Result<Created> {
        self.told(self.store.create(create)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        self.refusals.check()?;
        self.told(self.store.commit(batch)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Lease> {
        self.store.claim(claim).await
    }

    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease> {
        self.store.renew(claim, epoch).await
    }

    async fn release(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        self.store.release(session, owner, epoch).await
    }

    async fn session(&self, session: SessionId) -> Result<Option<SessionRow>> {
        self.store.session(session).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        self.store.sessions(query).await
    }

    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>> {
        self.store.conversations(session).await
    }

    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>> {
        self.store.conversation(session, id).await
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>> {
        self.store.entries(query).await
    }

    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>> {
        self.store.documents(query).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>> {
        self.store.tasks(query).await
    }

    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>> {
        self.store.submissions(query).await
    }

    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>> {
        self.store.usage(session).await
    }

    async fn owner(&self) -> Option<OwnerId> {
        self.store.owner().await
    }

    async fn stats(&self) -> Result<Stats> {
        self.store.stats().await
    }
}
