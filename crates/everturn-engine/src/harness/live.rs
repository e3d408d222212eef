//! A session with a harness: the kernel's session, and what runs its tasks.

use std::{
    ops::Deref,
    sync::{Arc, Weak},
};

use everturn_core::{
    Error, Result,
    conversation::Ownership,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    message::Outcome,
    storage::{SubmissionFilter, SubmissionQuery, TaskQuery},
    submission::SubmissionRecord,
    task::{TaskRecord, TaskState},
    usage::RequestEnd,
};

use super::{
    Shared,
    agent::Current,
    call,
    conversation::ConversationHandle,
    scheduler::Scheduler,
    submission::Submission,
    turn::{Phase, Reason, Turn},
};
use crate::Session;

/// An open session that can run turns. Derefs to the kernel's [`Session`]; cloning it shares it.
///
/// Promise: opening runs nothing. Submitting, waiting for an end, cancelling and [`resume`](Self::resume) let its work
/// go on. Dropping the last handle gives the session up as a crash would: what runs is cut off and its records stay as
/// they are; the session can be opened again at once, and what is left of it (a transaction, the kernel's handle) can
/// commit nothing more.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::{Harness, Models, SessionSpec};
/// # let harness = Harness::builder(Store::new(Memory::new())).models(Models::new()).open().await?;
/// let session = harness.create(SessionSpec::default()).await?;
/// let id = session.id();
/// session.close().await?;
/// assert_eq!(harness.open_session(id).await?.id(), id);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LiveSession(
    pub(crate) Arc<LiveInner>,
    #[allow(dead_code, reason = "held for its end")] Option<Arc<Handle>>,
);

pub(crate) struct LiveInner {
    session: Session,
    shared: Arc<Shared>,
    pub(crate) scheduler: Scheduler,
}

/// What the session's users share, and its running tasks do not: when it is gone, nobody wants the session any more.
struct Handle(Weak<LiveInner>);

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.scheduler.stop();
            inner.session.0.give_up();
        }
    }
}

impl LiveInner {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

impl LiveSession {
    pub(super) fn new(session: Session, shared: Arc<Shared>) -> Self {
        let inner = Arc::new(LiveInner { session, shared, scheduler: Scheduler::default() });
        let handle = Arc::new(Handle(Arc::downgrade(&inner)));
        Self(inner, Some(handle))
    }

    /// The session as its running tasks have it: it does not keep the session open.
    pub(super) fn of(inner: Arc<LiveInner>) -> Self {
        Self(inner, None)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.session().0.check_open()
    }

    /// A live task.
    pub(crate) fn task(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        self.session().0.state().live.tasks.get(&id).cloned()
    }

    /// The root conversation.
    pub fn root(&self) -> ConversationHandle {
        self.conversation_handle(ConversationId::ROOT)
    }

    /// The conversation that chats use: the root, until [`branch_from`](Self::branch_from) has moved it.
    pub async fn current(&self) -> Result<ConversationHandle> {
        let current = self.snapshot::<Current>(()).await?.unwrap_or_default();
        Ok(self.conversation_handle(current.conversation))
    }

    /// A plain handle to a conversation; whether there is one is found by its use.
    pub fn conversation_handle(&self, id: ConversationId) -> ConversationHandle {
        ConversationHandle::new(self.clone(), id)
    }

    /// A submission by its id, also after a restart.
    ///
    /// Errors: `NotFound`.
    pub async fn submission(&self, id: SubmissionId) -> Result<Submission> {
        let found = self.submission_record(id).await?;
        Ok(Submission::new(self.clone(), found.id, found.conversation))
    }

    /// Submissions that have not ended, oldest first.
    pub fn open_submissions(&self) -> Vec<Submission> {
        let state = self.session().0.state();
        let live = state.live.submissions.values();
        live.map(|one| Submission::new(self.clone(), one.id, one.conversation)).collect()
    }

    pub(crate) async fn submission_record(&self, id: SubmissionId) -> Result<Arc<SubmissionRecord>> {
        {
            let state = self.session().0.state();
            if let Some(known) = state.live.submissions.get(&id).cloned().or_else(|| state.settled.get(id)) {
                return Ok(known);
            }
        }
        let query = SubmissionQuery { session: self.id(), only: SubmissionFilter::Id(id) };
        let found = self.shared().opener.store.submissions(query).await?.pop();
        found.map(Arc::new).ok_or_else(|| {
            Error::not_found(format!("look for submission {id} of session {}: there is none", self.id()))
        })
    }

    /// Waits until something that was looked for in committed state is there.
    ///
    /// Errors: what the look gives; `Closed` or `Fenced` when the session is given up first.
    pub(crate) async fn when<T, F>(&self, look: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let mut head = self.session().0.head.subscribe();
        loop {
            head.borrow_and_update();
            if let Some(found) = look().await? {
                return Ok(found);
            }
            self.check_open()?;
            // The session owns the sender: it lives as long as this handle.
            let _ = head.changed().await;
        }
    }

    /// Lets the work that is there go on.
    pub fn resume(&self) {
        Scheduler::start(self);
    }

    /// Makes a fork at the end of a turn the current conversation. The turns that came after it stay stored.
    ///
    /// Errors: `Conflict` while a turn runs in the current conversation; `NotFound` when there is no such ended turn.
    pub async fn branch_from(&self, turn: TaskId) -> Result<ConversationHandle> {
        let (conversation, entry) = self.end_of(turn).await?.ok_or_else(|| {
            Error::not_found(format!("branch session {} from turn {turn}: no such turn has ended", self.id()))
        })?;
        let mut tx = self.begin().await?;
        let current = tx.snapshot::<Current>(()).await?.unwrap_or_default();
        if let Some(busy) = tx.live_turn(current.conversation) {
            let message = format!("branch from turn {turn}: turn {} runs; cancel it or wait for it", busy.id);
            return Err(Error::conflict(message));
        }
        let fork = tx.fork(conversation, entry, Ownership::Ownerless).await?;
        tx.doc::<Current>(()).await?.conversation = fork;
        tx.commit().await?;
        Ok(self.conversation_handle(fork))
    }

    /// The conversation of an ended turn, and the entry that keeps it.
    pub(super) async fn end_of(&self, turn: TaskId) -> Result<Option<(ConversationId, EntryId)>> {
        let query = TaskQuery { session: self.id(), live: false, ids: Some(vec![turn]), owner: None };
        let Some(task) = self.shared().opener.store.tasks(query).await?.pop() else { return Ok(None) };
        let TaskState::Ended { outcome } = &task.state else { return Ok(None) };
        let entry = outcome.output().filter(|_| task.kind == super::turn::KIND).map(|output| output.read());
        Ok(entry.transpose()?.map(|entry| (task.conversation, entry)))
    }

    /// Refuses new work, stops what runs without a mark on its records (calls have the host's grace to end), and gives
    /// the session up. Opened again, the work goes on. Dropping the future once it was polled does not keep it open.
    pub async fn close(&self) -> Result<()> {
        self.session().0.refuse_new_work();
        self.0.scheduler.stop();
        // In a task of its own: half closed, a session would neither run its work nor tell its followers why.
        let live = Self::of(self.0.clone());
        let closing = tokio::spawn(async move {
            live.0.scheduler.stopped().await;
            live.session().close().await
        });
        closing.await.unwrap_or_else(|fault| Err(Error::closed(format!("closing was cut off: {fault}"))))
    }

    /// Ends a task whose step ended in an error that trying again cannot mend.
    pub(super) async fn fault(&self, id: TaskId, error: &Error) -> Result<()> {
        let Some(task) = self.task(id) else {
            return Ok(());
        };
        if task.kind == call::KIND {
            let outcome = if self.0.scheduler.was_entered(id) { Outcome::Unknown } else { Outcome::Error };
            return call::settle(self, id, (outcome, error.to_string())).await.map(drop);
        }
        let mut tx = self.begin_last().await?;
        if let Some(mut turn) = Turn::load(self.shared(), &tx, id)? {
            if self.0.scheduler.was_entered(id) {
                turn.cut_attempt(&mut tx, RequestEnd::Failed).await?;
            }
            turn.state.phase = Phase::Failed(Reason::faulted(error.to_string()));
            turn.advance(self.shared(), &mut tx).await?;
            tx.commit().await?;
        }
        self.0.scheduler.settled(id);
        Ok(())
    }
}

impl Deref for LiveSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0.session
    }
}

impl std::fmt::Debug for LiveSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LiveSession").field(&self.0.session).finish()
    }
}
