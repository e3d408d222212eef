//! Transactions: changes that become visible together or not at all.

mod check;
mod fork;
mod read;
mod response;
mod stage;
mod work;

use everturn_core::{
    CancelToken, Error, Result,
    approval::ApprovalRecord,
    clock::Timestamp,
    conversation::{Conversation, Ownership},
    document::{self, Document, Operation, Scope, ScopeKey},
    entry::{EntryRecord, IntoEntry},
    id::{ApprovalId, ConversationId, DocumentId, EntryId, Seq, SubmissionId, TaskId},
    limits::Limits,
    storage::{Batch, DocumentRecord, Durability, Write},
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use tokio::sync::OwnedMutexGuard;
use tracing::Instrument;

use super::{
    Session, commit,
    document::Revised,
    document::{Committed, Slot},
    line::{Hold, Line},
    state::Adopted,
};
use crate::metrics::span;
pub(crate) use check::entry as check_entry;
pub(super) use check::labels as check_labels;
use fork::Fork;
pub use stage::NewTask;

/// A change of a session, as a value: put together in memory, stored by [`commit`](Self::commit), rolled back when it
/// is dropped.
///
/// Promise: it reads its own writes. Whatever it holds is stored in one commit or not at all. While it is open, the
/// session's line is held: be brief.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{conversation::Ownership, entry::Entry, memory::Memory, storage::{NewSession, Store}};
/// # use everturn_engine::{Opener, Session, World};
/// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// # let session = Session::create(&opener, NewSession::default()).await?;
/// let mut tx = session.begin().await?;
/// let chat = tx.create_conversation(Ownership::Ownerless);
/// let hello = tx.append(chat, Entry::new("note").data("hello"))?;
/// tx.commit().await?;
/// assert_eq!(session.entry(chat, hello).await?.kind, "note");
/// # Ok(()) }
/// ```
pub struct Transaction {
    session: Session,
    hold: Arc<Hold>,
    time: Timestamp,
    /// The commit that this becomes.
    seq: Seq,
    minted: u64,
    durability: Durability,
    writes: Vec<Write>,
    /// Where the record of an id stands among the writes.
    staged: HashMap<u64, usize>,
    /// Tasks that it has created or has set to wait, which the index of what lives does not know.
    new_work: Vec<TaskId>,
    slots: Vec<Slot>,
    forks: Vec<Fork>,
}

impl Transaction {
    pub(super) fn new(session: Session, hold: Arc<Hold>) -> Self {
        let time = session.0.opener.world.clock.now();
        // Nobody else has this hold yet: it cannot have expired.
        let (head, minted) = hold.place().unwrap_or((session.head(), 0));
        Self {
            session,
            hold,
            time,
            seq: head.next(),
            minted,
            durability: Durability::Durable,
            writes: Vec::new(),
            staged: HashMap::new(),
            new_work: Vec::new(),
            slots: Vec::new(),
            forks: Vec::new(),
        }
    }

    pub(super) fn hold(&self) -> Weak<Hold> {
        Arc::downgrade(&self.hold)
    }

    /// The same transaction once more, over the same hold of the line: one of the two is committed.
    pub(crate) fn copy(&self) -> Result<Self> {
        let slots = self.slots.iter().filter_map(|slot| slot.copy(self.limits()).transpose());
        Ok(Self {
            session: self.session.clone(),
            hold: self.hold.clone(),
            writes: self.writes.clone(),
            staged: self.staged.clone(),
            new_work: self.new_work.clone(),
            slots: slots.collect::<Result<_>>()?,
            forks: self.forks.clone(),
            ..*self
        })
    }

    /// Counts the time on the line from now: who goes on with the transaction is another.
    pub(crate) fn begin_anew(&self) {
        self.hold.renew(self.session.0.opener.world.clock.now());
    }

    /// Whether it holds what refers to things that only the store knows.
    pub(crate) fn asks_the_store(&self) -> bool {
        let asks = |write: &Write| {
            matches!(write, Write::Taken(_) | Write::Blob(_) | Write::Purge(_) | Write::Trim(_))
        };
        self.writes.iter().any(asks)
    }

    /// Proves that it could be stored as it is.
    ///
    /// Errors: as [`commit`](Self::commit), before storage is asked.
    pub(crate) async fn prove(&self) -> Result<()> {
        let mut trial = self.copy()?;
        trial.settle_submissions();
        trial.void_approvals();
        trial.refresh_forks().await?;
        trial.settle_documents()?;
        trial.check().await
    }

    pub(super) fn is_held_by(&self, hold: &Arc<Hold>) -> bool {
        Arc::ptr_eq(&self.hold, hold)
    }

    /// When the transaction began; the time of all that it writes.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The next id. Ids are given out while a transaction is put together; gaps are fine.
    pub(crate) fn mint(&mut self) -> u64 {
        self.minted += 1;
        self.minted
    }

    /// Creates a conversation that inherits nothing.
    pub fn create_conversation(&mut self, ownership: Ownership) -> ConversationId {
        let id = ConversationId(self.mint());
        self.stage(id.0, Write::Conversation(Conversation::new(id, ownership.task(), self.time)));
        id
    }

    /// Appends an entry to a conversation.
    ///
    /// Errors: what kept the entry from being written. Whether the conversation exists is checked by `commit`.
    pub fn append(&mut self, conversation: ConversationId, entry: impl IntoEntry) -> Result<EntryId> {
        self.append_for(None, conversation, entry)
    }

    /// Appends an entry that a task writes.
    pub(crate) fn append_for(
        &mut self,
        task: Option<TaskId>,
        conversation: ConversationId,
        entry: impl IntoEntry,
    ) -> Result<EntryId> {
        self.hold.place()?;
        let entry = entry.into_entry()?;
        check::entry(&entry, &self.session.0.opener.limits)?;
        let id = EntryId(self.mint());
        let (seq, time) = (self.seq, self.time);
        self.stage(id.0, Write::Entry(EntryRecord { id, conversation, seq, time, task, entry }));
        Ok(id)
    }

    /// Lends a document to be edited, and creates it where there is none. What changed is found by `commit`.
    ///
    /// Errors: `Newer` or `Invalid` when what is stored does not read as a `T`.
    pub async fn doc<T: Document>(&mut self, scope: T::Scope) -> Result<&mut T> {
        self.hold.place()?;
        let (key, kind) = (scope.key(), T::KIND);
        let before = match self.slot(key, kind) {
            Some(at) if !self.slots[at].is_retired() => return self.slots[at].lend(),
            // What this transaction has retired begins anew.
            Some(_) => None,
            None => self.before(key, kind).await?,
        };
        let record = self.record_of::<T>(key, before.as_deref());
        self.slots.push(Slot::typed::<T>(record, before)?);
        self.slots.last_mut().expect("it was just pushed").lend()
    }

    /// The newest incarnation that this transaction has of a document.
    fn slot(&self, scope: ScopeKey, kind: &str) -> Option<usize> {
        self.slots.iter().rposition(|slot| slot.is(scope, kind))
    }

    /// A document's value as it stands in this transaction; none where there is no such document.
    pub async fn snapshot<T: Document>(&self, scope: T::Scope) -> Result<Option<T>> {
        let (key, kind) = (scope.key(), T::KIND);
        if let Some(slot) = self.slots.iter().find(|slot| slot.is(key, kind)) {
            return slot
                .value(self.limits())?
                .map(|(version, value)| document::decode(value, version))
                .transpose();
        }
        match self.before(key, kind).await? {
            Some(before) => before.read().map(Some),
            None => Ok(None),
        }
    }

    /// Changes a document by operations that the caller knows, without a comparison. A document that is not there
    /// begins as `null`.
    ///
    /// Errors: `Invalid` when they do not fit the value.
    pub async fn apply<T: Document>(&mut self, scope: T::Scope, operations: Vec<Operation>) -> Result<()> {
        self.hold.place()?;
        let key = scope.key();
        let before = match self.slot(key, T::KIND) {
            Some(at) if !self.slots[at].is_retired() => {
                return self.slots[at].apply(operations, &self.session.0.opener.limits);
            }
            Some(_) => None,
            None => self.before(key, T::KIND).await?,
        };
        let record = self.record_of::<T>(key, before.as_deref());
        self.slots.push(Slot::raw(record, T::VERSION, before, operations)?);
        Ok(())
    }

    /// Ends a document, whatever version of it is stored. Editing it again starts a new one.
    ///
    /// Errors: `NotFound` when there is none.
    pub async fn retire<T: Document>(&mut self, scope: T::Scope) -> Result<()> {
        self.hold.place()?;
        let key = scope.key();
        let unknown = || Error::not_found(format!("retire document {} of {key}: there is none", T::KIND));
        match self.slot(key, T::KIND) {
            Some(at) if self.slots[at].is_retired() => return Err(unknown()),
            Some(at) => self.slots[at].retire(),
            None => {
                let before = self.before(key, T::KIND).await?.ok_or_else(unknown)?;
                self.slots.push(Slot::retired(before));
            }
        }
        Ok(())
    }

    async fn before(&self, scope: ScopeKey, kind: &str) -> Result<Option<Arc<Committed>>> {
        // A conversation of this transaction has no documents yet but those it inherits, which have slots.
        if let ScopeKey::Conversation(id) = scope
            && self.staged_conversation(id).is_some()
        {
            return Ok(None);
        }
        self.session.committed(scope, kind).await
    }

    fn record_of<T: Document>(&mut self, scope: ScopeKey, before: Option<&Committed>) -> DocumentRecord {
        match before {
            Some(before) => before.record.clone(),
            None => DocumentRecord {
                id: DocumentId(self.mint()),
                scope,
                kind: T::KIND.into(),
                history: T::HISTORY,
                fork: T::FORK,
            },
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.session.0.opener.limits
    }

    /// Adds the write of a record, or takes the place of the one that the transaction has of it.
    fn stage(&mut self, id: u64, write: Write) {
        match self.staged.get(&id) {
            Some(at) => self.writes[*at] = write,
            None => {
                self.staged.insert(id, self.writes.len());
                self.writes.push(write);
            }
        }
    }

    fn staged(&self, id: u64) -> Option<&Write> {
        self.staged.get(&id).map(|at| &self.writes[*at])
    }

    fn staged_conversation(&self, id: ConversationId) -> Option<&Conversation> {
        match self.staged(id.0) {
            Some(Write::Conversation(conversation)) => Some(conversation),
            _ => None,
        }
    }

    fn staged_entry(&self, id: EntryId) -> Option<&EntryRecord> {
        match self.staged(id.0) {
            Some(Write::Entry(entry)) => Some(entry),
            _ => None,
        }
    }

    /// A live task as it stands in this transaction.
    pub(crate) fn task(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        match self.staged(id.0) {
            Some(Write::Task(task)) => Some(Arc::new(task.clone())),
            _ => self.session.0.state().live.task(id).cloned(),
        }
    }

    /// A live submission as it stands in this transaction.
    pub(crate) fn submission(&self, id: SubmissionId) -> Option<Arc<SubmissionRecord>> {
        match self.staged(id.0) {
            Some(Write::Submission(one)) => Some(Arc::new(one.clone())),
            _ => self.session.0.state().live.submissions.get(&id).cloned(),
        }
    }

    /// Creates a submission, or replaces its state.
    pub(crate) fn put_submission(&mut self, submission: SubmissionRecord) {
        self.stage(submission.id.0, Write::Submission(submission));
    }

    /// An approval as it stands in this transaction; none where it was over before.
    pub(crate) fn approval(&self, id: ApprovalId) -> Option<Arc<ApprovalRecord>> {
        match self.staged(id.0) {
            Some(Write::Approval(one)) => Some(Arc::new(one.clone())),
            _ => self.session.0.state().live.approval(id).cloned(),
        }
    }

    /// Opens an approval, or replaces its state.
    pub(crate) fn put_approval(&mut self, approval: ApprovalRecord) {
        self.stage(approval.id.0, Write::Approval(approval));
    }

    pub(crate) fn put_usage(&mut self, row: UsageRow) {
        self.writes.push(Write::Usage(row));
    }

    /// The same transaction, stored so that it survives our process but maybe not the power.
    pub(crate) fn relaxed(mut self) -> Self {
        self.durability = Durability::Relaxed;
        self
    }

    /// Stores everything in one commit and gives its seq. Without writes there is no commit, and the seq is the head.
    ///
    /// Promise: when this returns, the commit survives the power (one of partial output survives our process).
    /// Dropping the future does not undo it.
    /// Errors: `Invalid` or `TooLarge`, naming the record, before storage is asked; `Expired` when it kept others
    /// waiting for too long; what storage says otherwise.
    pub async fn commit(self) -> Result<Seq> {
        self.commit_by(None).await
    }

    /// The same; where storage refuses for now, the line is held and the same is offered again until it is stored, or
    /// until `stop` fires.
    pub(crate) async fn commit_until(self, stop: CancelToken) -> Result<Seq> {
        self.commit_by(Some(stop)).await
    }

    async fn commit_by(self, stop: Option<CancelToken>) -> Result<Seq> {
        let line = self.hold.take()?;
        let held = self.session.0.opener.world.clock.now().since(self.time);
        tracing::debug!(
            session = %self.session.id(), at = %self.hold.at(), held_ms = held.as_millis(), writes = self.writes.len(),
            "a transaction leaves the line to be committed"
        );
        let session = self.session.clone();
        session.0.opener.meter.left_line(held);
        let span = span::commit(session.id(), held, self.writes.len());
        let committing = tokio::spawn(self.commit_with(line, stop).instrument(span));
        committing.await.unwrap_or_else(|fault| {
            let error = Error::closed(format!("a commit was cut off: {fault}"));
            session.0.shut(error.clone());
            Err(error)
        })
    }

    async fn commit_with(mut self, line: OwnedMutexGuard<Line>, stop: Option<CancelToken>) -> Result<Seq> {
        self.settle_submissions();
        self.void_approvals();
        self.refresh_forks().await?;
        let documents = self.settle_documents()?;
        if self.writes.is_empty() {
            return Ok(line.head);
        }
        self.check().await?;
        let adopted = Adopted { documents, ..Adopted::of(&self.writes) };
        let batch = Batch {
            session: self.session.id(),
            owner: self.session.0.opener.owner,
            epoch: self.session.0.epoch(),
            seq: self.seq,
            time: self.time,
            durability: self.durability,
            minted: self.minted,
            due: self.due(),
            writes: self.writes.into(),
        };
        commit::store_and_adopt(&self.session, line, (batch, adopted), stop).await
    }

    fn settle_documents(&mut self) -> Result<Vec<Revised>> {
        let limits = self.session.0.opener.limits;
        let mut documents = Vec::new();
        for slot in self.slots.drain(..) {
            if let Some(settled) = slot.settle(self.seq, &limits)? {
                self.writes.push(Write::Document(settled.write));
                documents.push(settled.revised);
            }
        }
        Ok(documents)
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (session, writes) = (self.session.id(), self.writes.len());
        f.debug_struct("Transaction")
            .field("session", &session)
            .field("writes", &writes)
            .finish_non_exhaustive()
    }
}
