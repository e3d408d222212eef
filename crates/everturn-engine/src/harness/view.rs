//! A conversation as a user interface shows it: one value, made from what is committed.

use std::{collections::HashMap, sync::Arc};

use everturn_core::{
    Result,
    approval::ApprovalRecord,
    clock::Timestamp,
    cursor::Cursor,
    id::{ConversationId, SubmissionId, TaskId},
    json::RawJson,
    message::{CallId, End, Message, Outcome},
    storage::EntryQuery,
    submission::{Delivery, SubmissionRecord},
    task::{TaskRecord, TaskState},
    usage::Total,
};
use serde::{Deserialize, Serialize};

use super::{
    Agent, ConversationHandle,
    budget::waits_for_room,
    call::{self, CallState, CallTask, Streamed, call_id},
    child::AgentTask,
    event::{self, Source},
    inbox::said,
    turn::{Partial, TurnTask},
};
use crate::{SessionReader, SystemClock, task::Task};

/// A conversation as it is: what a user interface shows before it follows the events behind [`cursor`](Self::cursor).
///
/// Promise: it says nothing that is not stored. What is committed while it is read may be in it; the events behind its cursor
/// tell that again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::{Harness, Input, Models, SessionSpec};
/// # let harness = Harness::builder(Store::new(Memory::new())).models(Models::new()).open().await?;
/// let session = harness.create(SessionSpec::default()).await?;
/// let view = session.root().view().await?;
/// assert!(view.turn.is_none() && view.queued.is_empty());
///
/// let elsewhere = harness.reader(session.id()).await?;
/// assert_eq!(elsewhere.view(view.conversation).await?, view);
/// let events = session.root().events(view.cursor).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConversationView {
    /// What was committed when it was read: events behind it tell what came since.
    #[serde(serialize_with = "event::text")]
    pub cursor: Cursor,
    /// The conversation.
    pub conversation: ConversationId,
    /// What it runs with.
    pub agent: Agent,
    /// The turn that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<RunningTurn>,
    /// What waits for its turn, oldest first.
    pub queued: Vec<QueuedInput>,
    /// The questions that are open, oldest first.
    pub approvals: Vec<ApprovalRecord>,
    /// The sub-agents that work for it.
    pub children: Vec<ChildView>,
    /// What its own requests cost.
    pub usage: Total,
}

/// A turn that runs.
///
/// ```
/// use everturn_engine::view::{RunningTurn, TurnPhase};
/// fn is_stuck(turn: &RunningTurn) -> bool {
///     turn.phase == TurnPhase::WaitingForPerson
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunningTurn {
    /// The turn.
    pub turn: TaskId,
    /// Which response it is about, from 1; 0 before the first.
    pub step: u32,
    /// Which attempt at it.
    pub attempt: u32,
    /// What it does.
    pub phase: TurnPhase,
    /// Why it was told to stop, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopping: Option<String>,
    /// What has come of the response that streams.
    pub response: PartialResponse,
    /// The calls of the newest response.
    pub calls: Vec<CallView>,
}

/// What a turn does.
///
/// ```
/// use everturn_engine::view::TurnPhase;
/// assert_eq!(TurnPhase::WaitingForPerson.to_string(), "waiting for a person");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnPhase {
    /// It asks the model, or is about to.
    Requesting,
    /// Its calls run.
    Calling,
    /// Nothing goes on until a person decides.
    WaitingForPerson,
    /// It asks, or asks again, at a moment.
    WaitingUntil(Timestamp),
    /// Others come first: it waits for room in a budget, or for a place at the model's endpoint.
    WaitingForRoom,
    /// The context is made shorter.
    Compacting,
    /// It comes to its end.
    Ending,
}

impl std::fmt::Display for TurnPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Requesting => f.write_str("requesting"),
            Self::Calling => f.write_str("calling"),
            Self::WaitingForPerson => f.write_str("waiting for a person"),
            Self::WaitingUntil(until) => write!(f, "waiting until {until}"),
            Self::WaitingForRoom => f.write_str("waiting for room"),
            Self::Compacting => f.write_str("compacting"),
            Self::Ending => f.write_str("ending"),
        }
    }
}

/// What has come of a response that has not ended; empty while none streams.
///
/// ```
/// use everturn_engine::view::PartialResponse;
/// assert!(PartialResponse::default().text.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartialResponse {
    /// Its text.
    pub text: String,
    /// Its thinking.
    pub thinking: String,
    /// Its calls: the tool, and the arguments as far as they came.
    pub calls: Vec<(String, String)>,
}

/// A call of the newest response.
///
/// ```
/// use everturn_engine::view::{CallStanding, CallView};
/// fn has_ended(call: &CallView) -> bool {
///     matches!(call.state, CallStanding::Ended(_))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallView {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// The arguments with which it was made.
    pub arguments: RawJson,
    /// Where it stands.
    pub state: CallStanding,
    /// What it has written while it ran; once it has ended, as far as its result begins with it.
    pub output: String,
}

/// Where a call stands.
///
/// ```
/// use everturn_core::message::Outcome;
/// use everturn_engine::view::CallStanding;
/// assert_eq!(serde_json::to_value(CallStanding::Ended(Outcome::Ok)).unwrap()["ended"], "ok");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStanding {
    /// The model wants it; it was not judged yet, or others come first.
    Proposed,
    /// A person is asked.
    Asking,
    /// It runs, or will at once.
    Running,
    /// It has ended.
    Ended(Outcome),
}

/// An input that waits.
///
/// ```
/// fn shown(input: &everturn_engine::view::QueuedInput) -> String {
///     format!("{}: {}", input.submission, input.text)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueuedInput {
    /// The submission.
    pub submission: SubmissionId,
    /// How it wants to be delivered.
    pub delivery: Delivery,
    /// Its text.
    pub text: String,
}

/// A sub-agent that works for a conversation.
///
/// ```
/// fn is_at_work(child: &everturn_engine::view::ChildView) -> bool {
///     child.turn.is_some()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChildView {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The task that owns it: a call, or one in the background.
    pub owner: TaskId,
    /// Whether it works in the background.
    pub is_background: bool,
    /// The turn that runs in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TaskId>,
    /// What that turn does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<TurnPhase>,
}

impl ConversationHandle {
    /// The conversation as a user interface shows it. Writes nothing, and starts nothing.
    pub async fn view(&self) -> Result<ConversationView> {
        Viewing::of(Source::live(self.session().clone()), self.id()).await
    }
}

impl SessionReader {
    /// A conversation as a user interface shows it, whoever owns the session.
    ///
    /// Errors: `NotFound` when there is no such conversation.
    pub async fn view(&self, conversation: ConversationId) -> Result<ConversationView> {
        Viewing::of(Source::stranger(self.clone(), Arc::new(SystemClock)), conversation).await
    }
}

/// A view on its way.
struct Viewing {
    source: Source,
    tasks: Vec<Arc<TaskRecord>>,
    conversation: ConversationId,
}

/// What of a turn's checkpoint is shown.
#[derive(Deserialize)]
struct Stands {
    phase: serde_json::Value,
    step: u32,
    attempt: u32,
}

impl Viewing {
    async fn of(source: Source, conversation: ConversationId) -> Result<ConversationView> {
        source.lineage(conversation).await?;
        let cursor = source.place().await?;
        let tasks = source.live_tasks().await?;
        let viewing = Self { source, tasks, conversation };
        let source = &viewing.source;
        let agent = source.document::<Agent>(conversation).await?.map(|(agent, _)| agent);
        let approvals = source.open_approvals(conversation).await?;
        let ledger = source.store().usage(source.session()).await?;
        let usage = ledger.iter().filter(|row| row.conversation == conversation).collect();
        Ok(ConversationView {
            cursor,
            conversation,
            agent: agent.unwrap_or_default(),
            turn: viewing.turn(&approvals).await?,
            queued: viewing.queued().await?,
            approvals,
            children: viewing.children().await?,
            usage,
        })
    }

    fn turn_of(&self, conversation: ConversationId) -> Option<&Arc<TaskRecord>> {
        self.tasks.iter().find(|task| task.kind == TurnTask::NAME && task.conversation == conversation)
    }

    async fn turn(&self, approvals: &[ApprovalRecord]) -> Result<Option<RunningTurn>> {
        let Some(task) = self.turn_of(self.conversation) else { return Ok(None) };
        let partial = self.source.document::<Partial>(self.conversation).await?.map(|(partial, _)| partial);
        let partial = partial.filter(|partial| partial.turn == Some(task.id)).unwrap_or_default();
        let calls = self.calls(task.id).await?;
        let stands = task.checkpoint().map(RawJson::read::<Stands>).transpose()?;
        let (step, attempt) = stands.map_or((0, 0), |stands| (stands.step, stands.attempt));
        Ok(Some(RunningTurn {
            turn: task.id,
            step,
            attempt,
            phase: self.phase(task, (&partial, approvals))?,
            stopping: task.abort.clone(),
            response: PartialResponse {
                text: partial.text,
                thinking: partial.thinking,
                calls: partial.calls.into_iter().map(|call| (call.name, call.arguments)).collect(),
            },
            calls,
        }))
    }

    /// What a turn does, in view of what its request shows and of what a person is asked.
    fn phase(
        &self,
        turn: &TaskRecord,
        (partial, approvals): (&Partial, &[ApprovalRecord]),
    ) -> Result<TurnPhase> {
        if let TaskState::Sleeping { until, .. } = turn.state {
            return Ok(TurnPhase::WaitingUntil(until));
        }
        let is_held = partial.turn == Some(turn.id) && partial.is_held && partial.until.is_none();
        if is_held || waits_for_room(turn) {
            return Ok(TurnPhase::WaitingForRoom);
        }
        let Some(stands) = turn.checkpoint().map(RawJson::read::<Stands>).transpose()? else {
            return Ok(TurnPhase::Ending);
        };
        let word =
            stands.phase.as_str().or_else(|| stands.phase.as_object()?.keys().next().map(String::as_str));
        Ok(match word {
            Some("compacting") => TurnPhase::Compacting,
            Some("calling") => {
                let asks = |task: &TaskRecord| approvals.iter().any(|open| open.call == task.id);
                let mut open = self.tasks.iter().filter(|task| task.owner == Some(turn.id)).peekable();
                match open.peek().is_some() && open.all(|task| asks(task) || waits(task)) {
                    true => TurnPhase::WaitingForPerson,
                    false => TurnPhase::Calling,
                }
            }
            Some("asked" | "pinned" | "waiting" | "faulted") => TurnPhase::Requesting,
            _ => TurnPhase::Ending,
        })
    }

    /// The calls of a turn's newest response.
    async fn calls(&self, turn: TaskId) -> Result<Vec<CallView>> {
        let (mut calls, mut results) = (Vec::new(), HashMap::new());
        let all = EntryQuery::of(self.source.session(), self.source.lineage(self.conversation).await?);
        let mut before = None;
        'pages: loop {
            let query = EntryQuery { before, limit: 50, ..all.clone() };
            let page = self.source.store().entries(query).await?;
            let Some(oldest) = page.last() else { break };
            before = Some(oldest.id);
            for message in page.iter().filter(|entry| entry.task == Some(turn)).flat_map(|one| &one.messages)
            {
                match &**message {
                    Message::Result(result) => {
                        let ended = (result.outcome.clone(), result.shown().to_owned());
                        results.insert(result.call.clone(), ended);
                    }
                    Message::Assistant(response) => {
                        // Of one that was cut off nothing is called.
                        calls.extend(response.calls().filter(|_| response.end == End::Complete).cloned());
                        break 'pages;
                    }
                    _ => {}
                }
            }
            if page.iter().any(|entry| entry.id.0 < turn.0) {
                break;
            }
        }
        let mut views = Vec::with_capacity(calls.len());
        for made in calls {
            let task = self.tasks.iter().find(|task| call_id(task.id) == made.id);
            let (state, output) = match (results.remove(&made.id), task) {
                (Some((outcome, shown)), _) => (CallStanding::Ended(outcome), shown),
                (None, Some(task)) => {
                    let output = self.source.document::<Streamed>(task.id).await?;
                    (standing(task), output.map_or_else(String::new, |(output, _)| output.text))
                }
                (None, None) => (CallStanding::Proposed, String::new()),
            };
            views.push(CallView { call: made.id, name: made.name, arguments: made.arguments, state, output });
        }
        Ok(views)
    }

    async fn queued(&self) -> Result<Vec<QueuedInput>> {
        let all = self.source.live_submissions().await?;
        let shown = |one: &Arc<SubmissionRecord>| {
            let queued = one.queued().filter(|_| one.conversation == self.conversation)?;
            Some(QueuedInput { submission: one.id, delivery: queued.delivery, text: said(one).text() })
        };
        Ok(all.iter().filter_map(shown).collect())
    }

    async fn children(&self) -> Result<Vec<ChildView>> {
        let owners = self.tasks.iter().filter(|task| {
            task.conversation == self.conversation && [CallTask::NAME, AgentTask::NAME].contains(&&*task.kind)
        });
        let owners: HashMap<TaskId, &Arc<TaskRecord>> = owners.map(|task| (task.id, task)).collect();
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        let mut children = Vec::new();
        for child in self.source.conversations().await? {
            let Some(owner) = child.owner.and_then(|owner| owners.get(&owner)) else { continue };
            let turn = self.turn_of(child.id);
            let approvals = self.source.open_approvals(child.id).await?;
            let partial = self.source.document::<Partial>(child.id).await?.map(|(partial, _)| partial);
            let shown = (&partial.unwrap_or_default(), approvals.as_slice());
            children.push(ChildView {
                conversation: child.id,
                owner: owner.id,
                is_background: owner.background,
                turn: turn.map(|turn| turn.id),
                phase: turn.map(|turn| self.phase(turn, shown)).transpose()?,
            });
        }
        Ok(children)
    }
}

/// Whether a call waits for others of its response.
fn waits(call: &TaskRecord) -> bool {
    matches!(call.state, TaskState::Waiting { .. }) && standing(call) == CallStanding::Proposed
}

/// Where a call stands that has not ended.
fn standing(task: &TaskRecord) -> CallStanding {
    match task.checkpoint().and_then(|checkpoint| checkpoint.read::<CallState>().ok()) {
        Some(CallState { phase: call::Phase::Proposed, .. }) => CallStanding::Proposed,
        Some(CallState { phase: call::Phase::Asking(_) | call::Phase::Unsure(_), .. }) => {
            CallStanding::Asking
        }
        _ => CallStanding::Running,
    }
}
