//! A backend as a stranger would write it: it keeps a log of what happened to each session, and answers every question by
//! reading the log again. It shares no code with the memory store, and passes the same suite.
//!
//! It keeps its log in memory and reads all of it each time, which is right for an example and for nothing else. A backend
//! that lasts writes the lines of the log ([`Event`]) to a disk before it answers, and keeps what it has read.

mod answers;
mod replay;

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use everturn_core::{
    Error, ErrorKind, Result,
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    id::{BlobId, ConversationId, Epoch, OwnerId, SessionId, UploadId},
    storage::{
        ApprovalQuery, ApprovalRow, Batch, BlobPart, BlobQuery, ChangeQuery, Changes, Chunk, Claim,
        Committed, Create, Created, DocumentQuery, DocumentState, Due, Durability, EntryQuery, Hit, Lease,
        Mail, MailFilter, MailRow, Posted, RunnableQuery, Seal, SearchQuery, SessionQuery, SessionRow, Stats,
        Storage, Store, SubmissionQuery, Swept, TaskQuery, View, ViewQuery, Write,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
    verify::Finding,
};
use replay::{Event, State};

everturn_testkit::store_suite!(async { Store::new(Logged::default()) });

/// The store.
#[derive(Default)]
struct Logged {
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    logs: BTreeMap<SessionId, Vec<Event>>,
    deleted: BTreeMap<SessionId, Epoch>,
    chunks: BTreeMap<UploadId, BTreeMap<u32, Chunk>>,
    blobs: HashMap<BlobId, (Timestamp, Vec<u8>)>,
    stats: Stats,
    rung: u64,
    waiting: Vec<Waker>,
}

impl Logged {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, id: SessionId, answer: impl FnOnce(&State) -> T) -> Result<T> {
        self.tables().state(id).map(|state| answer(&state))
    }
}

impl Tables {
    fn state(&self, id: SessionId) -> Result<State> {
        let attempted = format!("look for session {id}");
        match self.logs.get(&id) {
            Some(log) => Ok(State::of(log)),
            None if self.deleted.contains_key(&id) => Err(Error::deleted(attempted)),
            None => Err(Error::not_found(format!("{attempted}: there is none"))),
        }
    }

    /// All sessions, oldest first.
    fn states(&self) -> impl DoubleEndedIterator<Item = State> {
        self.logs.values().map(|log| State::of(log))
    }

    /// Writes a line, and wakes whoever waits for one.
    fn append(&mut self, id: SessionId, event: Event) {
        self.logs.entry(id).or_default().push(event);
        self.ring();
    }

    fn ring(&mut self) {
        self.rung += 1;
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn count(&mut self, durability: Durability) {
        self.stats.commits += 1;
        self.stats.groups += 1;
        self.stats.syncs += u64::from(durability == Durability::Durable);
    }

    fn check_blobs(&self, batch: &Batch) -> Result<()> {
        for write in &*batch.writes {
            if let Write::Blob(blob) = write
                && !self.blobs.contains_key(blob)
            {
                return Err(Error::invalid(format!("commit to session {}: no blob {blob}", batch.session)));
            }
        }
        Ok(())
    }
}

impl Storage for Logged {
    async fn create(&self, create: Create) -> Result<Created> {
        let mut tables = self.tables();
        let id = create.first.session;
        let asked =
            |state: &State| create.new.request.is_some() && state.row.new.request == create.new.request;
        if let Some(found) = tables.states().find(asked) {
            return Ok(Created::Existing(found.row.id));
        }
        let was_there = tables.deleted.get(&id).is_some_and(|epoch| *epoch >= create.first.epoch);
        if was_there || tables.logs.contains_key(&id) {
            return Err(Error::conflict(format!("create session {id}: the id is in use, or was")));
        }
        tables.check_blobs(&create.first)?;
        let lease = State::begin(&create)?.lease(create.first.owner, create.until);
        tables.deleted.remove(&id);
        tables.count(create.first.durability);
        tables.append(id, Event::Created(create));
        Ok(Created::New(lease))
    }

    async fn claim(&self, claim: Claim) -> Result<Lease> {
        let mut tables = self.tables();
        let mut state = tables.state(claim.session)?;
        if let Some((by, until)) = state.row.owner
            && until > claim.now
        {
            let message = format!("claim session {}: {by} has it until {until}", claim.session);
            return Err(Error::new(ErrorKind::Owned { by, until }, message));
        }
        let lease = state.claim(&claim);
        tables.append(claim.session, Event::Claimed(claim));
        Ok(lease)
    }

    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease> {
        let mut tables = self.tables();
        let state = tables.state(claim.session)?;
        state.check_owner(claim.owner, epoch)?;
        tables.append(claim.session, Event::Renewed(claim.until));
        Ok(state.lease(claim.owner, claim.until))
    }

    async fn delete(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let mut tables = self.tables();
        tables.state(session)?.check_owner(owner, epoch)?;
        tables.logs.remove(&session);
        tables.deleted.insert(session, epoch);
        tables.ring();
        Ok(())
    }

    async fn release(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let mut tables = self.tables();
        if tables.state(session)?.check_owner(owner, epoch).is_ok() {
            tables.append(session, Event::Released);
        }
        Ok(())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let mut tables = self.tables();
        let committed = tables.state(batch.session)?.commit(&batch)?;
        if committed == Committed::Stored {
            tables.check_blobs(&batch)?;
            tables.count(batch.durability);
            tables.append(batch.session, Event::Committed(batch));
        }
        Ok(committed)
    }

    async fn session(&self, session: SessionId) -> Result<Option<SessionRow>> {
        Ok(self.tables().state(session).ok().map(|state| state.row))
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        let tables = self.tables();
        let rows = tables.states().rev().map(|state| state.row);
        Ok(rows.filter(|row| query.wants(row)).take(query.limit).collect())
    }

    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>> {
        self.read(session, |state| state.conversations.values().map(|(_, one)| one.clone()).collect())
    }

    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>> {
        self.read(session, |state| state.conversations.get(&id).map(|(_, one)| one.clone()))
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>> {
        self.read(query.session, |state| state.entries(&query))
    }

    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>> {
        let mut found = self.read(query.session, |state| state.documents(query.at))?;
        let is_kind = |kind: &String| query.kind.as_ref().is_none_or(|wanted| wanted == kind);
        found.retain(|state| state.record.scope == query.scope && is_kind(&state.record.kind));
        Ok(found)
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>> {
        self.read(query.session, |state| state.tasks(&query))
    }

    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>> {
        self.read(query.session, |state| state.submissions(&query.only))
    }

    async fn approvals(&self, query: ApprovalQuery) -> Result<Vec<ApprovalRow>> {
        let tables = self.tables();
        let states: Vec<_> = match query.session {
            Some(session) => vec![tables.state(session)?],
            None => tables.states().collect(),
        };
        let all = states.iter().flat_map(|state| {
            let session = state.row.id;
            let records = state.approvals.values().map(|(_, record)| record.clone());
            records.map(move |record| ApprovalRow { session, record })
        });
        Ok(all.filter(|row| query.wants(row.session, &row.record)).take(query.limit).collect())
    }

    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>> {
        self.read(session, |state| state.usage.clone())
    }

    async fn view(&self, query: ViewQuery) -> Result<View> {
        self.read(query.session, |state| state.view(&query.part))?
    }

    async fn changes(&self, query: ChangeQuery) -> Result<Changes> {
        self.read(query.session, |state| state.changes(&query))
    }

    async fn doorbell(&self, heard: u64) -> u64 {
        poll_fn(|context| {
            let mut tables = self.tables();
            if tables.rung != heard {
                return Poll::Ready(tables.rung);
            }
            tables.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    async fn post(&self, mail: Mail) -> Result<Posted> {
        let mut tables = self.tables();
        let posted = tables.state(mail.session)?.posted(&mail);
        if posted == Posted::New {
            tables.append(mail.session, Event::Posted(mail));
        }
        Ok(posted)
    }

    async fn mail(&self, session: SessionId, only: MailFilter) -> Result<Vec<MailRow>> {
        let wanted = |row: &&MailRow| match &only {
            MailFilter::Waiting => row.receipt.is_none(),
            MailFilter::Key(key) => row.mail.key == *key,
        };
        self.read(session, |state| state.mail.iter().map(|(_, row)| row).filter(wanted).cloned().collect())
    }

    async fn runnable(&self, query: RunnableQuery) -> Result<Vec<SessionId>> {
        let wants = |state: State| state.runs_by(&query).map(|due| (due, state.row.id));
        let mut found: Vec<_> = self.tables().states().filter_map(wants).collect();
        found.sort();
        Ok(found.into_iter().take(query.limit).map(|(_, id)| id).collect())
    }

    async fn next_due(&self) -> Result<Due> {
        Ok(self.tables().states().map(|state| state.due).min().unwrap_or(Due::None))
    }

    async fn put_chunk(&self, chunk: Chunk) -> Result<()> {
        chunk.check()?;
        self.tables().chunks.entry(chunk.upload).or_default().entry(chunk.number).or_insert(chunk);
        Ok(())
    }

    async fn seal(&self, seal: Seal) -> Result<()> {
        let mut tables = self.tables();
        if let Some((time, _)) = tables.blobs.get_mut(&seal.blob) {
            *time = seal.time.max(*time);
        } else {
            let chunks = tables.chunks.get(&seal.upload).ok_or_else(|| seal.unknown())?;
            seal.check(chunks.values().map(|chunk| (chunk.number, chunk.bytes.len())))?;
            let bytes = chunks.values().flat_map(|chunk| chunk.bytes.iter().copied()).collect();
            tables.blobs.insert(seal.blob, (seal.time, bytes));
        }
        tables.chunks.remove(&seal.upload);
        Ok(())
    }

    async fn blob(&self, query: BlobQuery) -> Result<Option<BlobPart>> {
        Ok(self.tables().blobs.get(&query.blob).map(|(_, bytes)| {
            let from = usize::try_from(query.from).unwrap_or(usize::MAX).min(bytes.len());
            let rest = &bytes[from..];
            BlobPart { size: bytes.len() as u64, bytes: rest[..query.limit.min(rest.len())].to_vec() }
        }))
    }

    async fn blobs(&self, session: SessionId) -> Result<Vec<BlobId>> {
        Ok(self.tables().state(session)?.blobs.into_iter().collect())
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        let words = query.terms()?;
        let asked = |state: &State| query.session.is_none_or(|id| state.row.id == id);
        let found = |state: State| state.search(&words);
        let mut hits: Vec<_> = self.tables().states().filter(asked).flat_map(found).collect();
        hits.sort_by_key(|(time, hit)| (*time, hit.entry));
        Ok(hits.into_iter().rev().take(query.limit).map(|(_, hit)| hit).collect())
    }

    async fn sweep(&self, before: Timestamp) -> Result<Swept> {
        let mut tables = self.tables();
        let referred: Vec<_> = tables.states().flat_map(|state| state.blobs).collect();
        let there = tables.blobs.len() + tables.chunks.len();
        tables.blobs.retain(|blob, (time, _)| *time >= before || referred.contains(blob));
        tables.chunks.retain(|_, chunks| chunks.values().any(|chunk| chunk.time >= before));
        let left = tables.blobs.len() + tables.chunks.len();
        Ok(Swept { blobs: (there - left) as u64, sessions: 0 })
    }

    async fn backup(&self, to: PathBuf) -> Result<()> {
        Err(Error::invalid(format!("back up to {}: this store has no file", to.display())))
    }

    async fn vacuum(&self) -> Result<()> {
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(vec![])
    }

    async fn owner(&self) -> Option<OwnerId> {
        None
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.tables().stats)
    }
}
