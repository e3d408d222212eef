//! A session with a harness: the kernel's session, and what runs its tasks.

use std::{ops::Deref, sync::Arc};

use everturn_core::{
    Error, Result,
    conversation::Ownership,
    id::{ConversationId, SubmissionId, TaskId},
    message::Outcome,
    submission::SubmissionRecord,
    task::TaskRecord,
};

use super::{
    ROOT, Shared,
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
/// go on. Dropping the last handle gives the session up as a crash would, but for its lease, which is released.
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
pub struct LiveSession(pub(crate) Arc<LiveInner>);

pub(crate) struct LiveInner {
    session: Session,
    shared: Arc<Shared>,
    pub(crate) scheduler: Scheduler,
}

impl LiveSession {
    pub(super) fn new(session: Session, shared: Arc<Shared>) -> Self {
        Self(Arc::new(LiveInner { session, shared, scheduler: Scheduler::default() }))
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
        self.conversation_handle(ROOT)
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
        use everturn_core::storage::{SubmissionFilter, SubmissionQuery};
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

    /// Lets the work that is there go on.
    pub fn resume(&self) {
        Scheduler::wake(self);
    }

    /// Makes a fork at the end of a turn the current conversation. The turns that came after it stay stored.
    ///
    /// Errors: `Conflict` while a turn runs in the current conversation; `NotFound` when there is no such ended turn.
    pub async fn branch_from(&self, turn: TaskId) -> Result<ConversationHandle> {
        let ended = self.turns().await?.into_iter().find(|view| view.record.turn == turn);
        let ended = ended.ok_or_else(|| {
            Error::not_found(format!("branch session {} from turn {turn}: no such turn has ended", self.id()))
        })?;
        let mut tx = self.begin().await?;
        let current = tx.snapshot::<Current>(()).await?.unwrap_or_default();
        if let Some(busy) = tx.live_turn(current.conversation) {
            let message = format!("branch from turn {turn}: turn {} runs; cancel it or wait for it", busy.id);
            return Err(Error::conflict(message));
        }
        let fork = tx.fork(ended.conversation, ended.entry, Ownership::Ownerless).await?;
        tx.doc::<Current>(()).await?.conversation = fork;
        tx.commit().await?;
        Ok(self.conversation_handle(fork))
    }

    /// Stops what runs without a mark on its records, and gives the session up. Opened again, the work goes on.
    pub async fn close(&self) -> Result<()> {
        self.0.scheduler.close().await;
        self.session().close().await
    }

    /// Ends a task whose step ended in an error that trying again cannot mend.
    pub(super) async fn fault(&self, id: TaskId, error: &Error) -> Result<()> {
        let Some(task) = self.task(id) else { return Ok(()) };
        if task.kind == call::KIND {
            return call::settle(self, id, (Outcome::Error, error.to_string())).await.map(drop);
        }
        let mut tx = self.begin().await?;
        if let Some(mut turn) = Turn::load(self.shared(), &tx, id)? {
            turn.state.phase = Phase::Failed(Reason::new("error", error.to_string()));
            turn.advance(self.shared(), &mut tx).await?;
            tx.commit().await?;
        }
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
