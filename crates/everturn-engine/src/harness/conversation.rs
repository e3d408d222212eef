//! A plain handle to a conversation: submit to it, configure it, stop it.

use std::sync::Arc;

use everturn_core::{
    Error, Result,
    id::{ConversationId, EntryId, TaskId},
    task::{
        TaskRecord,
        tree::{Above, Forest, Reach},
    },
};

use super::{
    agent::{Agent, AgentChange},
    compact::CompactTask,
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
        let rejects = input.when_busy == WhenBusy::Reject;
        let (request, actor) = (input.request.clone(), input.actor.clone());
        let queued = input.into_queued()?;
        let mut tx = self.live.begin().await?;
        let from = (self.id, request, actor.as_str());
        let id = tx.submit(self.live.shared(), from, (queued, rejects)).await?;
        tx.commit().await?;
        Ok(Submission::new(self.live.clone(), id, self.id))
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
        tx.configure(self.live.shared(), self.id, change).await?;
        tx.commit().await.map(drop)
    }

    /// Ends the turn that runs; the queue goes on as after an answer. Gives the turn, if one ran.
    pub async fn cancel(&self) -> Result<Option<TaskId>> {
        self.live.resume();
        let mut tx = self.live.begin().await?;
        let turn = tx.cancel_turn(self.id).await?;
        tx.commit().await.map(|_| turn)
    }

    /// Begins the conversation anew: the model is sent nothing of what came before but `hand_off`. All of it stays stored.
    ///
    /// Errors: `Conflict` while a turn runs.
    pub async fn reset(&self, hand_off: Option<String>) -> Result<EntryId> {
        let mut tx = self.live.begin().await?;
        tx.conversation(self.id).await?;
        let entry = tx.reset(self.id, hand_off)?;
        tx.commit().await.map(|_| entry)
    }

    /// Makes the context shorter, while the conversation goes on; waits until it is done. Gives the entry from which it begins
    /// anew.
    ///
    /// Errors: `Conflict` while it is being made shorter, or where nothing can be gained; what kept the model from
    /// writing a summary. Nothing was changed then.
    pub async fn compact(&self, focus: Option<String>) -> Result<EntryId> {
        self.live.resume();
        let mut tx = self.live.begin().await?;
        tx.conversation(self.id).await?;
        let task = tx.compact_now(self.id, focus)?;
        tx.commit().await?;
        let ended = self.live.task::<CompactTask>(task).ended().await?;
        ended
            .output()?
            .ok_or_else(|| Error::conflict(format!("compact conversation {}: {}", self.id, ended.outcome())))
    }

    /// A fork at an entry (with all, without one) that runs with what this conversation runs with there, but for a change.
    ///
    /// Errors: `Invalid` when the conversation does not see the entry; as [`configure`](Self::configure).
    pub async fn fork(&self, at: Option<EntryId>, change: AgentChange) -> Result<Self> {
        let mut tx = self.live.begin().await?;
        let fork = tx.fork_with(self.live.shared(), self.id, (at, change)).await?;
        tx.commit().await?;
        Ok(Self::new(self.live.clone(), fork))
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
        tx.abort_conversation(self.id, reach == Reach::Background)?;
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
