//! A session with a harness: the kernel's session, and what runs its tasks.

use std::{ops::Deref, sync::Arc, time::Duration};

use everturn_core::{
    Error, Result,
    conversation::Ownership,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    storage::{SubmissionFilter, SubmissionQuery},
    submission::SubmissionRecord,
    task::{
        Signal,
        tree::{Aborting, Reach},
    },
};

use super::{
    Shared, agent::Current, conversation::ConversationHandle, submission::Submission, task::TaskHandle,
    verbs::ended_turn,
};
use crate::{
    NewTask, Session,
    task::{GraphWatch, Runner, StepHold, Task, TaskGraph},
};

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
pub struct LiveSession(Arc<LiveInner>);

/// What the session's users share, and its running tasks do not: when it is gone, nobody wants the session any more.
struct LiveInner {
    session: Session,
    shared: Arc<Shared>,
    runner: Arc<Runner>,
}

impl Drop for LiveInner {
    fn drop(&mut self) {
        self.runner.stop();
        self.session.0.give_up();
    }
}

/// What becomes of what is left behind when a session branches.
///
/// ```
/// use everturn_engine::Branch;
/// assert!(!Branch::default().abort);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Whether work of the current conversation is aborted; else it keeps the session from branching.
    pub abort: bool,
    /// Whether the files that the current conversation's later turns have changed are restored.
    pub restore_files: bool,
}

impl LiveSession {
    pub(super) fn new(session: Session, shared: Arc<Shared>) -> Self {
        let runner = Runner::new(session.clone(), shared.host.clone());
        Self(Arc::new(LiveInner { session, shared, runner }))
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

    /// Lets the work that is there go on. The first time, calls that are asked about are judged again: policy may be another than
    /// where they were asked.
    pub fn resume(&self) {
        self.0.runner.start();
    }

    /// Creates a task for a conversation, and lets it run.
    ///
    /// Errors: `Invalid` when the input has no JSON form, or the conversation belongs to work that is over; `NotFound`
    /// when there is no such conversation; what storage says.
    pub async fn start_task<T: Task>(
        &self,
        conversation: ConversationId,
        input: &T::Input,
    ) -> Result<TaskHandle<T>> {
        self.resume();
        let mut tx = self.begin().await?;
        let id = tx.create_task(NewTask::of::<T>(conversation, input)?)?;
        tx.commit().await?;
        Ok(self.task(id))
    }

    /// A plain handle to a task; whether there is one of this type is found by its use.
    pub fn task<T: Task>(&self, id: TaskId) -> TaskHandle<T> {
        TaskHandle::new(self.clone(), id)
    }

    /// Tells a task to stop, and all below it; with the reach, background work too. It ends in order, once what is below
    /// it has ended.
    ///
    /// Promise: doing so again changes nothing.
    /// Errors: `NotFound` when there is no such task.
    pub async fn abort_task(&self, id: TaskId, reason: &str, reach: Reach) -> Result<Aborting> {
        self.resume();
        let mut tx = self.begin().await?;
        let aborting = tx.abort_task(id, reason, reach).await?;
        tx.commit().await?;
        Ok(aborting)
    }

    /// Tells a task that something happened. It may come before the task waits for it.
    ///
    /// Errors: `NotFound` when there is no such task; `Conflict` when it has ended.
    pub async fn signal(&self, id: TaskId, signal: Signal) -> Result<()> {
        self.resume();
        let mut tx = self.begin().await?;
        tx.signal(id, signal).await?;
        tx.commit().await.map(drop)
    }

    /// Keeps steps from beginning, until what it gives is dropped. Those that run go on.
    pub fn hold(&self) -> StepHold {
        self.0.runner.hold()
    }

    /// Returns when nothing of the session runs and nothing could: all that lives waits for a moment, a signal, a task or
    /// its code, or the session is held. Lets its work go on.
    ///
    /// Errors: why the session was given up meanwhile.
    pub async fn quiescent(&self) -> Result<()> {
        self.resume();
        self.0.runner.quiescent().await
    }

    /// What lives in the session and what it does. Writes nothing, and starts nothing.
    pub async fn inspect(&self) -> Result<TaskGraph> {
        self.0.runner.inspect().await
    }

    /// Follows what lives in the session and what it does. Starts nothing.
    pub fn task_graph(&self) -> GraphWatch {
        GraphWatch::new(self.0.runner.clone())
    }

    pub(super) fn runner(&self) -> &Runner {
        &self.0.runner
    }

    /// Makes a fork at the end of a turn the current conversation. The turns that came after it stay stored; the fork has
    /// neither their queue nor their work nor their approvals.
    ///
    /// Errors: `Conflict` while a turn runs in the current conversation, unless it is to be aborted; `NotFound` when there is no
    /// such ended turn; as [`undo`](Self::undo), where files are to be restored. Nothing is branched then.
    pub async fn branch_from(&self, turn: TaskId, how: Branch) -> Result<ConversationHandle> {
        let (conversation, entry) = self.end_of(turn).await?.ok_or_else(|| {
            Error::not_found(format!("branch session {} from turn {turn}: no such turn has ended", self.id()))
        })?;
        let current = self.current().await?;
        if how.abort {
            current.abort(Reach::Ordinary).await?;
        }
        if how.restore_files {
            let path = self.history().await?;
            let later = path.iter().filter(|view| view.entry > entry && view.conversation == current.id());
            let later: Vec<TaskId> = later.map(|view| view.record.turn).collect();
            self.undo_all(current.id(), later).await?;
        }
        let mut tx = self.begin().await?;
        let current = tx.snapshot::<Current>(()).await?.unwrap_or_default();
        if let Some(busy) = tx.live_turn(current.conversation) {
            let message = format!("branch from turn {turn}: turn {} runs; cancel it or wait for it", busy.id);
            return Err(Error::conflict(message));
        }
        tx.check_unowned(conversation).await?;
        let fork = tx.fork(conversation, entry, Ownership::Ownerless).await?;
        tx.doc::<Current>(()).await?.conversation = fork;
        tx.commit().await?;
        Ok(self.conversation_handle(fork))
    }

    /// The conversation of an ended turn, and the entry that keeps it.
    pub(super) async fn end_of(&self, turn: TaskId) -> Result<Option<(ConversationId, EntryId)>> {
        let Some(task) = ended_turn(self, turn).await? else { return Ok(None) };
        let entry = task.outcome().and_then(|outcome| outcome.output()).map(|output| output.read());
        Ok(entry.transpose()?.map(|entry| (task.conversation, entry)))
    }

    /// Refuses new work, stops what runs without a mark on its records (code has the host's grace to end), and gives the
    /// session up. Opened again, the work goes on. Dropping the future once it was polled does not keep it open.
    ///
    /// Promise: it returns within the host's [`close_ms`](super::Settings::close_ms), whatever code or storage does.
    pub async fn close(&self) -> Result<()> {
        self.0.runner.stop();
        self.session().0.refuse_new_work();
        // In a task of its own: half closed, a session would neither run its work nor tell its followers why.
        let (session, runner) = (self.0.session.clone(), self.0.runner.clone());
        let within = Duration::from_millis(self.shared().settings().close_ms);
        let closing = tokio::spawn(async move {
            let orderly = async {
                runner.stopped().await;
                session.close().await
            };
            let clock = &session.0.opener.world.clock;
            tokio::select! {
                biased;
                closed = orderly => closed,
                () = clock.sleep(within) => {
                    tracing::warn!(session = %session.id(), "the session is closed without what still runs");
                    session.0.give_up();
                    Ok(())
                }
            }
        });
        closing.await.unwrap_or_else(|fault| Err(Error::closed(format!("closing was cut off: {fault}"))))
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
