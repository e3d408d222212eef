//! Verification: whether all that a session has stored agrees with itself. Pure; it changes nothing and repairs nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use crate::{
    approval::ApprovalRecord,
    conversation::Conversation,
    entry::EntryRecord,
    id::{ConversationId, EntryId, Seq, TaskId},
    message::{CallId, Message},
    storage::SessionRow,
    submission::{End, SubmissionRecord, SubmissionState},
    task::TaskRecord,
    usage::UsageRow,
};

/// Something that a session has stored and that contradicts the rest.
///
/// ```
/// use everturn_core::verify::Finding;
/// let finding = Finding { record: "entry 9".into(), what: "its conversation 7 is not there".into() };
/// assert_eq!(finding.to_string(), "entry 9: its conversation 7 is not there");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The record.
    pub record: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.record, self.what)
    }
}

/// All that a session has stored, but for documents, which prove themselves when they are read.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::{Epoch, Seq}, storage::{NewSession, SessionRow}};
/// use everturn_core::verify::Stored;
///
/// let row = SessionRow {
///     id: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(), new: NewSession::default(),
///     created: Timestamp(0), used: Timestamp(0), head: Seq(1), epoch: Epoch(1), minted: 1, bytes: 0,
///     owner: None,
/// };
/// let findings = Stored::new(row).verify();
/// assert_eq!(findings[0].to_string(), "conversation 1: the root is not there");
/// ```
#[derive(Clone, Debug)]
pub struct Stored {
    /// The session's row.
    pub row: SessionRow,
    /// Up to which commit history was trimmed: work that ended until then may be gone, or there for who needs it.
    pub floor: Seq,
    /// All conversations.
    pub conversations: Vec<Conversation>,
    /// All entries of all conversations.
    pub entries: Vec<EntryRecord>,
    /// All tasks.
    pub tasks: Vec<TaskRecord>,
    /// All submissions that are known.
    pub submissions: Vec<SubmissionRecord>,
    /// All approvals that are known.
    pub approvals: Vec<ApprovalRecord>,
    /// The ledger.
    pub usage: Vec<UsageRow>,
}

impl Stored {
    /// A session of which nothing was read yet.
    pub fn new(row: SessionRow) -> Self {
        Self {
            row,
            floor: Seq(0),
            conversations: Vec::new(),
            entries: Vec::new(),
            tasks: Vec::new(),
            submissions: Vec::new(),
            approvals: Vec::new(),
            usage: Vec::new(),
        }
    }

    /// Proves that ids are unique and below the mint mark, that seqs never go back and none is beyond the head, that
    /// every reference resolves, that each call has at most one result in its conversation, that no ended task owns live
    /// work, and that none is waited for by an open approval. Gives everything that is wrong, not just the first.
    pub fn verify(&self) -> Vec<Finding> {
        let mut check = Check { stored: self, index: Index::new(self), findings: Vec::new() };
        check.ids();
        check.conversations();
        check.entries();
        check.calls();
        check.tasks();
        check.submissions();
        check.approvals();
        check.usage();
        check.findings
    }
}

/// What is there, by id.
struct Index<'a> {
    conversations: BTreeMap<ConversationId, &'a Conversation>,
    entries: BTreeMap<EntryId, &'a EntryRecord>,
    tasks: BTreeMap<TaskId, &'a TaskRecord>,
    /// The greatest id that may be older than the floor: a task up to it may be gone.
    trimmed: u64,
}

impl<'a> Index<'a> {
    fn new(stored: &'a Stored) -> Self {
        Self {
            conversations: stored.conversations.iter().map(|one| (one.id, one)).collect(),
            entries: stored.entries.iter().map(|one| (one.id, one)).collect(),
            tasks: stored.tasks.iter().map(|one| (one.id, one)).collect(),
            trimmed: trimmed(stored),
        }
    }

    /// Whether a task is there, or was trimmed.
    fn knows(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task) || task.0 <= self.trimmed
    }
}

/// Ids grow with commits, and tasks do not say in which they ended. What ended up to the floor was given its id before the
/// first entry behind it: whatever is older may be gone, also where no entry tells that it was.
fn trimmed(stored: &Stored) -> u64 {
    if stored.floor == Seq(0) {
        return 0;
    }
    let behind = stored.entries.iter().filter(|entry| entry.seq > stored.floor).map(|entry| entry.id.0);
    behind.min().map_or(stored.row.minted, |first| first.saturating_sub(1))
}

struct Check<'a> {
    stored: &'a Stored,
    index: Index<'a>,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn find(&mut self, record: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Finding { record: record.into(), what: what.into() });
    }

    fn ids(&mut self) {
        let Stored { conversations, entries, tasks, submissions, approvals, .. } = self.stored;
        let ids = conversations.iter().map(|one| ("conversation", one.id.0));
        let ids = ids.chain(entries.iter().map(|one| ("entry", one.id.0)));
        let ids = ids.chain(tasks.iter().map(|one| ("task", one.id.0)));
        let ids = ids.chain(submissions.iter().map(|one| ("submission", one.id.0)));
        let ids = ids.chain(approvals.iter().map(|one| ("approval", one.id.0)));
        let (mut seen, minted) = (HashMap::new(), self.stored.row.minted);
        for (noun, id) in ids {
            if let Some(other) = seen.insert(id, noun) {
                self.find(format!("{noun} {id}"), format!("its id is that of a {other} too"));
            }
            if id > minted {
                self.find(
                    format!("{noun} {id}"),
                    format!("its id is beyond the greatest that was given out, {minted}"),
                );
            }
        }
    }

    fn conversations(&mut self) {
        if !self.index.conversations.contains_key(&ConversationId::ROOT) {
            self.find("conversation 1", "the root is not there");
        }
        for conversation in &self.stored.conversations {
            let record = format!("conversation {}", conversation.id);
            if let Some(owner) = conversation.owner.filter(|owner| !self.index.knows(*owner)) {
                self.find(&record, format!("its owner, task {owner}, is not there"));
            }
            let Some(parent) = conversation.parent else { continue };
            match self.index.conversations.get(&parent.conversation) {
                None => self
                    .find(&record, format!("its parent, conversation {}, is not there", parent.conversation)),
                Some(found) if found.lineage.fork(conversation.id, parent.at) != conversation.lineage => {
                    self.find(&record, "what it sees is not what its parent saw at the fork");
                }
                Some(_) => {}
            }
            if !self.index.entries.contains_key(&parent.at) {
                self.find(&record, format!("the entry that it forks at, {}, is not there", parent.at));
            }
        }
    }

    fn entries(&mut self) {
        let mut before: Option<(EntryId, Seq)> = None;
        for entry in self.index.entries.clone().into_values() {
            let record = format!("entry {}", entry.id);
            if entry.seq > self.stored.row.head {
                let (seq, head) = (entry.seq, self.stored.row.head);
                self.find(&record, format!("its commit, {seq}, is beyond the session's last, {head}"));
            }
            if let Some((id, seq)) = before.replace((entry.id, entry.seq)).filter(|(_, seq)| *seq > entry.seq)
            {
                self.find(&record, format!("its commit, {}, is before that of entry {id}, {seq}", entry.seq));
            }
            if let Some(task) = entry.task.filter(|task| !self.index.knows(*task)) {
                self.find(&record, format!("task {task}, which wrote it, is not there"));
            }
            self.targets(entry, &record);
        }
    }

    /// What an entry points at is visible from its conversation.
    fn targets(&mut self, entry: &EntryRecord, record: &str) {
        let Some(conversation) = self.index.conversations.get(&entry.conversation) else {
            self.find(record, format!("its conversation, {}, is not there", entry.conversation));
            return;
        };
        let head = entry.head.map(|head| head.entry(entry.id));
        let targets: Vec<EntryId> =
            head.into_iter().chain(entry.edits.iter().map(|edit| edit.target)).collect();
        let lineage = conversation.lineage.clone();
        for target in targets {
            let found = self.index.entries.get(&target);
            if !found.is_some_and(|found| lineage.sees(found.conversation, target)) {
                self.find(record, format!("entry {target}, which it points at, is not visible from there"));
            }
        }
    }

    fn calls(&mut self) {
        let mut results: HashSet<(ConversationId, &CallId)> = HashSet::new();
        let mut twice = Vec::new();
        for entry in &self.stored.entries {
            for message in &entry.messages {
                if let Message::Result(result) = &**message
                    && !results.insert((entry.conversation, &result.call))
                {
                    twice.push((entry.id, result.call.clone()));
                }
            }
        }
        for (entry, call) in twice {
            self.find(format!("entry {entry}"), format!("call {call} has a result already"));
        }
    }

    fn tasks(&mut self) {
        for task in &self.stored.tasks {
            let record = format!("task {}", task.id);
            if !self.index.conversations.contains_key(&task.conversation) {
                self.find(&record, format!("its conversation, {}, is not there", task.conversation));
            }
            match task.owner.map(|owner| (owner, self.index.tasks.get(&owner).map(|owner| owner.is_live()))) {
                Some((owner, None)) if !self.index.knows(owner) => {
                    self.find(&record, format!("its owner, task {owner}, is not there"));
                }
                // Background work may outlive what it was begun by.
                Some((owner, Some(false))) if task.is_live() && !task.background => {
                    self.find(&record, format!("it is live, and its owner, task {owner}, has ended"));
                }
                None if task.is_live() && !task.background => self.owner_of_conversation(task, &record),
                _ => {}
            }
        }
    }

    /// Work in a conversation that a task owns is that task's.
    fn owner_of_conversation(&mut self, task: &TaskRecord, record: &str) {
        let owner = self.index.conversations.get(&task.conversation).and_then(|found| found.owner);
        if let Some(owner) = owner.filter(|owner| self.index.tasks.get(owner).is_some_and(|o| !o.is_live())) {
            self.find(
                record,
                format!("it is live, and task {owner}, which owns its conversation, has ended"),
            );
        }
    }

    fn submissions(&mut self) {
        for submission in &self.stored.submissions {
            let record = format!("submission {}", submission.id);
            if let SubmissionState::Settled { end: End::Written { entry }, .. } = &submission.state
                && !self.index.entries.contains_key(entry)
            {
                self.find(&record, format!("entry {entry}, as which it was written, is not there"));
            }
            let Some(place) = submission.place() else { continue };
            let turn = self.index.tasks.get(&place.turn).map(|turn| turn.is_live());
            match turn {
                None if self.index.knows(place.turn) => {}
                None => self.find(&record, format!("its turn, task {}, is not there", place.turn)),
                Some(is_live) if is_live != submission.is_live() => {
                    self.find(
                        &record,
                        format!("it and its turn, task {}, have not ended together", place.turn),
                    );
                }
                Some(_) => {}
            }
            if !self.index.entries.contains_key(&place.entry) {
                self.find(&record, format!("its entry, {}, is not there", place.entry));
            }
        }
    }

    /// Someone waits for an open approval. Of those that are over, tasks may be gone.
    fn approvals(&mut self) {
        for approval in &self.stored.approvals {
            let record = format!("approval {}", approval.id);
            if !self.index.conversations.contains_key(&approval.conversation) {
                self.find(&record, format!("its conversation, {}, is not there", approval.conversation));
            }
            let call = approval.call;
            match self.index.tasks.get(&call).map(|call| call.is_live()) {
                Some(true) => {}
                _ if approval.is_open() => {
                    self.find(&record, format!("it is open, and its call, task {call}, is not live"));
                }
                None if !self.index.knows(call) => {
                    self.find(&record, format!("its call, task {call}, is not there"));
                }
                _ => {}
            }
            if let Some(turn) = approval.turn.filter(|turn| !self.index.knows(*turn)) {
                self.find(&record, format!("its turn, task {turn}, is not there"));
            }
        }
    }

    fn usage(&mut self) {
        let mut seen = HashSet::new();
        for row in &self.stored.usage {
            let record =
                format!("the ledger's row of turn {}, step {}, attempt {}", row.turn, row.step, row.attempt);
            if !seen.insert((row.turn, row.step, row.attempt)) {
                self.find(&record, "the request is there twice");
            }
            if !self.index.knows(row.turn) {
                self.find(&record, "the turn is not there");
            }
        }
    }
}
