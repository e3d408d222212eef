//! Conversations, and what of the transcript each of them sees.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, EntryId, TaskId},
};

/// A transcript in a session. Immutable: what changes is kept in entries and documents.
///
/// ```
/// use everturn_core::{clock::Timestamp, conversation::Conversation, id::{ConversationId, EntryId}};
///
/// let root = Conversation::new(ConversationId::ROOT, None, Timestamp(0));
/// let fork = root.fork(ConversationId(9), EntryId(4), None, Timestamp(0));
/// assert_eq!(fork.parent.unwrap().at, EntryId(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// What history it inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Whose work it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<TaskId>,
    /// When it was created.
    pub time: Timestamp,
    /// What it sees.
    pub lineage: Lineage,
}

/// Where a conversation forked from.
///
/// ```
/// use everturn_core::{conversation::Parent, id::{ConversationId, EntryId}};
/// let parent = Parent { conversation: ConversationId::ROOT, at: EntryId(4) };
/// assert_eq!(parent.at, EntryId(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The conversation.
    pub conversation: ConversationId,
    /// The last entry that is inherited.
    pub at: EntryId,
}

/// Whose work a new conversation is.
///
/// ```
/// use everturn_core::{conversation::Ownership, id::TaskId};
/// assert_eq!(Ownership::Task(TaskId(7)).task(), Some(TaskId(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Nobody's: it lives until the session is deleted.
    Ownerless,
    /// A task's: it is part of that task's work.
    Task(TaskId),
}

impl Ownership {
    /// The owning task.
    pub fn task(self) -> Option<TaskId> {
        match self {
            Self::Ownerless => None,
            Self::Task(task) => Some(task),
        }
    }
}

impl Conversation {
    /// A conversation that inherits nothing.
    pub fn new(id: ConversationId, owner: Option<TaskId>, time: Timestamp) -> Self {
        Self { id, parent: None, owner, time, lineage: Lineage::new(id) }
    }

    /// A conversation that inherits this one's history up to and including the entry `at`.
    #[must_use]
    pub fn fork(&self, id: ConversationId, at: EntryId, owner: Option<TaskId>, time: Timestamp) -> Self {
        let parent = Some(Parent { conversation: self.id, at });
        Self { id, parent, owner, time, lineage: self.lineage.fork(id, at) }
    }
}

/// What a conversation sees: its own entries, then each ancestor's up to a cap, newest first.
///
/// Shape: ids come from one number space, so the spans are ranges of ids that do not overlap, and reading them one
/// after the other reads the transcript newest first. Ancestors of which nothing is visible are left out, so that a
/// page costs the same at any depth.
///
/// ```
/// use everturn_core::{conversation::Lineage, id::{ConversationId, EntryId}};
///
/// let parent = Lineage::new(ConversationId(1));
/// let fork = parent.fork(ConversationId(9), EntryId(4));
/// assert!(fork.sees(ConversationId(1), EntryId(4)));
/// assert!(!fork.sees(ConversationId(1), EntryId(5)), "what the parent appended later is not visible");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage {
    spans: Vec<Span>,
}

/// A conversation's entries up to a cap.
///
/// ```
/// use everturn_core::{conversation::Span, id::{ConversationId, EntryId}};
/// let span = Span { conversation: ConversationId(1), until: EntryId(4) };
/// assert_eq!(span.until, EntryId(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Whose entries.
    pub conversation: ConversationId,
    /// The last entry that may be visible.
    pub until: EntryId,
}

impl Lineage {
    /// What a conversation without a parent sees.
    pub fn new(conversation: ConversationId) -> Self {
        // SQL integers are signed.
        Self { spans: vec![Span { conversation, until: EntryId(i64::MAX as u64) }] }
    }

    /// What a fork at the entry `at` sees.
    #[must_use]
    pub fn fork(&self, conversation: ConversationId, at: EntryId) -> Self {
        let inherited = self.capped(at);
        Self { spans: Self::new(conversation).spans.into_iter().chain(inherited.spans).collect() }
    }

    /// The same, up to and including the entry `at`.
    #[must_use]
    pub fn capped(&self, at: EntryId) -> Self {
        let capped = self.spans.iter().map(|span| Span { until: span.until.min(at), ..*span });
        // A conversation's own entries have greater ids than itself.
        Self { spans: capped.filter(|span| span.until.0 > span.conversation.0).collect() }
    }

    /// The spans, newest first.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether an entry of a conversation is visible.
    pub fn sees(&self, conversation: ConversationId, entry: EntryId) -> bool {
        self.spans.iter().any(|span| span.conversation == conversation && entry <= span.until)
    }
}
