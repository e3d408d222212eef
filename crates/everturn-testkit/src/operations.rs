//! The operations of the storage port that can fail, in one list: what is the same around each of them is written once.

use std::path::PathBuf;

use everturn_core::{
    Result,
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    id::{BlobId, ConversationId, Epoch, OwnerId, SessionId},
    storage::{
        ApprovalQuery, ApprovalRow, Batch, BlobPart, BlobQuery, ChangeQuery, Changes, Chunk, Claim,
        Committed, Create, Created, DocumentQuery, DocumentState, Due, EntryQuery, Hit, Layer, Lease, Mail,
        MailFilter, MailRow, Posted, RunnableQuery, Seal, SearchQuery, SessionQuery, SessionRow, Stats,
        Store, SubmissionQuery, Swept, TaskQuery, View, ViewQuery,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
    verify::Finding,
};

/// What is done around every operation that can fail.
pub(crate) trait Attempt: Send + Sync + 'static {
    /// Does it: `call` asks the store, each time that it is called.
    fn attempt<T: Send, F: Future<Output = Result<T>> + Send>(
        &self,
        operation: &'static str,
        call: impl Fn() -> F + Send + Sync,
    ) -> impl Future<Output = Result<T>> + Send;
}

/// A store with something done around every operation that can fail.
pub(crate) struct Attempting<A> {
    pub(crate) store: Store,
    pub(crate) around: A,
}

macro_rules! attempt {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        /// Their names.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl<A: Attempt> Layer for Attempting<A> {
            fn inner(&self) -> Store {
                self.store.clone()
            }

            $(async fn $name(&self $(, $arg: $ty)*) -> Result<$out> {
                self.around.attempt(stringify!($name), || self.store.$name($($arg.clone()),*)).await
            })*
        }
    };
}

attempt! {
    fn create(create: Create) -> Created;
    fn claim(claim: Claim) -> Lease;
    fn renew(claim: Claim, epoch: Epoch) -> Lease;
    fn delete(session: SessionId, owner: OwnerId, epoch: Epoch) -> ();
    fn release(session: SessionId, owner: OwnerId, epoch: Epoch) -> ();
    fn commit(batch: Batch) -> Committed;
    fn session(session: SessionId) -> Option<SessionRow>;
    fn sessions(query: SessionQuery) -> Vec<SessionRow>;
    fn conversations(session: SessionId) -> Vec<Conversation>;
    fn conversation(session: SessionId, id: ConversationId) -> Option<Conversation>;
    fn entries(query: EntryQuery) -> Vec<EntryRecord>;
    fn documents(query: DocumentQuery) -> Vec<DocumentState>;
    fn tasks(query: TaskQuery) -> Vec<TaskRecord>;
    fn submissions(query: SubmissionQuery) -> Vec<SubmissionRecord>;
    fn approvals(query: ApprovalQuery) -> Vec<ApprovalRow>;
    fn usage(session: SessionId) -> Vec<UsageRow>;
    fn view(query: ViewQuery) -> View;
    fn changes(query: ChangeQuery) -> Changes;
    fn post(mail: Mail) -> Posted;
    fn mail(session: SessionId, only: MailFilter) -> Vec<MailRow>;
    fn runnable(query: RunnableQuery) -> Vec<SessionId>;
    fn next_due() -> Due;
    fn put_chunk(chunk: Chunk) -> ();
    fn seal(seal: Seal) -> ();
    fn blob(query: BlobQuery) -> Option<BlobPart>;
    fn blobs(session: SessionId) -> Vec<BlobId>;
    fn search(query: SearchQuery) -> Vec<Hit>;
    fn sweep(before: Timestamp) -> Swept;
    fn backup(to: PathBuf) -> ();
    fn vacuum() -> ();
    fn check() -> Vec<Finding>;
    fn stats() -> Stats;
}
