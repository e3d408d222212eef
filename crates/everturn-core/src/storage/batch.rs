//! One commit, as it is handed to a store.

use std::{collections::BTreeMap, sync::Arc};

use super::{DocumentWrite, Taken};
use crate::{
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    id::{BlobId, Epoch, OwnerId, Seq, SessionId},
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};

/// One session's writes, to be stored all or none.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::*, storage::*};
/// let batch = Batch {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
///     epoch: Epoch(1), seq: Seq(2), time: Timestamp(0), durability: Durability::Relaxed,
///     minted: 4, due: Due::None, writes: [].into(),
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
    /// The writes, in order. Shared, so that a batch can be sent again without a copy.
    pub writes: Arc<[Write]>,
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
    /// The session's labels, all of them.
    Labels(BTreeMap<String, String>),
    /// Mail that the commit acts on. It must be waiting.
    Taken(Taken),
    /// A blob that the session refers to from now on. It must be sealed.
    Blob(BlobId),
    /// What is left of an entry whose contents are taken away; it keeps its place, its kind and its head.
    Purge(EntryRecord),
    /// Ended tasks, settled submissions, receipts and superseded revisions of commits up to this one are dropped.
    Trim(Seq),
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
    /// Nobody can say yet whether it is stored: the connection was lost, or a deadline passed, on the way.
    ///
    /// The caller sends the same batch again until it is told. What is stored stays stored once.
    Unknown,
}

impl Write {
    /// About how many bytes of JSON it stores: a lower bound that costs no encoding.
    pub fn weight(&self) -> u64 {
        let bytes = match self {
            Self::Entry(entry) => entry.weight(),
            Self::Task(task) => task.input.get().len(),
            Self::Document(write) => write.revision.weight(),
            Self::Title(title) => title.len(),
            Self::Labels(labels) => labels.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Self::Conversation(_)
            | Self::Submission(_)
            | Self::Usage(_)
            | Self::Taken(_)
            | Self::Blob(_)
            | Self::Purge(_)
            | Self::Trim(_) => 0,
        };
        bytes as u64
    }
}
