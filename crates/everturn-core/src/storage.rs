//! The storage port: one database that holds many sessions.

mod batch;
mod blob;
mod change;
mod lease;
mod mail;
mod query;
mod revision;
mod upkeep;

use std::path::PathBuf;

use crate::{
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    error::Result,
    id::{BlobId, ConversationId, Epoch, OwnerId, SessionId},
    port::port,
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
    verify::Finding,
};
pub use batch::{Batch, Committed, Due, Durability, Write, weight_of_task};
pub use blob::{BlobPart, BlobQuery, CHUNK, Chunk, Seal};
pub use change::{Change, ChangeQuery, Changes, DocumentChange, EpochStart, Part, View, ViewQuery};
pub use lease::{Claim, Create, Created, Lease, NewSession, SessionRow};
pub use mail::{Mail, MailFilter, MailKind, MailRow, Posted, Receipt, Taken};
pub use query::{
    ApprovalQuery, ApprovalRow, Code, DocumentQuery, EntryQuery, Only, Order, RunnableQuery, SessionQuery,
    SubmissionFilter, SubmissionQuery, TaskQuery,
};
pub use revision::{DocumentRecord, DocumentState, DocumentWrite, Revision};
pub use upkeep::{Hit, SearchQuery, Stats, Swept, excerpt, terms};

port! {
    /// A database of sessions.
    ///
    /// Promise: reads see committed state only, and never block a writer. Cancelling a caller leaves nothing half
    /// done. Each promise is a function of `everturn-testkit`, which every backend runs.
    /// Errors: those of [`ErrorKind`](crate::ErrorKind), each with its own meaning; none is reported as another. Where
    /// an answer was lost on the way, what does no harm when it is done twice (a renewal, a release, mail, a piece of a
    /// blob, its seal) may be `Unavailable` though it is stored: the message says so, and it is to be tried again.
    ///
    /// Implementers write `async fn`; [`Memory`](crate::memory::Memory) is the reference.
    trait Storage;

    /// A store: a cheap handle to one database.
    ///
    /// ```
    /// use everturn_core::{memory::Memory, storage::Store};
    /// let store = Store::new(Memory::new());
    /// let same = store.clone();
    /// ```
    handle Store, twin StorageTwin;

    /// Something around a store: what it does not say goes through as it is.
    ///
    /// Shape: implementers name the store and override the operations that they change; [`around`](Self::around) sees
    /// all of those that they do not.
    ///
    /// ```
    /// use everturn_core::{Result, memory::Memory, storage::{Layer, Layered, SessionQuery, Store}};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// struct Counting(Store, AtomicU64);
    /// impl Layer for Counting {
    ///     fn inner(&self) -> Store { self.0.clone() }
    ///     async fn around<T: Send>(&self, _: &'static str, call: impl Future<Output = T> + Send) -> T {
    ///         self.1.fetch_add(1, Ordering::SeqCst);
    ///         call.await
    ///     }
    /// }
    /// let store = Store::new(Layered(Counting(Store::new(Memory::new()), AtomicU64::new(0))));
    /// ```
    layer Layer;

    /// A store with a layer around it.
    ///
    /// ```
    /// use everturn_core::{memory::Memory, storage::{Layer, Layered, Store}};
    /// struct Plain(Store);
    /// impl Layer for Plain { fn inner(&self) -> Store { self.0.clone() } }
    /// let store = Store::new(Layered(Plain(Store::new(Memory::new()))));
    /// ```
    layered Layered;

    /// Creates a session together with its first commit, owned by the batch's owner at the batch's epoch: 1, or for a
    /// session that comes back after it was deleted, any that is greater than all it had.
    ///
    /// Promise: all or nothing. Repeating a request id returns the session that it created.
    /// Errors: `Invalid` when the batch does not fit the session.
    async fn create(&self, create: Create) -> Result<Created>;

    /// Takes the right to commit to a session: a lease with the next epoch.
    ///
    /// Errors: `Owned` while someone else's lease is live; `NotFound`.
    async fn claim(&self, claim: Claim) -> Result<Lease>;

    /// Prolongs a lease, also an expired one whose epoch is unchanged.
    ///
    /// Errors: `Fenced` when a newer epoch exists; `NotFound`.
    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease>;

    /// Ends a session that the caller owns: its contents go, its id and epoch stay, so that neither is used again.
    ///
    /// Promise: all or nothing for who looks; a deletion that was cut off is finished by [`sweep`](Self::sweep). From
    /// then on the session is not found, and the message says that it was deleted. Blobs that nobody else refers to go
    /// with the next sweep.
    /// Errors: `Fenced` when the caller owns it no more; `NotFound`.
    async fn delete(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()>;

    /// Gives a lease up. A lease that is no longer held is left alone.
    async fn release(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()>;

    /// Commits one batch of writes to a session, all of it or none.
    ///
    /// Shape: the batch's seq must be the session's head + 1; writes keep their order.
    /// Promise: when this returns, a durable batch survives a crash of the process, the database and the power; a
    /// relaxed one survives our process, and the next durable batch makes it durable too.
    /// Errors: `Fenced` when a newer lease exists; `Conflict` when the head is another; `Unavailable` when nothing
    /// was stored and trying again may help; `Invalid` when a write does not fit what is there. An answer that was lost
    /// on the way is no error but [`Committed::Unknown`].
    /// Source: docs/promises.md, "one writer, fenced".
    async fn commit(&self, batch: Batch) -> Result<Committed>;

    /// A session's row; none where there is no such session.
    async fn session(&self, session: SessionId) -> Result<Option<SessionRow>>;

    /// Sessions, newest first, a page at a time. Reads no transcript.
    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>>;

    /// A session's conversations, oldest first.
    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>>;

    /// One conversation; none where there is no such conversation.
    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>>;

    /// Entries that are visible along a lineage.
    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>>;

    /// The documents of a scope that are live, or were live at a seq, in the order in which they were created.
    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>>;

    /// Tasks of a session, oldest first.
    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>>;

    /// Submissions of a session, oldest first.
    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>>;

    /// Approvals, of a session or of all, a page at a time: in the order of their sessions' ids, and of their own.
    ///
    /// Promise: finding those that are open costs what is open, and not what the store holds.
    /// Errors: `NotFound` when a session is named and unknown.
    async fn approvals(&self, query: ApprovalQuery) -> Result<Vec<ApprovalRow>>;

    /// A session's ledger, oldest first.
    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>>;

    /// A part of a session as it is, read at one moment.
    ///
    /// Errors: `NotFound` for an unknown session or conversation. A document that is not there is no error: the view has
    /// none.
    async fn view(&self, query: ViewQuery) -> Result<View>;

    /// What the commits behind a place changed, read at one moment from the rows that they stamped.
    async fn changes(&self, query: ChangeQuery) -> Result<Changes>;

    /// Waits until something may have changed since `heard`, the number that it gave last (0 at first), and gives the
    /// next. A hint and never the truth: it may ring for nothing, and whoever must not miss a change polls as well.
    async fn doorbell(&self, heard: u64) -> u64;

    /// Leaves a request for a session, whoever owns it.
    ///
    /// Promise: idempotent by its key. When it returns it survives the power. What submits under a request id that the
    /// conversation has is not posted: the answer names the submission.
    /// Errors: `NotFound` for an unknown session.
    async fn post(&self, mail: Mail) -> Result<Posted>;

    /// Mail of a session, oldest first.
    async fn mail(&self, session: SessionId, only: MailFilter) -> Result<Vec<MailRow>>;

    /// Sessions that nobody owns and whose due has come, or that have mail, or a task that was blocked for want of code that
    /// is there now. Those due longest come first; mail and new code are due at once.
    async fn runnable(&self, query: RunnableQuery) -> Result<Vec<SessionId>>;

    /// When the next of all sessions wants to run, whoever owns it. Mail rings the doorbell instead.
    async fn next_due(&self) -> Result<Due>;

    /// Writes a piece of a blob ahead of its commit. It survives our process.
    ///
    /// Errors: `TooLarge` beyond [`CHUNK`] bytes; `Unavailable` when there is no room.
    async fn put_chunk(&self, chunk: Chunk) -> Result<()>;

    /// Names the blob that an upload's pieces make. Bytes that are there already are kept once.
    ///
    /// Errors: `NotFound` when no piece was written; `Invalid` when a piece is missing or the size is another.
    async fn seal(&self, seal: Seal) -> Result<()>;

    /// A range of a blob; none where there is no such blob. Beyond its end there are no bytes.
    async fn blob(&self, query: BlobQuery) -> Result<Option<BlobPart>>;

    /// The blobs that a session refers to.
    async fn blobs(&self, session: SessionId) -> Result<Vec<BlobId>>;

    /// Messages that have all of some words, newest first: in the order in which they were stored, whatever their session.
    ///
    /// Errors: `Invalid` when no word is given.
    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>>;

    /// Removes what nobody needs: uploads and unreferenced blobs from before a time, and what deletions left behind.
    async fn sweep(&self, before: Timestamp) -> Result<Swept>;

    /// Writes a copy of the whole store, as it is at one moment, to a new file, while others go on.
    ///
    /// Errors: `Conflict` when the file exists; `Invalid` for a store that has no file.
    async fn backup(&self, to: PathBuf) -> Result<()>;

    /// Gives freed room back to the disk. A store that has none to give does nothing.
    async fn vacuum(&self) -> Result<()>;

    /// Proves that the database itself is whole; gives what is not.
    async fn check(&self) -> Result<Vec<Finding>>;

    /// Whom this store was opened for: the owner that its claims should name. None where any owner is as good.
    async fn owner(&self) -> Option<OwnerId>;

    /// What the store has counted since it was opened.
    async fn stats(&self) -> Result<Stats>;
}
