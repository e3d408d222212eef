//! What commits changed, read from the rows that they stamped: the tables are the log.

use serde::{Deserialize, Serialize};

use super::{DocumentRecord, DocumentState, Revision};
use crate::{
    approval::ApprovalRecord,
    conversation::Conversation,
    document::ScopeKey,
    entry::EntryRecord,
    id::{ConversationId, Epoch, Seq, SessionId},
    submission::SubmissionRecord,
    task::TaskRecord,
};

/// Which commits.
///
/// ```
/// # use everturn_core::{id::{Epoch, Seq}, storage::ChangeQuery};
/// let query = ChangeQuery {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     epoch: Epoch(1), after: Seq(7), limit: 100,
/// };
/// assert_eq!(query.after, Seq(7));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ChangeQuery {
    /// The session.
    pub session: SessionId,
    /// The epoch in which the reader's place was committed.
    pub epoch: Epoch,
    /// The reader's place: only commits behind it.
    pub after: Seq,
    /// How many commits at most, of those that still have something to tell.
    pub limit: usize,
}

/// What the commits behind a place changed, all read at one moment.
///
/// ```
/// use everturn_core::storage::Changes;
/// fn is_all(changes: &Changes) -> bool { changes.until == changes.head }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The session's last commit.
    pub head: Seq,
    /// The session's newest epoch.
    pub epoch: Epoch,
    /// Up to which commit history was trimmed: of what came until then, only what was left is told.
    pub floor: Seq,
    /// The epochs that are newer than the query's, oldest first.
    pub epochs: Vec<EpochStart>,
    /// Up to which commit this tells all: the head, unless the limit came first.
    pub until: Seq,
    /// What documents were at the reader's place, for those whose first change here is a delta.
    pub before: Vec<DocumentState>,
    /// The commits that still have something to tell, oldest first.
    pub commits: Vec<Change>,
}

/// Where an epoch began.
///
/// ```
/// use everturn_core::{id::{Epoch, Seq}, storage::EpochStart};
/// assert_eq!(EpochStart { epoch: Epoch(2), head: Seq(7) }.head, Seq(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: Epoch,
    /// The head that its claim found.
    pub head: Seq,
}

/// What one commit changed, as far as its rows still say so.
///
/// Shape: conversations and entries always. Tasks, submissions and approvals as they are now, in the commit that
/// changed them last. Of a document the revisions that are kept: where older ones were superseded, the first is a base.
///
/// ```
/// use everturn_core::{id::Seq, storage::Change};
/// assert!(Change::of(Seq(3)).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The commit.
    pub seq: Seq,
    /// Conversations that it created.
    pub conversations: Vec<Conversation>,
    /// Entries that it appended.
    pub entries: Vec<EntryRecord>,
    /// Tasks that it created or moved.
    pub tasks: Vec<TaskRecord>,
    /// Submissions that it created or moved.
    pub submissions: Vec<SubmissionRecord>,
    /// Approvals that it opened, decided or made void.
    pub approvals: Vec<ApprovalRecord>,
    /// Documents that it revised.
    pub documents: Vec<DocumentChange>,
}

impl Change {
    /// A commit that changed nothing yet.
    pub fn of(seq: Seq) -> Self {
        Self { seq, ..Self::default() }
    }

    /// Whether it has nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::of(self.seq)
    }
}

/// A revision of a document with its number.
///
/// ```
/// # use everturn_core::{document::*, id::DocumentId, storage::*};
/// # let record = DocumentRecord { id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
/// #     history: History::Latest, fork: ForkPolicy::Initial };
/// let change = DocumentChange { record, number: 4, revision: Revision::Retired };
/// assert_eq!(change.number, 4);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentChange {
    /// The document.
    pub record: DocumentRecord,
    /// The number of the revision: 1 for the first of the incarnation, and one more for each commit that changed it.
    pub number: u64,
    /// The revision.
    pub revision: Revision,
}

/// A part of a session that can be looked at as it is, and followed.
///
/// ```
/// use everturn_core::{id::ConversationId, storage::Part};
/// assert_ne!(Part::Everything, Part::Conversation(ConversationId::ROOT));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// One document.
    Document {
        /// What it belongs to.
        scope: ScopeKey,
        /// Its kind.
        kind: String,
    },
    /// A conversation: its record, the entries of its context, its documents, its live work and open approvals.
    Conversation(ConversationId),
    /// All live tasks, and the conversations that they own.
    Tasks,
    /// Everything: conversations, documents, live work and open approvals. Of the transcripts, what comes.
    Everything,
}

/// What of which session.
///
/// ```
/// # use everturn_core::storage::{Part, ViewQuery};
/// let query = ViewQuery {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(), part: Part::Tasks,
/// };
/// assert_eq!(query.part, Part::Tasks);
/// ```
#[derive(Clone, Debug)]
pub struct ViewQuery {
    /// The session.
    pub session: SessionId,
    /// The part.
    pub part: Part,
}

/// A part of a session as it is at one moment.
///
/// ```
/// use everturn_core::storage::View;
/// fn is_at_rest(view: &View) -> bool { view.tasks.is_empty() && view.submissions.is_empty() }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The session's last commit.
    pub head: Seq,
    /// The session's newest epoch.
    pub epoch: Epoch,
    /// Conversations.
    pub conversations: Vec<Conversation>,
    /// The entries from the newest head on, oldest first.
    pub entries: Vec<EntryRecord>,
    /// Documents that are live.
    pub documents: Vec<DocumentState>,
    /// Tasks that have not ended.
    pub tasks: Vec<TaskRecord>,
    /// Submissions that have not ended.
    pub submissions: Vec<SubmissionRecord>,
    /// Approvals that are open.
    pub approvals: Vec<ApprovalRecord>,
}
