//! Frames: what a watcher is told.

use std::sync::Arc;

use everturn_core::{
    approval::ApprovalRecord,
    conversation::Conversation,
    cursor::Cursor,
    document::{Operation, ScopeKey},
    entry::EntryRecord,
    id::DocumentId,
    storage::{DocumentRecord, Part},
    submission::SubmissionRecord,
    task::TaskRecord,
};

use super::{Baseline, DocumentView, Revised};
use crate::session::state::Adopted;

/// What one commit changed of the watched part, or the part as it is.
///
/// ```
/// fn resume_here(frame: &everturn_engine::session::watch::Frame) -> String {
///     frame.cursor.to_string()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Frame {
    /// The commit: a watch from here goes on behind this frame.
    pub cursor: Cursor,
    /// What is told.
    pub kind: FrameKind,
}

/// What a frame tells.
///
/// ```
/// use everturn_engine::session::watch::{Baseline, FrameKind};
/// assert!(FrameKind::Reset(Baseline::default()).baseline().is_some());
/// ```
#[derive(Clone, Debug)]
pub enum FrameKind {
    /// The part as it was when the watch began.
    Baseline(Baseline),
    /// What a commit changed.
    Changed(Changed),
    /// The part as it is now: the watcher was too slow for what came before.
    Reset(Baseline),
    /// The part as it is now: what the watcher had seen is not, or no longer, what happened.
    Resync(Baseline),
}

impl FrameKind {
    /// The part as it is, where the frame tells that.
    pub fn baseline(&self) -> Option<&Baseline> {
        match self {
            Self::Baseline(baseline) | Self::Reset(baseline) | Self::Resync(baseline) => Some(baseline),
            Self::Changed(_) => None,
        }
    }
}

/// What a commit changed of the watched part.
///
/// ```
/// use everturn_engine::session::watch::Changed;
/// assert!(Changed::default().entries.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Conversations that it created.
    pub conversations: Vec<Arc<Conversation>>,
    /// Entries that it appended.
    pub entries: Vec<Arc<EntryRecord>>,
    /// Documents that it revised.
    pub documents: Vec<Revision>,
    /// Tasks that it created or moved. When it is told again from a cursor: those that nothing moved since.
    pub tasks: Vec<Arc<TaskRecord>>,
    /// Submissions that it created or moved. When it is told again: those that nothing moved since.
    pub submissions: Vec<Arc<SubmissionRecord>>,
    /// Approvals that it opened, decided or made void. When it is told again: those that nothing changed since.
    pub approvals: Vec<Arc<ApprovalRecord>>,
}

/// A document that a commit changed.
///
/// ```
/// use everturn_engine::session::watch::Revision;
/// fn is_reset(revision: &Revision) -> bool {
///     revision.operations.is_none() && revision.value.is_some()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Revision {
    /// The document.
    pub record: DocumentRecord,
    /// The number of the revision, one more with each.
    pub number: u64,
    /// What led from the value before to this one. None when the value stands for itself: a first one, one of another
    /// version, or one whose past is gone.
    pub operations: Option<Arc<[Operation]>>,
    /// The value; none when the document was retired.
    pub value: Option<DocumentView>,
}

impl From<&Revised> for Revision {
    fn from(revised: &Revised) -> Self {
        Self {
            record: revised.record.clone(),
            number: revised.number,
            operations: revised.operations.clone(),
            value: revised.committed.clone().map(DocumentView::from),
        }
    }
}

impl Frame {
    /// Whether it tells the end of the one document that it is about.
    pub(super) fn retires(&self) -> bool {
        match &self.kind {
            FrameKind::Changed(changed) => changed.documents.iter().any(|revision| revision.value.is_none()),
            _ => false,
        }
    }

    /// The first document that it tells of.
    pub(super) fn document(&self) -> Option<DocumentId> {
        match &self.kind {
            FrameKind::Changed(changed) => changed.documents.first().map(|revision| revision.record.id),
            kind => kind.baseline()?.documents.first().map(|document| document.record().id),
        }
    }
}

impl Changed {
    /// What of a commit belongs to a part.
    pub(super) fn of(adopted: &Adopted, part: &Part) -> Self {
        let is_in = |conversation| in_conversation(part, conversation);
        let conversations = adopted.conversations.iter().filter(|one| is_in(one.id));
        let entries = adopted.entries.iter().filter(|entry| is_in(entry.conversation));
        let submissions = adopted.submissions.iter().filter(|one| is_in(one.conversation));
        let approvals = adopted.approvals.iter().filter(|one| is_in(one.conversation));
        let tasks = adopted.tasks.iter().filter(|task| *part == Part::Tasks || is_in(task.conversation));
        let documents = adopted.documents.iter().filter(|revised| has_document(part, &revised.record));
        Self {
            conversations: conversations.cloned().collect(),
            entries: entries.cloned().collect(),
            documents: documents.map(Revision::from).collect(),
            tasks: tasks.cloned().collect(),
            submissions: submissions.cloned().collect(),
            approvals: approvals.cloned().collect(),
        }
    }

    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        let Self { conversations, entries, documents, tasks, submissions, approvals } = self;
        conversations.is_empty()
            && entries.is_empty()
            && documents.is_empty()
            && tasks.is_empty()
            && submissions.is_empty()
            && approvals.is_empty()
    }
}

/// Whether a commit changes something of a part.
pub(super) fn concerns(part: &Part, adopted: &Adopted) -> bool {
    let is_in = |conversation| in_conversation(part, conversation);
    match part {
        Part::Everything => true,
        Part::Tasks => !adopted.tasks.is_empty(),
        Part::Document { .. } => adopted.documents.iter().any(|one| has_document(part, &one.record)),
        Part::Conversation(_) => {
            adopted.entries.iter().any(|entry| is_in(entry.conversation))
                || adopted.documents.iter().any(|one| has_document(part, &one.record))
                || adopted.submissions.iter().any(|one| is_in(one.conversation))
                || adopted.approvals.iter().any(|one| is_in(one.conversation))
                || adopted.tasks.iter().any(|task| is_in(task.conversation))
                || adopted.conversations.iter().any(|one| is_in(one.id))
        }
    }
}

fn in_conversation(part: &Part, conversation: everturn_core::id::ConversationId) -> bool {
    match part {
        Part::Everything => true,
        Part::Conversation(id) => *id == conversation,
        Part::Document { .. } | Part::Tasks => false,
    }
}

fn has_document(part: &Part, record: &DocumentRecord) -> bool {
    match part {
        Part::Everything => true,
        Part::Conversation(id) => record.scope == ScopeKey::Conversation(*id),
        Part::Document { scope, kind } => record.scope == *scope && record.kind == *kind,
        Part::Tasks => false,
    }
}
