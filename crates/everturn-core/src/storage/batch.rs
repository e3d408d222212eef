//! One commit, as it is handed to a store.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use super::{DocumentWrite, Receipt, Taken};
use crate::{
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    id::{BlobId, Epoch, OwnerId, Seq, SessionId, TaskId},
    message::Part,
    submission::{End, Queued, SubmissionRecord, SubmissionState},
    task::{TaskOutcome, TaskRecord, TaskState, Woken},
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

impl Batch {
    /// Up to which commits the batch trims history, when all else of it is stored.
    pub fn trims(&self) -> impl Iterator<Item = Seq> + '_ {
        self.writes.iter().filter_map(|write| match write {
            Write::Trim(below) => Some(*below),
            _ => None,
        })
    }
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
    /// An approval, opened, decided or void.
    Approval(ApprovalRecord),
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
    /// Ended tasks, settled submissions, approvals that are not open, receipts and superseded revisions of commits up to
    /// this one are dropped.
    ///
    /// Shape: it comes behind all other writes of its batch, wherever it stands among them.
    /// Promise: an ended task whose owner is live stays, and so does one that a live task waits for, since they may still
    /// ask how it ended; an approval stays while its call lives, which may still ask what was decided. A later trim drops
    /// them when that is over.
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
    /// The caller sends the same batch again until it is told. What is stored stays stored once. What refuses a later
    /// copy for a while (`Unavailable`) says nothing of the first.
    Unknown,
}

/// About what the names and numbers of a record take, and those of a span of a lineage.
const RECORD: usize = 128;
const SPAN: usize = 48;

impl Write {
    /// About how many bytes of JSON it stores, without encoding it: all text and JSON that it brings, and a constant for
    /// what stands around it where records are many and small. Never much less than it stores, so it can be limited.
    ///
    /// ```
    /// use everturn_core::{id::Seq, storage::Write};
    /// assert_eq!(Write::Title("pumps".into()).weight(), 5);
    /// assert_eq!(Write::Trim(Seq(4)).weight(), 0, "it brings nothing");
    /// ```
    pub fn weight(&self) -> u64 {
        let bytes = match self {
            Self::Entry(entry) | Self::Purge(entry) => entry.weight(),
            Self::Conversation(conversation) => RECORD + SPAN * conversation.lineage.spans().len(),
            Self::Task(task) => return weight_of_task(task),
            Self::Submission(submission) => RECORD + of_submission(submission),
            Self::Approval(approval) => RECORD + of_approval(approval),
            Self::Document(write) => write.revision.weight(),
            Self::Usage(row) => RECORD + row.model.len(),
            Self::Title(title) => title.len(),
            Self::Labels(labels) => labels.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Self::Taken(taken) => taken.key.len() + of_receipt(&taken.receipt),
            Self::Blob(_) | Self::Trim(_) => 0,
        };
        bytes as u64
    }
}

/// What the write of a task [weighs](Write::weight).
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, storage::{Write, weight_of_task}, task::TaskRecord};
/// let task = TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0));
/// assert_eq!(weight_of_task(&task), Write::Task(task.clone()).weight());
/// ```
pub fn weight_of_task(task: &TaskRecord) -> u64 {
    (RECORD + of_task(task)) as u64
}

fn of_task(task: &TaskRecord) -> usize {
    let state = match &task.state {
        TaskState::Completing { outcome } | TaskState::Ended { outcome } => of_outcome(outcome),
        TaskState::Waiting { on, .. } => on.len() * size_of::<TaskId>(),
        TaskState::Listening { signal, .. } => signal.len(),
        TaskState::Ready { .. } | TaskState::Sleeping { .. } => 0,
    };
    let woken = task.woken.iter().filter_map(|woken| match woken {
        Woken::Signal(signal) => Some(signal),
        Woken::TimedOut => None,
    });
    let signals = task.signals.iter().chain(woken).map(|one| one.name.len() + one.payload.get().len());
    let memos = task.memos.iter().map(|(name, memo)| name.len() + memo.get().len());
    task.kind.len()
        + task.input.get().len()
        + task.checkpoint().map_or(0, |checkpoint| checkpoint.get().len())
        + task.abort.as_ref().map_or(0, String::len)
        + task.blocked.as_ref().map_or(0, |blocked| blocked.message.len())
        + signals.chain(memos).sum::<usize>()
        + state
}

fn of_outcome(outcome: &TaskOutcome) -> usize {
    let why = match outcome {
        TaskOutcome::Completed { .. } => 0,
        TaskOutcome::Failed { error, .. } | TaskOutcome::Faulted { error, .. } => {
            let detail = error.detail.as_ref().map_or(0, |detail| detail.get().len());
            error.kind.len() + error.message.len() + detail
        }
        TaskOutcome::Aborted { reason, .. } | TaskOutcome::Orphaned { reason } => reason.len(),
    };
    why + outcome.output().map_or(0, |output| output.get().len())
}

fn of_submission(submission: &SubmissionRecord) -> usize {
    let state = match &submission.state {
        SubmissionState::Queued(Queued { parts, options, entry, .. }) => {
            let written = options.iter().chain(entry).map(|json| json.get().len());
            parts.iter().map(Part::weight).chain(written).sum()
        }
        SubmissionState::Settled { end: End::Failed { reason } | End::Returned { reason }, .. } => {
            reason.len()
        }
        SubmissionState::Placed(_) | SubmissionState::Settled { .. } => 0,
    };
    submission.request.as_ref().map_or(0, String::len) + submission.actor.len() + state
}

fn of_approval(approval: &ApprovalRecord) -> usize {
    let question = match &approval.question {
        Question::Call { tool, arguments, directory, acts, verdict, policy, preview } => {
            let acts: usize = acts.iter().map(|act| act.to_string().len()).sum();
            let shown = preview.as_ref().map_or(0, |preview| preview.get().len());
            let place = directory.as_ref().map_or(0, String::len);
            tool.len() + arguments.get().len() + place + acts + verdict.rule.len() + policy.len() + shown
        }
        Question::Unknown { tool, arguments } => tool.len() + arguments.get().len(),
        Question::Person { text, choices } => text.len() + choices.iter().map(String::len).sum::<usize>(),
    };
    let state = match &approval.state {
        ApprovalState::Open => 0,
        ApprovalState::Decided { decision, actor, .. } => of_decision(decision) + actor.len(),
        ApprovalState::Void { reason, .. } => reason.len(),
    };
    question + state
}

fn of_decision(decision: &Decision) -> usize {
    match decision {
        Decision::Deny { reason } => reason.len(),
        Decision::Edit { arguments } => arguments.get().len(),
        Decision::Happened { text } => text.as_ref().map_or(0, String::len),
        Decision::Answer { text } => text.len(),
        Decision::Allow | Decision::AllowForSession | Decision::DidNotHappen | Decision::Stop => 0,
    }
}

fn of_receipt(receipt: &Receipt) -> usize {
    match receipt {
        Receipt::Accepted { .. } => 0,
        Receipt::Refused { kind, message } => kind.len() + message.len(),
    }
}
