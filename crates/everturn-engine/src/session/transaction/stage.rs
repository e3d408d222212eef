//! What else a transaction can stage: tasks, metadata, mail, blobs, and what is taken away.

use std::collections::BTreeMap;

use everturn_core::{
    Error, Result,
    entry::kind,
    id::{BlobId, ConversationId, EntryId, Seq, TaskId},
    json::RawJson,
    storage::{Receipt, Taken, Write},
    task::{TaskRecord, TaskState},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Transaction;

/// A task that is to be created.
///
/// ```
/// use everturn_core::id::ConversationId;
/// use everturn_engine::session::NewTask;
/// let task = NewTask { background: true, ..NewTask::new(ConversationId::ROOT, "app.watch", 1) };
/// assert!(task.owner.is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The conversation it works for.
    pub conversation: ConversationId,
    /// The task whose work it is part of.
    pub owner: Option<TaskId>,
    /// Whether it neither keeps its conversation busy nor dies with it.
    pub background: bool,
    /// Whether it is aborted, and not carried on, when its session is opened anew.
    pub abandon_on_restart: bool,
    /// The name of its code.
    pub kind: String,
    /// The version of its code.
    pub version: u32,
    /// What it is given, once.
    pub input: RawJson,
    /// Where its first step begins; where its code says, without one.
    pub checkpoint: Option<RawJson>,
}

impl NewTask {
    /// A task of a kind without input.
    pub fn new(conversation: ConversationId, kind: impl Into<String>, version: u32) -> Self {
        Self {
            conversation,
            owner: None,
            background: false,
            abandon_on_restart: false,
            kind: kind.into(),
            version,
            input: RawJson::empty(),
            checkpoint: None,
        }
    }

    /// The same task with its input.
    ///
    /// Errors: `Invalid` when the value has no JSON form.
    pub fn input(mut self, input: &impl Serialize) -> Result<Self> {
        self.input = RawJson::of(input)?;
        Ok(self)
    }
}

impl Transaction {
    /// Creates a task. It runs when code of its kind is there and the session is resumed.
    ///
    /// Errors: what is wrong with the task itself. Whether its owner lives is checked by `commit`.
    pub fn create_task(&mut self, task: NewTask) -> Result<TaskId> {
        self.hold.place()?;
        let id = TaskId(self.mint());
        let record = self.record_of_task(id, task)?;
        self.put_task(record);
        Ok(id)
    }

    /// The record of a new task.
    pub(crate) fn record_of_task(&self, id: TaskId, task: NewTask) -> Result<TaskRecord> {
        let NewTask { conversation, owner, background, abandon_on_restart, kind, version, input, checkpoint } =
            task;
        let limits = self.limits();
        limits.check_name("the kind of a task", &kind)?;
        limits.check(&format!("the input of task {kind}"), input.get().len(), limits.entry)?;
        limits.check_depth(&format!("the input of task {kind}"), input.get())?;
        let state = TaskState::Ready { checkpoint };
        let record = TaskRecord::new(id, conversation, kind, self.time);
        Ok(TaskRecord { owner, background, abandon_on_restart, version, input, state, ..record })
    }

    /// Sets the session's title, as lists show it.
    pub fn set_title(&mut self, title: impl Into<String>) {
        self.writes.push(Write::Title(title.into()));
    }

    /// Sets the session's labels, all of them.
    pub fn set_labels(&mut self, labels: BTreeMap<String, String>) {
        self.writes.push(Write::Labels(labels));
    }

    /// Takes mail: it ends with this commit, and whatever else the commit holds is what came of it.
    ///
    /// Promise: mail is taken once. Errors: `Conflict`, from `commit`, when it was taken before.
    pub fn take(&mut self, key: impl Into<String>, receipt: Receipt) {
        self.writes.push(Write::Taken(Taken { key: key.into(), receipt }));
    }

    /// Refers to a blob from now on, so that it stays.
    ///
    /// Errors: `Invalid`, from `commit`, when there is no such blob.
    pub fn refer(&mut self, blob: BlobId) {
        self.writes.push(Write::Blob(blob));
    }

    /// Takes an entry's contents away, for good: a secret that leaked. Its place, kind, head and the hash of its contents
    /// stay; what it edited stays omitted. What a call was given is in the records of its task and of its approvals too, until those are trimmed.
    /// Purging again changes nothing.
    ///
    /// Errors: `NotFound` when the conversation does not see the entry; `Invalid` for one of this transaction, and for the account of
    /// a turn.
    pub async fn purge(&mut self, conversation: ConversationId, entry: EntryId) -> Result<()> {
        self.hold.place()?;
        if self.staged_entry(entry).is_some() {
            return Err(Error::invalid(format!("purge entry {entry}: this transaction appends it")));
        }
        let mut record = self.entry(conversation, entry).await?;
        if record.entry.is_purged() {
            return Ok(());
        }
        if record.kind == kind::TURN {
            return Err(Error::invalid(format!(
                "purge entry {entry}: it is the account of a turn and holds nothing that was said; purge what was said"
            )));
        }
        let hash = Sha256::digest(record.entry.to_body()?);
        record.entry = record.entry.purged(&format!("sha256:{hash:x}"));
        self.stage(entry.0, Write::Purge(record));
        Ok(())
    }

    /// Drops ended tasks, settled submissions, approvals that are not open, receipts and superseded revisions of commits up
    /// to `below`. Tasks that live ones own or wait for stay, and so do approvals of live calls. A watcher that comes from before gets everything anew.
    ///
    /// Errors: `Invalid` beyond the last commit.
    pub fn trim(&mut self, below: Seq) -> Result<()> {
        let (head, _) = self.hold.place()?;
        if below > head {
            return Err(Error::invalid(format!("trim up to seq {below}: the session is at {head}")));
        }
        self.writes.push(Write::Trim(below));
        Ok(())
    }
}
