//! What a session is, from what happened to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everturn_core::{
    Error, Result,
    approval::ApprovalRecord,
    clock::Timestamp,
    conversation::Conversation,
    document::History,
    entry::EntryRecord,
    id::{
        ApprovalId, BlobId, ConversationId, DocumentId, EntryId, Epoch, OwnerId, Seq, SubmissionId, TaskId,
    },
    storage::{
        Batch, Claim, Committed, Create, DocumentWrite, Due, EpochStart, Lease, Mail, MailRow, Posted,
        Receipt, Revision, SessionRow, Write,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};

/// A line of the log.
pub(super) enum Event {
    Created(Create),
    Claimed(Claim),
    Renewed(Timestamp),
    Released,
    Committed(Batch),
    Posted(Mail),
}

/// A session after the events so far.
pub(super) struct State {
    pub(super) row: SessionRow,
    pub(super) due: Due,
    pub(super) epochs: Vec<EpochStart>,
    pub(super) floor: Seq,
    pub(super) conversations: BTreeMap<ConversationId, (Seq, Conversation)>,
    pub(super) entries: BTreeMap<EntryId, EntryRecord>,
    pub(super) tasks: BTreeMap<TaskId, (Seq, TaskRecord)>,
    pub(super) submissions: BTreeMap<SubmissionId, (Seq, SubmissionRecord)>,
    pub(super) approvals: BTreeMap<ApprovalId, (Seq, ApprovalRecord)>,
    pub(super) revisions: Vec<(Seq, DocumentWrite)>,
    pub(super) usage: Vec<UsageRow>,
    pub(super) blobs: BTreeSet<BlobId>,
    /// With the commit that took it.
    pub(super) mail: Vec<(Option<Seq>, MailRow)>,
}

impl State {
    pub(super) fn of(log: &[Event]) -> Self {
        let Some((Event::Created(create), rest)) = log.split_first() else {
            panic!("a log begins with its session")
        };
        let mut state = Self::begin(create).expect("what is in the log was right");
        for event in rest {
            match event {
                Event::Created(_) => panic!("a session is created once"),
                Event::Claimed(claim) => drop(state.claim(claim)),
                Event::Renewed(until) => state.row.owner = state.row.owner.map(|(owner, _)| (owner, *until)),
                Event::Released => state.row.owner = None,
                Event::Committed(batch) => drop(state.commit(batch).expect("what is in the log was right")),
                Event::Posted(mail) => state.mail.push((None, MailRow { mail: mail.clone(), receipt: None })),
            }
        }
        state
    }

    pub(super) fn begin(Create { new, first, until }: &Create) -> Result<Self> {
        let row = SessionRow {
            id: first.session,
            new: new.clone(),
            created: first.time,
            used: first.time,
            head: Seq(0),
            epoch: first.epoch,
            minted: 0,
            bytes: 0,
            owner: Some((first.owner, *until)),
        };
        let mut state = Self {
            row,
            due: Due::None,
            epochs: vec![EpochStart { epoch: first.epoch, head: Seq(0) }],
            floor: Seq(0),
            conversations: BTreeMap::new(),
            entries: BTreeMap::new(),
            tasks: BTreeMap::new(),
            submissions: BTreeMap::new(),
            approvals: BTreeMap::new(),
            revisions: Vec::new(),
            usage: Vec::new(),
            blobs: BTreeSet::new(),
            mail: Vec::new(),
        };
        state.commit(first)?;
        Ok(state)
    }

    pub(super) fn lease(&self, owner: OwnerId, until: Timestamp) -> Lease {
        let SessionRow { id: session, epoch, head, minted, .. } = self.row;
        Lease { session, owner, epoch, until, head, minted }
    }

    pub(super) fn claim(&mut self, claim: &Claim) -> Lease {
        self.row.epoch = Epoch(self.row.epoch.0 + 1);
        self.epochs.push(EpochStart { epoch: self.row.epoch, head: self.row.head });
        self.row.owner = Some((claim.owner, claim.until));
        self.lease(claim.owner, claim.until)
    }

    pub(super) fn check_owner(&self, owner: OwnerId, epoch: Epoch) -> Result<()> {
        match self.row.owner {
            Some((holder, _)) if holder == owner && self.row.epoch == epoch => Ok(()),
            _ => Err(Error::fenced(format!(
                "act on session {} in epoch {epoch}: it is not yours",
                self.row.id
            ))),
        }
    }

    pub(super) fn commit(&mut self, batch: &Batch) -> Result<Committed> {
        self.check_owner(batch.owner, batch.epoch)?;
        let (id, Seq(head)) = (self.row.id, self.row.head);
        match batch.seq.0 {
            seq if seq == head => return Ok(Committed::Already),
            seq if seq == head + 1 => {}
            seq => {
                return Err(Error::conflict(format!(
                    "commit to session {id} at seq {seq}: the session is at {head}"
                )));
            }
        }
        for write in &*batch.writes {
            self.write(batch.seq, write)
                .map_err(|error| error.while_(format_args!("commit to session {id} at seq {}", batch.seq)))?;
            self.row.bytes += write.weight();
        }
        batch.trims().for_each(|below| self.trim(below));
        (self.row.head, self.row.used, self.row.minted) = (batch.seq, batch.time, batch.minted);
        self.due = batch.due;
        Ok(Committed::Stored)
    }

    /// One write. Whoever gets an error throws the state away, so nothing is left of the batch.
    fn write(&mut self, seq: Seq, write: &Write) -> Result<()> {
        let is_new = match write.clone() {
            Write::Conversation(one) => self.conversations.insert(one.id, (seq, one)).is_none(),
            Write::Entry(entry) => self.entries.insert(entry.id, entry).is_none(),
            Write::Purge(entry) => self.entries.insert(entry.id, entry).is_some(),
            Write::Task(task) => {
                self.tasks.insert(task.id, (seq, task));
                true
            }
            Write::Submission(one) => {
                let holder =
                    one.request.as_ref().and_then(|request| self.requested(one.conversation, request));
                let is_free = holder.is_none_or(|holder| holder == one.id);
                self.submissions.insert(one.id, (seq, one));
                is_free
            }
            Write::Approval(one) => {
                self.approvals.insert(one.id, (seq, one));
                true
            }
            Write::Document(write) => {
                self.revise(seq, write);
                true
            }
            Write::Usage(row) => {
                self.usage.push(row);
                true
            }
            Write::Title(title) => {
                self.row.new.title = Some(title);
                true
            }
            Write::Labels(labels) => {
                self.row.new.labels = labels;
                true
            }
            Write::Taken(taken) => return self.take(seq, &taken.key, taken.receipt),
            Write::Blob(blob) => {
                self.blobs.insert(blob);
                true
            }
            // Comes behind all others.
            Write::Trim(_) => true,
        };
        if is_new {
            Ok(())
        } else {
            Err(Error::invalid(format!("it collides with what is there: {write:?}")))
        }
    }

    fn take(&mut self, seq: Seq, key: &str, receipt: Receipt) -> Result<()> {
        let waiting = |(_, row): &&mut (Option<Seq>, MailRow)| row.mail.key == key && row.receipt.is_none();
        let found = self.mail.iter_mut().find(waiting);
        let (taken, row) = found.ok_or_else(|| Error::conflict(format!("no mail {key:?} is waiting")))?;
        (*taken, row.receipt) = (Some(seq), Some(receipt));
        Ok(())
    }

    pub(super) fn requested(&self, conversation: ConversationId, request: &str) -> Option<SubmissionId> {
        let is_it = |one: &&SubmissionRecord| {
            one.conversation == conversation && one.request.as_deref() == Some(request)
        };
        self.submissions.values().map(|(_, one)| one).find(is_it).map(|one| one.id)
    }

    /// What posting this would come to; nothing has changed yet.
    pub(super) fn posted(&self, mail: &Mail) -> Posted {
        if let Some((_, row)) = self.mail.iter().find(|(_, row)| row.mail.key == mail.key) {
            return row.receipt.clone().map_or(Posted::Waiting, Posted::Ended);
        }
        match mail.submits().and_then(|(conversation, request)| self.requested(conversation, request)) {
            Some(SubmissionId(id)) => Posted::Ended(Receipt::Accepted { id: Some(id) }),
            None => Posted::New,
        }
    }

    fn revise(&mut self, seq: Seq, write: DocumentWrite) {
        let is_whole = !matches!(write.revision, Revision::Delta { .. });
        if is_whole && write.record.history == History::Latest {
            self.revisions.retain(|(_, older)| older.record.id != write.record.id);
        }
        self.revisions.push((seq, write));
    }

    fn trim(&mut self, below: Seq) {
        self.floor = self.floor.max(below);
        let live = || self.tasks.values().map(|(_, task)| task).filter(|task| task.is_live());
        let awaited = live().flat_map(TaskRecord::members);
        let needed: BTreeSet<TaskId> = live().map(|task| &task.id).chain(awaited).copied().collect();
        let owners: BTreeSet<TaskId> = live().map(|task| task.id).collect();
        self.tasks.retain(|id, (seq, task)| {
            *seq > below || needed.contains(id) || task.owner.is_some_and(|owner| owners.contains(&owner))
        });
        self.approvals.retain(|_, (seq, one)| *seq > below || one.is_open() || owners.contains(&one.call));
        self.submissions.retain(|_, (seq, one)| *seq > below || one.is_live());
        self.mail.retain(|(taken, _)| taken.is_none_or(|taken| taken > below));
        let mut first: HashMap<DocumentId, u64> = HashMap::new();
        for (seq, write) in &self.revisions {
            match write.revision {
                _ if *seq > below => {}
                Revision::Base { .. } => drop(first.insert(write.record.id, write.number)),
                Revision::Retired => drop(first.insert(write.record.id, write.number + 1)),
                Revision::Delta { .. } => {}
            }
        }
        self.revisions
            .retain(|(_, write)| first.get(&write.record.id).is_none_or(|first| write.number >= *first));
    }
}
