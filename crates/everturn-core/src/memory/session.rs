//! One session's rows in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Bound,
};

use super::once::Taking;
use crate::{
    approval::ApprovalRecord,
    clock::Timestamp,
    conversation::{Conversation, Span},
    document::{History, ScopeKey},
    entry::{EntryRecord, kind},
    error::{Error, Result},
    id::{
        ApprovalId, BlobId, ConversationId, DocumentId, EntryId, Epoch, OwnerId, Seq, SessionId,
        SubmissionId, TaskId,
    },
    storage::{
        ApprovalQuery, ApprovalRow, Batch, Committed, Create, DocumentQuery, DocumentRecord, DocumentState,
        DocumentWrite, Due, EntryQuery, EpochStart, Hit, Lease, Mail, MailFilter, MailRow, Only, Order,
        Posted, Receipt, Revision, RunnableQuery, SessionRow, SubmissionFilter, TaskQuery, Write, excerpt,
        terms,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};

pub(super) struct Session {
    pub(super) row: SessionRow,
    pub(super) due: Due,
    pub(super) usage: Vec<UsageRow>,
    pub(super) blobs: HashSet<BlobId>,
    /// Where each epoch began, oldest first.
    pub(super) epochs: Vec<EpochStart>,
    /// How many commits the store had seen before each of this session's.
    stored: HashMap<Seq, u64>,
    /// Up to which commit history was trimmed.
    pub(super) floor: Seq,
    pub(super) conversations: BTreeMap<ConversationId, (Seq, Conversation)>,
    pub(super) entries: BTreeMap<(ConversationId, EntryId), EntryRecord>,
    pub(super) tasks: BTreeMap<TaskId, (Seq, TaskRecord)>,
    live_tasks: BTreeSet<TaskId>,
    pub(super) submissions: BTreeMap<SubmissionId, (Seq, SubmissionRecord)>,
    live_submissions: BTreeSet<SubmissionId>,
    pub(super) approvals: BTreeMap<ApprovalId, (Seq, ApprovalRecord)>,
    open_approvals: BTreeSet<ApprovalId>,
    requests: HashMap<(ConversationId, String), SubmissionId>,
    pub(super) documents: BTreeMap<DocumentId, Document>,
    scopes: BTreeMap<ScopeKey, Vec<DocumentId>>,
    /// In the order in which it was posted; with the commit that took it.
    mail: Vec<(Option<Seq>, MailRow)>,
}

pub(super) struct Document {
    pub(super) record: DocumentRecord,
    pub(super) revisions: Vec<Kept>,
}

/// A revision that is kept, and the commit that wrote it.
pub(super) struct Kept {
    pub(super) seq: Seq,
    pub(super) number: u64,
    pub(super) revision: Revision,
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
            bytes: 0,
            owner: Some((create.first.owner, create.until)),
        };
        Self {
            epochs: vec![EpochStart { epoch: row.epoch, head: Seq(0) }],
            row,
            due: Due::None,
            usage: Vec::new(),
            blobs: HashSet::new(),
            stored: HashMap::new(),
            floor: Seq(0),
            conversations: BTreeMap::new(),
            entries: BTreeMap::new(),
            tasks: BTreeMap::new(),
            live_tasks: BTreeSet::new(),
            submissions: BTreeMap::new(),
            live_submissions: BTreeSet::new(),
            approvals: BTreeMap::new(),
            open_approvals: BTreeSet::new(),
            requests: HashMap::new(),
            documents: BTreeMap::new(),
            scopes: BTreeMap::new(),
            mail: Vec::new(),
        }
    }

    /// Begins the next epoch at the present head.
    pub(super) fn begin_epoch(&mut self) {
        self.row.epoch = Epoch(self.row.epoch.0 + 1);
        self.epochs.push(EpochStart { epoch: self.row.epoch, head: self.row.head });
    }

    /// When it wants to run, if it does and nobody owns it.
    pub(super) fn runs_by(&self, query: &RunnableQuery) -> Option<(Due, SessionId)> {
        let is_owned = self.row.owner.is_some_and(|(_, until)| until > query.now);
        let has_mail = || self.mail.iter().any(|(_, row)| row.receipt.is_none());
        let has_code = |task: &TaskRecord| query.code.iter().any(|code| code.unblocks(task));
        let is_unblocked = || self.tasks.values().any(|(_, task)| has_code(task));
        if is_owned {
            return None;
        }
        let due = if has_mail() || is_unblocked() { Due::Now } else { self.due };
        (due <= Due::At(query.now)).then_some((due, self.row.id))
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

    pub(super) fn check_owner(&self, attempted: &str, owner: OwnerId, epoch: Epoch) -> Result<()> {
        if self.row.epoch == epoch && self.row.owner.is_some_and(|(holder, _)| holder == owner) {
            return Ok(());
        }
        Err(Error::fenced(format!(
            "{attempted} session {} in epoch {epoch}: the session is in epoch {}; open it again",
            self.row.id, self.row.epoch
        )))
    }

    /// Whether a batch is the next one, is stored already, or is neither.
    pub(super) fn check_place(&self, batch: &Batch) -> Result<Committed> {
        self.check_owner("commit to", batch.owner, batch.epoch)?;
        if batch.seq == self.row.head {
            return Ok(Committed::Already);
        }
        if batch.seq != self.row.head.next() {
            let Seq(head) = self.row.head;
            let message =
                format!("commit to session {} at seq {}: the session is at {head}", self.row.id, batch.seq);
            return Err(Error::conflict(message));
        }
        Ok(Committed::Stored)
    }

    /// Stores a batch whose place was checked, in a store that has `stored` commits.
    pub(super) fn commit(&mut self, batch: &Batch, stored: u64) -> Result<()> {
        let mut taking = Taking::default();
        batch.writes.iter().try_for_each(|write| self.check(write, taking.is_again(write)))?;
        for write in &*batch.writes {
            self.row.bytes += write.weight();
            self.write(batch.seq, write.clone());
        }
        batch.trims().for_each(|below| self.trim(below));
        self.stored.insert(batch.seq, stored);
        self.row.head = batch.seq;
        self.row.used = batch.time;
        self.row.minted = batch.minted;
        self.due = batch.due;
        Ok(())
    }

    /// What never changes may not be written twice, a request id belongs to one submission, and mail is taken once: in
    /// one batch neither.
    fn check(&self, write: &Write, is_again: bool) -> Result<()> {
        let fault = match write {
            _ if is_again => "an earlier write of the batch is the same",
            Write::Entry(entry) if self.entries.contains_key(&(entry.conversation, entry.id)) => {
                "it is there"
            }
            Write::Conversation(one) if self.conversations.contains_key(&one.id) => "it is there",
            Write::Submission(submission) if self.is_taken(submission) => "its request id is taken",
            Write::Purge(entry) if !self.entries.contains_key(&(entry.conversation, entry.id)) => {
                "there is no such entry"
            }
            Write::Taken(taken) => match self.letter(&taken.key) {
                None => "there is no such mail",
                Some(row) if row.receipt.is_some() => "it was taken before",
                Some(_) => return Ok(()),
            },
            _ => return Ok(()),
        };
        let message = format!("commit to session {}: {fault}: {write:?}", self.row.id);
        Err(if matches!(write, Write::Taken(_)) { Error::conflict(message) } else { Error::invalid(message) })
    }

    fn is_taken(&self, submission: &SubmissionRecord) -> bool {
        let request = submission.request.clone();
        let key = request.map(|request| (submission.conversation, request));
        key.and_then(|key| self.requests.get(&key)).is_some_and(|holder| *holder != submission.id)
    }

    fn write(&mut self, seq: Seq, write: Write) {
        match write {
            Write::Conversation(conversation) => {
                self.conversations.insert(conversation.id, (seq, conversation));
            }
            Write::Entry(entry) => {
                self.entries.insert((entry.conversation, entry.id), entry);
            }
            Write::Task(task) => {
                toggle(&mut self.live_tasks, task.id, task.is_live());
                self.tasks.insert(task.id, (seq, task));
            }
            Write::Submission(submission) => {
                toggle(&mut self.live_submissions, submission.id, submission.is_live());
                if let Some(request) = &submission.request {
                    self.requests.insert((submission.conversation, request.clone()), submission.id);
                }
                self.submissions.insert(submission.id, (seq, submission));
            }
            Write::Approval(approval) => {
                toggle(&mut self.open_approvals, approval.id, approval.is_open());
                self.approvals.insert(approval.id, (seq, approval));
            }
            Write::Document(write) => self.write_document(seq, write),
            Write::Usage(row) => self.usage.push(row),
            Write::Title(title) => self.row.new.title = Some(title),
            Write::Labels(labels) => self.row.new.labels = labels,
            Write::Taken(taken) => {
                let letter = self.mail.iter_mut().find(|(_, row)| row.mail.key == taken.key);
                if let Some((at, row)) = letter {
                    (*at, row.receipt) = (Some(seq), Some(taken.receipt));
                }
            }
            Write::Blob(blob) => {
                self.blobs.insert(blob);
            }
            Write::Purge(entry) => {
                self.entries.insert((entry.conversation, entry.id), entry);
            }
            // It comes behind all others: only then is it known who needs what.
            Write::Trim(_) => {}
        }
    }

    fn write_document(&mut self, seq: Seq, DocumentWrite { record, number, revision }: DocumentWrite) {
        let document = self.documents.entry(record.id).or_insert_with(|| {
            self.scopes.entry(record.scope).or_default().push(record.id);
            Document { record, revisions: Vec::new() }
        });
        if document.record.history == History::Latest && !matches!(revision, Revision::Delta { .. }) {
            document.revisions.clear();
        }
        document.revisions.push(Kept { seq, number, revision });
    }

    /// Drops what ended and nobody needs, and what was superseded, in commits up to `below`.
    fn trim(&mut self, below: Seq) {
        self.floor = self.floor.max(below);
        let (live, others) = (&self.live_tasks, &self.live_submissions);
        let waiting = live.iter().filter_map(|id| self.tasks.get(id));
        let awaited: HashSet<TaskId> = waiting.flat_map(|(_, task)| task.members()).copied().collect();
        self.tasks.retain(|id, (seq, task)| {
            let is_owned = task.owner.is_some_and(|owner| live.contains(&owner));
            *seq > below || live.contains(id) || is_owned || awaited.contains(id)
        });
        self.submissions.retain(|id, (seq, _)| *seq > below || others.contains(id));
        self.approvals
            .retain(|_, (seq, approval)| *seq > below || approval.is_open() || live.contains(&approval.call));
        let kept = &self.submissions;
        self.requests.retain(|_, id| kept.contains_key(id));
        self.mail.retain(|(taken, _)| taken.is_none_or(|taken| taken > below));
        for document in self.documents.values_mut() {
            document.trim(below);
        }
        self.documents.retain(|_, document| !document.revisions.is_empty());
    }

    pub(super) fn post(&mut self, mail: Mail) -> Posted {
        if let Some(row) = self.letter(&mail.key) {
            return row.receipt.clone().map_or(Posted::Waiting, Posted::Ended);
        }
        if let Some(SubmissionId(id)) = self.submitted(&mail) {
            return Posted::Ended(Receipt::Accepted { id: Some(*id) });
        }
        self.mail.push((None, MailRow { mail, receipt: None }));
        Posted::New
    }

    /// The submission that the mail would be once more.
    fn submitted(&self, mail: &Mail) -> Option<&SubmissionId> {
        let (conversation, request) = mail.submits()?;
        self.requests.get(&(conversation, request.to_owned()))
    }

    fn letter(&self, key: &str) -> Option<&MailRow> {
        self.mail.iter().map(|(_, row)| row).find(|row| row.mail.key == key)
    }

    pub(super) fn mail(&self, only: &MailFilter) -> Vec<MailRow> {
        let wanted = |row: &&MailRow| match only {
            MailFilter::Waiting => row.receipt.is_none(),
            MailFilter::Key(key) => row.mail.key == *key,
        };
        self.mail.iter().map(|(_, row)| row).filter(wanted).cloned().collect()
    }

    /// Entries whose messages have all of the words, and when they were stored.
    pub(super) fn search(&self, words: &[String]) -> Vec<(Option<u64>, Hit)> {
        let hit = |entry: &EntryRecord| {
            let text = entry.text();
            let found: HashSet<String> = terms(&text).collect();
            words.iter().all(|word| found.contains(word)).then(|| Hit {
                session: self.row.id,
                conversation: entry.conversation,
                entry: entry.id,
                excerpt: excerpt(&text, &words[0]),
            })
        };
        self.entries
            .values()
            .filter_map(|entry| hit(entry).map(|hit| (self.stored.get(&entry.seq).copied(), hit)))
            .collect()
    }

    pub(super) fn conversations(&self) -> Vec<Conversation> {
        self.conversations.values().map(|(_, conversation)| conversation.clone()).collect()
    }

    pub(super) fn conversation(&self, id: ConversationId) -> Option<&Conversation> {
        self.conversations.get(&id).map(|(_, conversation)| conversation)
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
        let tasks = ids.iter().filter_map(|id| self.tasks.get(id)).map(|(_, task)| task);
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
        ids.iter().filter_map(|id| self.submissions.get(id)).map(|(_, one)| one.clone()).collect()
    }

    pub(super) fn approvals(&self, query: &ApprovalQuery) -> Vec<ApprovalRow> {
        let session = self.row.id;
        let ids: Vec<ApprovalId> = match query.open {
            true => self.open_approvals.iter().copied().collect(),
            false => self.approvals.keys().copied().collect(),
        };
        let found = ids.iter().filter_map(|id| self.approvals.get(id)).map(|(_, record)| record);
        let wanted = found.filter(|record| query.wants(session, record)).cloned();
        wanted.map(|record| ApprovalRow { session, record }).collect()
    }
}

impl Document {
    /// The value at a commit, or now, as the newest base and the deltas since; none when it was not there.
    pub(super) fn at(&self, at: Option<Seq>) -> Option<DocumentState> {
        let revisions = self.revisions.iter().take_while(|kept| at.is_none_or(|at| kept.seq <= at));
        let mut state: Option<DocumentState> = None;
        for Kept { seq, number, revision } in revisions {
            match revision {
                Revision::Base { version, value } => {
                    state = Some(DocumentState {
                        record: self.record.clone(),
                        version: *version,
                        base: value.clone(),
                        deltas: Vec::new(),
                        seq: *seq,
                        number: *number,
                    });
                }
                Revision::Delta { operations } => {
                    let state = state.as_mut()?;
                    state.deltas.push(operations.clone());
                    (state.seq, state.number) = (*seq, *number);
                }
                Revision::Retired => state = None,
            }
        }
        state
    }

    /// Drops the revisions that nothing behind a commit needs.
    fn trim(&mut self, below: Seq) {
        let is_start = |kept: &Kept| kept.seq <= below && !matches!(kept.revision, Revision::Delta { .. });
        if let Some(start) = self.revisions.iter().rposition(is_start) {
            self.revisions.drain(..start);
        }
        let is_over = |kept: &Kept| kept.seq <= below && kept.revision == Revision::Retired;
        if self.revisions.first().is_some_and(is_over) {
            self.revisions.clear();
        }
    }
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, id: T, is_live: bool) {
    if is_live {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}
