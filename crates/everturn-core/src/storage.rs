//! The storage port: one database that holds many sessions.

mod query;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    conversation::Conversation,
    document::{ForkPolicy, History, ScopeKey},
    entry::EntryRecord,
    error::Result,
    id::{ConversationId, DocumentId, Epoch, OwnerId, Seq, SessionId},
    json::RawJson,
    port::port,
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};
pub use query::{
    DocumentQuery, EntryQuery, Only, Order, SessionQuery, SubmissionFilter, SubmissionQuery, TaskQuery,
};

port! {
    /// A database of sessions.
    ///
    /// Promise: reads see committed state only, and never block a writer. Cancelling a caller leaves nothing half
    /// done. Each promise is a function of `everturn-testkit`, which every backend runs.
    /// Errors: those of [`ErrorKind`](crate::ErrorKind), each with its own meaning; none is reported as another.
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

    /// Creates a session together with its first commit, owned by the batch's owner at epoch 1.
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

    /// Gives a lease up. A lease that is no longer held is left alone.
    async fn release(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()>;

    /// Commits one batch of writes to a session, all of it or none.
    ///
    /// Shape: the batch's seq must be the session's head + 1; writes keep their order.
    /// Promise: when this returns, a durable batch survives a crash of the process, the database and the power; a
    /// relaxed one survives our process, and the next durable batch makes it durable too.
    /// Errors: `Fenced` when a newer lease exists; `Conflict` when the head is another; `Unavailable` when nothing
    /// was stored and trying again may help.
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

    /// A session's ledger, oldest first.
    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>>;

    /// Whom this store was opened for: the owner that its claims should name. None where any owner is as good.
    async fn owner(&self) -> Option<OwnerId>;

    /// What the store has counted since it was opened.
    async fn stats(&self) -> Result<Stats>;
}

/// A session that is to be created.
///
/// ```
/// use everturn_core::storage::NewSession;
/// assert!(NewSession::default().title.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// The creator's own id of the creation, unique in the store: creating again with it gives the same session.
    pub request: Option<String>,
    /// What a list shows.
    pub title: Option<String>,
    /// The application's own words about it.
    pub labels: BTreeMap<String, String>,
    /// The session that this one came from.
    pub parent: Option<SessionId>,
}

/// A session with its first commit.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::*, storage::*};
/// # fn batch() -> Batch {
/// #     Batch { session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
/// #         owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(), epoch: Epoch(1), seq: Seq(1),
/// #         time: Timestamp(0), durability: Durability::Durable, minted: 1, due: Due::None, writes: vec![] }
/// # }
/// let create = Create { new: NewSession::default(), first: batch(), until: Timestamp(30_000) };
/// assert_eq!((create.first.epoch, create.first.seq), (Epoch(1), Seq(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Create {
    /// What the session's row says.
    pub new: NewSession,
    /// The first commit: epoch 1, seq 1.
    pub first: Batch,
    /// When the creator's lease ends.
    pub until: Timestamp,
}

/// What came of a creation.
///
/// ```
/// use everturn_core::storage::Created;
/// let existing = Created::Existing("0198c0de-0000-7000-8000-000000000000".parse().unwrap());
/// assert!(matches!(existing, Created::Existing(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The session is there, and the creator owns it.
    New(Lease),
    /// The request id had created this session before; nothing was stored.
    Existing(SessionId),
}

/// Who wants to own which session for how long.
///
/// ```
/// # use everturn_core::{clock::Timestamp, storage::Claim};
/// let claim = Claim {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
///     now: Timestamp(0),
///     until: Timestamp(30_000),
/// };
/// assert!(claim.until > claim.now);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The session.
    pub session: SessionId,
    /// The owner, random per opened store.
    pub owner: OwnerId,
    /// The owner's clock. A database that many machines share goes by its own instead.
    pub now: Timestamp,
    /// When the lease ends, unless it is renewed.
    pub until: Timestamp,
}

/// The right to commit to a session until it expires.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::*, storage::Lease};
/// let lease = Lease {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
///     epoch: Epoch(2), until: Timestamp(30_000), head: Seq(7), minted: 31,
/// };
/// assert_eq!(lease.head.next(), Seq(8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Who owns it.
    pub owner: OwnerId,
    /// How often it was claimed.
    pub epoch: Epoch,
    /// When the lease ends.
    pub until: Timestamp,
    /// The last commit.
    pub head: Seq,
    /// The greatest id that was given out.
    pub minted: u64,
}

/// One session's writes, to be stored all or none.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::*, storage::*};
/// let batch = Batch {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
///     epoch: Epoch(1), seq: Seq(2), time: Timestamp(0), durability: Durability::Relaxed,
///     minted: 4, due: Due::None, writes: vec![],
/// };
/// assert_eq!(batch.seq, Seq(1).next());
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    /// The session.
    pub session: SessionId,
    /// Who commits.
    pub owner: OwnerId,
    /// Under which lease.
    pub epoch: Epoch,
    /// The commit's number: head + 1.
    pub seq: Seq,
    /// When it was decided.
    pub time: Timestamp,
    /// What it must survive.
    pub durability: Durability,
    /// The greatest id that was given out, this batch's included.
    pub minted: u64,
    /// When the session wants to run next.
    pub due: Due,
    /// The writes, in order.
    pub writes: Vec<Write>,
}

/// What a commit must survive when it returns.
///
/// ```
/// use everturn_core::storage::Durability;
/// assert!(Durability::Durable > Durability::Relaxed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The end of our process. For partial output only.
    Relaxed,
    /// The end of the power.
    Durable,
}

/// When a session wants to run next, computed from its tasks.
///
/// ```
/// use everturn_core::{clock::Timestamp, storage::Due};
/// assert!(Due::Now < Due::At(Timestamp(5)) && Due::At(Timestamp(5)) < Due::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// As soon as someone can.
    Now,
    /// At a moment.
    At(Timestamp),
    /// Not by itself.
    None,
}

/// One write of a batch. Records that exist are replaced, but for entries and conversations, which never change.
///
/// ```
/// use everturn_core::{clock::Timestamp, conversation::Conversation, id::ConversationId, storage::Write};
/// let write = Write::Conversation(Conversation::new(ConversationId::ROOT, None, Timestamp(0)));
/// assert!(matches!(write, Write::Conversation(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A new conversation.
    Conversation(Conversation),
    /// A new entry.
    Entry(EntryRecord),
    /// A task, new or moved.
    Task(TaskRecord),
    /// A submission, new or moved.
    Submission(SubmissionRecord),
    /// A revision of a document.
    Document(DocumentWrite),
    /// A row of the ledger.
    Usage(UsageRow),
    /// The session's title.
    Title(String),
}

/// A document's identity and what its type says of it, so that it can be handled without its type.
///
/// ```
/// use everturn_core::{document::*, id::DocumentId, storage::DocumentRecord};
/// let record = DocumentRecord {
///     id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
///     history: History::Latest, fork: ForkPolicy::Initial,
/// };
/// assert_eq!(record.kind, "app.notes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    /// The id of this incarnation.
    pub id: DocumentId,
    /// What it belongs to.
    pub scope: ScopeKey,
    /// Its kind.
    pub kind: String,
    /// Which revisions are kept.
    pub history: History,
    /// What a fork of its conversation starts with.
    pub fork: ForkPolicy,
}

/// A revision of a document.
///
/// ```
/// use everturn_core::{json::RawJson, storage::Revision};
/// let base = Revision::Base { version: 1, value: RawJson::empty() };
/// assert_ne!(base, Revision::Retired);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Revision {
    /// The whole value. The first revision of an incarnation is one.
    ///
    /// Promise: a base of a document with `latest` history takes the place of all older revisions.
    Base {
        /// The version of the type that wrote it.
        version: u32,
        /// The value.
        value: RawJson,
    },
    /// What changed since the revision before: a JSON array of operations.
    Delta {
        /// The operations.
        operations: RawJson,
    },
    /// The incarnation has ended. Nothing may follow.
    Retired,
}

/// A revision with the document it belongs to.
///
/// ```
/// # use everturn_core::{document::*, id::DocumentId, storage::*};
/// # let record = DocumentRecord { id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
/// #     history: History::Latest, fork: ForkPolicy::Initial };
/// let write = DocumentWrite { record, revision: Revision::Retired };
/// assert_eq!(write.record.id, DocumentId(3));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentWrite {
    /// The document.
    pub record: DocumentRecord,
    /// The revision.
    pub revision: Revision,
}

/// A document's value at a seq, as base and deltas.
///
/// ```
/// # use everturn_core::{document::*, id::{DocumentId, Seq}, json::RawJson, storage::*};
/// # let record = DocumentRecord { id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
/// #     history: History::Latest, fork: ForkPolicy::Initial };
/// let state = DocumentState { record, version: 1, base: RawJson::empty(), deltas: vec![], seq: Seq(2) };
/// assert!(state.deltas.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentState {
    /// The document.
    pub record: DocumentRecord,
    /// The version of the base.
    pub version: u32,
    /// The newest base.
    pub base: RawJson,
    /// The deltas since, oldest first.
    pub deltas: Vec<RawJson>,
    /// The commit of the newest revision.
    pub seq: Seq,
}

/// A session as a list shows it.
///
/// ```
/// fn title(row: &everturn_core::storage::SessionRow) -> &str {
///     row.new.title.as_deref().unwrap_or("untitled")
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// What its creator, or a later commit, said of it.
    pub new: NewSession,
    /// When it was created.
    pub created: Timestamp,
    /// When it was last committed to.
    pub used: Timestamp,
    /// Its last commit.
    pub head: Seq,
    /// The newest epoch.
    pub epoch: Epoch,
    /// The greatest id that was given out.
    pub minted: u64,
    /// Who owns it, and until when.
    pub owner: Option<(OwnerId, Timestamp)>,
}

/// What came of a commit.
///
/// ```
/// use everturn_core::storage::Committed;
/// assert_ne!(Committed::Stored, Committed::Already);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is stored.
    Stored,
    /// It had been stored before, by this epoch; nothing changed.
    Already,
}

/// Counters of a store since it was opened.
///
/// ```
/// use everturn_core::storage::Stats;
/// assert_eq!(Stats::default().commits, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Batches that were stored.
    pub commits: u64,
    /// Database transactions that stored them.
    pub groups: u64,
    /// Transactions that were synced before they returned.
    pub syncs: u64,
}
