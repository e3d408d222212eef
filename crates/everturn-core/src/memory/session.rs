//! One session's rows in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use crate::{
    clock::Timestamp,
    conversation::{Conversation, Span},
    document::{History, ScopeKey},
    entry::{EntryRecord, kind},
    error::{Error, Result},
    id::{ConversationId, DocumentId, EntryId, Epoch, OwnerId, Seq, SubmissionId, TaskId},
    storage::{
        Batch, Committed, Create, DocumentQuery, DocumentRecord, DocumentState, DocumentWrite, EntryQuery,
        Lease, Only, Order, Revision, SessionRow, SubmissionFilter, TaskQuery, Write,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};

pub(super) struct Session {
    pub(super) row: SessionRow,
    pub(super) conversations: BTreeMap<ConversationId, Conversation>,
    pub(super) usage: Vec<UsageRow>,
    entries: BTreeMap<(ConversationId, EntryId), EntryRecord>,
    tasks: BTreeMap<TaskId, TaskRecord>,
    live_tasks: BTreeSet<TaskId>,
    submissions: BTreeMap<SubmissionId, SubmissionRecord>,
    live_submissions: BTreeSet<SubmissionId>,
    requests: HashMap<(ConversationId, String), SubmissionId>,
    documents: BTreeMap<DocumentId, Document>,
    scopes: BTreeMap<ScopeKey, Vec<DocumentId>>,
}

struct Document {
    record: DocumentRecord,
    revisions: Vec<(Seq, Revision)>,
}

impl Session {
    pub(super) fn new(create: &Create) -> Self {
        let row = SessionRow {
            id: create.first.session,
            new: create.new.clone(),
            created: create.first.time,
            used: create.first.time,
            head: Seq(0),
            epoch: create.first.epoch,
            minted: 0,
            owner: Some((create.first.owner, create.until)),
        };
        Self {
            row,
            conversations: BTreeMap::new(),
            usage: Vec::new(),
            entries: BTreeMap::new(),
            tasks: BTreeMap::new(),
            live_tasks: BTreeSet::new(),
            submissions: BTreeMap::new(),
            live_submissions: BTreeSet::new(),
            requests: HashMap::new(),
            documents: BTreeMap::new(),
            scopes: BTreeMap::new(),
        }
    }

    /// Stores the owner and gives the lease of the present epoch.
    pub(super) fn lease(&mut self, owner: OwnerId, until: Timestamp) -> Lease {
        self.row.owner = Some((owner, until));
        Lease {
            session: self.row.id,
            owner,
            epoch: self.row.epoch,
            until,
            head: self.row.head,
            minted: self.row.minted,
        }
    }

    pub(super) fn check_owner(&self, owner: OwnerId, epoch: Epoch) -> Result<()> {
        if self.row.epoch == epoch && self.row.owner.is_some_and(|(holder, _)| holder == owner) {
            return Ok(());
        }
        Err(Error::fenced(format!(
            "commit to session {} in epoch {epoch}: the session is in epoch {}; open it again",
            self.row.id, self.row.epoch
        )))
    }

    pub(super) fn commit(&mut self, batch: &Batch) -> Result<Committed> {
        self.check_owner(batch.owner, batch.epoch)?;
        if batch.seq == self.row.head {
            return Ok(Committed::Already);
        }
        if batch.seq != self.row.head.next() {
            let Seq(head) = self.row.head;
            let message =
                format!("commit to session {} at seq {}: the session is at {head}", self.row.id, batch.seq);
            return Err(Error::conflict(message));
        }
        batch.writes.iter().try_for_each(|write| self.check(write))?;
        for write in &batch.writes {
            self.write(batch.seq, write.clone());
        }
        self.row.head = batch.seq;
        self.row.used = batch.time;
        self.row.minted = batch.minted;
        Ok(Committed::Stored)
    }

    /// What never changes may not be written twice, and a request id belongs to one submission.
    fn check(&self, write: &Write) -> Result<()> {
        let is_there = match write {
            Write::Entry(entry) => self.entries.contains_key(&(entry.conversation, entry.id)),
            Write::Conversation(conversation) => self.conversations.contains_key(&conversation.id),
            Write::Submission(submission) => self.is_taken(submission),
            _ => false,
        };
        if is_there {
            return Err(Error::invalid(format!(
                "commit to session {}: the record is there: {write:?}",
                self.row.id
            )));
        }
        Ok(())
    }

    fn is_taken(&self, submission: &SubmissionRecord) -> bool {
        let request = submission.request.clone();
        let key = request.map(|request| (submission.conversation, request));
        key.and_then(|key| self.requests.get(&key)).is_some_and(|holder| *holder != submission.id)
    }

    fn write(&mut self, seq: Seq, write: Write) {
        match write {
            Write::Conversation(conversation) => {
                self.conversations.insert(conversation.id, conversation);
            }
            Write::Entry(entry) => {
                self.entries.insert((entry.conversation, entry.id), entry);
            }
            Write::Task(task) => {
                toggle(&mut self.live_tasks, task.id, task.is_live());
                self.tasks.insert(task.id, task);
            }
            Write::Submission(submission) => {
                toggle(&mut self.live_submissions, submission.id, submission.is_live());
                if let Some(request) = &submission.request {
                    self.requests.insert((submission.conversation, request.clone()), submission.id);
                }
                self.submissions.insert(submission.id, submission);
            }
            Write::Document(write) => self.write_document(seq, write),
            Write::Usage(row) => self.usage.push(row),
            Write::Title(title) => self.row.new.title = Some(title),
        }
    }

    fn write_document(&mut self, seq: Seq, DocumentWrite { record, revision }: DocumentWrite) {
        let document = self.documents.entry(record.id).or_insert_with(|| {
            self.scopes.entry(record.scope).or_default().push(record.id);
            Document { record, revisions: Vec::new() }
        });
        if document.record.history == History::Latest && !matches!(revision, Revision::Delta { .. }) {
            document.revisions.clear();
        }
        document.revisions.push((seq, revision));
    }

    pub(super) fn entries(&self, query: &EntryQuery) -> Vec<EntryRecord> {
        let wanted = |entry: &&EntryRecord| match query.only {
            Only::All => true,
            Only::Heads => entry.head.is_some(),
            Only::Turns => entry.kind == kind::TURN,
        };
        let spans = query.lineage.spans();
        match query.order {
            Order::NewestFirst => {
                let all = spans.iter().flat_map(|span| self.span(query, span).rev());
                all.filter(wanted).take(query.limit).cloned().collect()
            }
            Order::OldestFirst => {
                let all = spans.iter().rev().flat_map(|span| self.span(query, span));
                all.filter(wanted).take(query.limit).cloned().collect()
            }
        }
    }

    fn span(&self, query: &EntryQuery, span: &Span) -> impl DoubleEndedIterator<Item = &EntryRecord> {
        let from = query.after.map_or(0, |after| after.0.saturating_add(1));
        let until = query.before.map_or(span.until.0, |before| span.until.0.min(before.0.saturating_sub(1)));
        let low = Bound::Included((span.conversation, EntryId(from)));
        let high = Bound::Excluded((span.conversation, EntryId(until.saturating_add(1).max(from))));
        self.entries.range((low, high)).map(|(_, entry)| entry)
    }

    pub(super) fn documents(&self, query: &DocumentQuery) -> Vec<DocumentState> {
        let ids = self.scopes.get(&query.scope).into_iter().flatten();
        let wanted =
            |document: &&Document| query.kind.as_ref().is_none_or(|kind| *kind == document.record.kind);
        ids.filter_map(|id| self.documents.get(id))
            .filter(wanted)
            .filter_map(|document| document.at(query.at))
            .collect()
    }

    pub(super) fn tasks(&self, query: &TaskQuery) -> Vec<TaskRecord> {
        let ids: Vec<TaskId> = match (&query.ids, query.live) {
            (Some(ids), _) => ids.clone(),
            (None, true) => self.live_tasks.iter().copied().collect(),
            (None, false) => self.tasks.keys().copied().collect(),
        };
        let tasks = ids.iter().filter_map(|id| self.tasks.get(id));
        let wanted = |task: &&TaskRecord| {
            (!query.live || task.is_live()) && query.owner.is_none_or(|owner| task.owner == Some(owner))
        };
        tasks.filter(wanted).cloned().collect()
    }

    pub(super) fn submissions(&self, only: &SubmissionFilter) -> Vec<SubmissionRecord> {
        let ids: Vec<SubmissionId> = match only {
            SubmissionFilter::All => self.submissions.keys().copied().collect(),
            SubmissionFilter::Live => self.live_submissions.iter().copied().collect(),
            SubmissionFilter::Id(id) => vec![*id],
            SubmissionFilter::Request(conversation, request) => {
                self.requests.get(&(*conversation, request.clone())).copied().into_iter().collect()
            }
        };
        ids.iter().filter_map(|id| self.submissions.get(id)).cloned().collect()
    }
}

impl Document {
    fn at(&self, at: Option<Seq>) -> Option<DocumentState> {
        let revisions = self.revisions.iter().take_while(|(seq, _)| at.is_none_or(|at| *seq <= at));
        let mut state: Option<DocumentState> = None;
        for (seq, revision) in revisions {
            match revision {
                Revision::Base { version, value } => {
                    state = Some(DocumentState {
                        record: self.record.clone(),
                        version: *version,
                        base: value.clone(),
                        deltas: Vec::new(),
                        seq: *seq,
                    });
                }
                Revision::Delta { operations } => {
                    let state = state.as_mut()?;
                    state.deltas.push(operations.clone());
                    state.seq = *seq;
                }
                Revision::Retired => state = None,
            }
        }
        state
    }
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, id: T, is_live: bool) {
    if is_live {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
