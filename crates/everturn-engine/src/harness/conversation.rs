//! A plain handle to a conversation: submit to it, configure it, stop it.

use std::sync::Arc;

use everturn_core::{
    Error, Result,
    id::{ConversationId, SubmissionId},
    storage::{SubmissionFilter, SubmissionQuery},
    submission::{End, SubmissionRecord, SubmissionState},
    task::{
        TaskRecord,
        tree::{Above, Forest, Reach},
    },
};

use super::{
    agent::{Agent, AgentChange},
    event::{Events, Source},
    input::{Input, WhenBusy},
    live::LiveSession,
    submission::Submission,
    turn::TurnTask,
};
use crate::{Transaction, task::Task, watch::Start};

/// A conversation of an open session.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::{Harness, Input, Models, SessionSpec};
/// # let harness = Harness::builder(Store::new(Memory::new())).models(Models::new()).open().await?;
/// let session = harness.create(SessionSpec::default()).await?;
/// let asked = session.root().submit(Input::text("hello")).await?;
/// let answer = asked.answer().await?;
/// assert!(answer.error().unwrap().contains("no model"), "nobody configured one");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ConversationHandle {
    live: LiveSession,
    id: ConversationId,
}

impl ConversationHandle {
    pub(super) fn new(live: LiveSession, id: ConversationId) -> Self {
        Self { live, id }
    }

    /// Its id.
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Its session.
    pub fn session(&self) -> &LiveSession {
        &self.live
    }

    /// Hands an input to the conversation. When nothing runs, its turn starts; else it waits, or is refused, as the
    /// input says.
    ///
    /// Promise: accepted once and ended once. Repeating a request id, also after a restart, returns the first
    /// submission. Dropping the future once the commit is under way does not undo it.
    /// Errors: `Conflict` when the conversation is busy and the input does not wait; `TooLarge` when no entry can hold
    /// the input; `NotFound` when there is no such conversation; what storage says.
    pub async fn submit(&self, input: Input) -> Result<Submission> {
        self.live.resume();
        let mut tx = self.live.begin().await?;
        if let Some(request) = &input.request
            && let Some(first) = self.repeated(request).await?
        {
            return Ok(Submission::new(self.live.clone(), first, self.id));
        }
        self.live.conversation(self.id).await?;
        self.live.shared().check_options(&input.options)?;
        let id = SubmissionId(tx.mint());
        let (request, actor, rejects) =
            (input.request.clone(), input.actor.clone(), input.when_busy == WhenBusy::Reject);
        let state = SubmissionState::Queued(input.into_queued()?);
        let record = SubmissionRecord { id, conversation: self.id, request, actor, state, time: tx.time() };
        if let Some(turn) = tx.live_turn(self.id).filter(|_| rejects) {
            return Err(Error::conflict(format!(
                "submit to conversation {}: turn {} runs",
                self.id, turn.id
            )));
        }
        tx.hand_over(self.live.shared(), record).await?;
        tx.commit().await?;
        Ok(Submission::new(self.live.clone(), id, self.id))
    }

    async fn repeated(&self, request: &str) -> Result<Option<SubmissionId>> {
        let only = SubmissionFilter::Request(self.id, request.to_owned());
        let query = SubmissionQuery { session: self.live.id(), only };
        let found = self.live.shared().opener.store.submissions(query).await?;
        Ok(found.first().map(|first| first.id))
    }

    /// What the conversation runs with.
    pub async fn agent(&self) -> Result<Agent> {
        Ok(self.live.snapshot::<Agent>(self.id).await?.unwrap_or_default())
    }

    /// Changes what the conversation runs with, in one commit. The next request goes by it.
    ///
    /// Errors: `NotFound` when no provider of the model is installed, or an extension or a tool that it did not have
    /// before; nothing was changed.
    pub async fn configure(&self, change: AgentChange) -> Result<()> {
        let mut tx = self.live.begin().await?;
        self.live.conversation(self.id).await?;
        let agent = tx.doc::<Agent>(self.id).await?;
        let before = agent.clone();
        change.apply(agent);
        self.live.shared().check_agent(&before, agent)?;
        tx.commit().await.map(drop)
    }

    /// Events of the conversation.
    ///
    /// Shape: from now on, what the response and the calls have shown that run now comes first. From a cursor, the events of
    /// the commits behind it; what an attempt has shown that may have begun before is withdrawn first
    /// ([`AttemptDiscarded`](crate::EventKind::AttemptDiscarded)), and the output of calls that ran comes from its beginning, so
    /// that applying the events is exact whatever was seen of them. A cursor beyond what is stored is answered by
    /// [`Resync`](crate::EventKind::Resync), and all of the turn that runs.
    ///
    /// Errors: `NotFound` when there is no such conversation; `Invalid` for a cursor of another session.
    pub async fn events(&self, from: impl Into<Start>) -> Result<Events> {
        Events::from(Source::live(self.live.clone()), self.id, from.into()).await
    }

    /// Withdraws queued inputs, tells all work of the conversation to stop, and returns when it is idle. With the reach,
    /// background work is told too.
    ///
    /// Promise: doing so again changes nothing.
    pub async fn abort(&self, reach: Reach) -> Result<()> {
        self.live.resume();
        let mut tx = self.live.begin().await?;
        for queued in
            tx.queued(self.id).iter().filter(|one| one.queued().is_some_and(|it| it.entry.is_none()))
        {
            tx.settle(queued, End::Withdrawn);
        }
        tx.abort_work(self.id, "the conversation was aborted", reach);
        tx.commit().await?;
        self.wait_idle().await
    }

    /// Returns when no ordinary work of the conversation is live and no input waits in it. Lets its work go on.
    ///
    /// Errors: `Closed` or `Fenced` when the session is given up meanwhile.
    pub async fn wait_idle(&self) -> Result<()> {
        self.live.resume();
        let is_idle = || self.live.session().0.state().live.is_idle(self.id).then_some(());
        self.live.when(|| std::future::ready(Ok(is_idle()))).await
    }
}

/// What a transaction sees of live work.
impl Transaction {
    /// The turn that runs in a conversation, as it stands in this transaction.
    pub(super) fn live_turn(&self, conversation: ConversationId) -> Option<Arc<TaskRecord>> {
        let below = self.below(Above::Conversation(conversation)).into_iter();
        // One whose end is settled takes no more.
        let is_turn = |task: &Arc<TaskRecord>| task.kind == TurnTask::NAME && task.outcome().is_none();
        below.filter_map(|id| Transaction::task(self, id)).find(is_turn)
    }
}
