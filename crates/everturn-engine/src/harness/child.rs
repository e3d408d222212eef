//! Sub-agents: conversations that a call, or a task behind it, owns.

use std::sync::Weak;

use everturn_core::{
    Error, ErrorKind, Result,
    budget::{Limit, Room, Spent},
    conversation::Ownership,
    document::Document,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    json::RawJson,
    message::Outcome,
    submission::{LOCAL, Queued, SubmissionRecord, SubmissionState},
    task::{
        TaskOutcome, TaskRecord, WaitPolicy,
        tree::{Above, Forest},
    },
};
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    agent::{Agent, AgentChange},
    budget::Spender,
    call::Ended,
    history::TurnRecord,
    input::Input,
    turn::{change_in, shared},
};
use crate::{
    NewTask, Transaction,
    task::{Step, Task, TaskContext, TaskError},
    tool::Spawn,
};

/// How many sub-agents a session has had.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.children", version = 1, scope = "session", crate = "everturn_core")]
struct Children {
    total: u32,
}

/// A sub-agent at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Child {
    pub(super) conversation: ConversationId,
    pub(super) turn: TaskId,
}

/// What a sub-agent is started by.
pub(super) struct Start<'a> {
    /// The task that owns it.
    pub(super) owner: TaskId,
    /// The conversation that it works for.
    pub(super) parent: ConversationId,
    pub(super) spawn: &'a Spawn,
}

/// What a sub-agent came to.
pub(super) enum Report {
    Answered(String),
    Failed(String),
}

impl Transaction {
    /// Stages a sub-agent: its conversation, its agent, its first input and its turn.
    ///
    /// Errors: `Conflict` when there may be no more of them: too deep, too many at once, or in all.
    pub(super) async fn start_child(&mut self, shared: &Shared, start: Start<'_>) -> Result<Child> {
        let turn = self.task(start.owner).and_then(|owner| owner.owner).unwrap_or(start.owner);
        let by = Spender::turn(start.parent, turn);
        self.check_children(shared, by).await?;
        self.charge(shared, by, Spent { children: 1, ..Spent::default() }).await?;
        self.doc::<Children>(()).await?.total += 1;
        let owner = self.task(start.owner);
        let owner = owner.ok_or_else(|| Error::conflict("start a sub-agent: its owner has ended"))?;
        let mut agent = self.agent_above(&owner).await?;
        start.spawn.agent.clone().apply(&mut agent);
        let conversation = self.create_conversation(Ownership::Task(start.owner));
        *self.doc::<Agent>(conversation).await? = agent;
        let request = Some("task".to_owned());
        let queued = Input::text(start.spawn.prompt.as_str()).into_queued()?;
        let submission = self.new_submission(conversation, request, queued);
        let id = submission.id;
        self.begin_with(shared, submission).await?;
        let turn = self.submission(id).and_then(|placed| placed.turn());
        let turn =
            turn.ok_or_else(|| Error::invalid(format!("start a sub-agent: input {id} came to no turn")))?;
        Ok(Child { conversation, turn })
    }

    /// What the conversation runs with in which a task is that owns sub-agents, in the turn that began the task.
    pub(super) async fn agent_above(&self, owner: &TaskRecord) -> Result<Agent> {
        if owner.kind != AgentTask::NAME {
            return self.agent_in(owner.conversation, owner.owner).await;
        }
        let mut agent = self.agent_in(owner.conversation, None).await?;
        owner.input.read::<AgentInput>()?.turn.apply(&mut agent);
        Ok(agent)
    }

    /// A submission that was just handed over by the session itself.
    pub(super) fn new_submission(
        &mut self,
        conversation: ConversationId,
        request: Option<String>,
        queued: Queued,
    ) -> SubmissionRecord {
        let id = SubmissionId(self.mint());
        let (actor, state, time) = (LOCAL.to_owned(), SubmissionState::Queued(queued), self.time());
        SubmissionRecord { id, conversation, request, actor, state, time }
    }

    /// The gate: whether one more sub-agent may be started, whichever way.
    async fn check_children(&mut self, shared: &Shared, by: Spender) -> Result<()> {
        let settings = shared.settings();
        let refuse = |what: String| Err(Error::conflict(format!("start a sub-agent: {what}")));
        let depth = self.depth_of(by).await?;
        if depth > settings.depth_max {
            return refuse(format!(
                "it would be {depth} deep, and {} is all that may be",
                settings.depth_max
            ));
        }
        let here = self.children_of(by.conversation);
        if here >= settings.children_max {
            return refuse(format!("{here} work for this conversation, and more may not at once"));
        }
        let total = self.snapshot::<Children>(()).await?.unwrap_or_default().total;
        if total >= settings.children_total_max {
            return refuse(format!("the session has had {total}, and that is all that it may have"));
        }
        let child = Spent { children: 1, ..Spent::default() };
        match self.room(shared, by, &child).await? {
            Room::Exceeded(limit) => refuse(format!("the budget of {limit} is used up")),
            Room::Enough | Room::Wait => Ok(()),
        }
    }

    /// How deep a sub-agent of a conversation would be.
    ///
    /// Errors: `Conflict` where that is deeper than a budget above allows.
    async fn depth_of(&self, by: Spender) -> Result<u32> {
        let (mut depth, mut turn) = (1, Some(by.turn));
        let mut place = self.conversation(by.conversation).await?;
        loop {
            let budget = self.agent_in(place.id, turn).await?.budget;
            if budget.depth.is_some_and(|max| u64::from(depth) > max) {
                let message = format!("start a sub-agent: the budget of {} is used up", Limit::Depth);
                return Err(Error::conflict(message));
            }
            let Some(owner) = place.owner.and_then(|owner| self.task(owner)) else { return Ok(depth) };
            depth += 1;
            turn = owner.owner;
            place = self.conversation(owner.conversation).await?;
        }
    }

    /// How many sub-agents work for a conversation.
    fn children_of(&self, parent: ConversationId) -> u32 {
        let mut count = 0;
        let mut above = vec![Above::Conversation(parent)];
        while let Some(next) = above.pop() {
            for task in self.below(next) {
                count += self.owned(task).len();
                above.push(Above::Task(task));
            }
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// What a sub-agent's turn came to.
pub(super) async fn report(tx: &Transaction, child: Child) -> Result<Report> {
    let failed = |why: &str| Ok(Report::Failed(format!("The sub-agent did not finish: {why}")));
    let Some(outcome) = tx.outcome(child.turn).await? else { return failed("it is still at work") };
    let entry: Option<EntryId> = outcome.output().map(RawJson::read).transpose()?;
    let Some(entry) = entry else { return failed(outcome.word()) };
    let record: Option<TurnRecord> = tx.entry(child.conversation, entry).await?.read()?;
    let Some(record) = record else { return failed(outcome.word()) };
    match (record.reply, record.outcome.failure()) {
        (Some(reply), None) => Ok(Report::Answered(tx.entry(child.conversation, reply).await?.text())),
        (_, Some(why)) => failed(&why),
        (None, None) if outcome.is_completed() => Ok(Report::Answered(String::new())),
        (None, None) => match outcome {
            TaskOutcome::Aborted { reason, .. } => failed(&reason),
            other => failed(other.word()),
        },
    }
}

impl Report {
    /// The end of the call that started the sub-agent.
    pub(super) fn into_ended(self, child: Child) -> Ended {
        let (outcome, text) = match self {
            Self::Answered(text) => (Outcome::Ok, text),
            Self::Failed(why) => (Outcome::Error, why),
        };
        let details = RawJson::of(&child).ok();
        Ended { details, ..Ended::new(outcome, text) }
    }
}

/// A sub-agent in the background: reports to the conversation that started it, once.
pub(super) struct AgentTask(pub(super) Weak<Shared>);

/// What a sub-agent in the background is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AgentInput {
    pub(super) spawn: Spawn,
    /// What was different of the agent in the turn that started it.
    #[serde(default, skip_serializing_if = "AgentChange::is_none")]
    pub(super) turn: AgentChange,
}

/// Where a sub-agent in the background stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentState {
    Starting,
    Working(Child),
}

impl Task for AgentTask {
    const NAME: &'static str = "et.agent";
    type Input = AgentInput;
    type State = AgentState;
    type Output = String;

    fn start(&self, _: &AgentInput) -> AgentState {
        AgentState::Starting
    }

    async fn step(
        &self,
        cx: &TaskContext,
        input: &AgentInput,
        state: AgentState,
    ) -> Result<Step<Self>, TaskError> {
        let shared = shared(&self.0)?;
        let mut tx = cx.begin().await?;
        if let (AgentState::Starting, Some(undo)) = (&state, tx.undoing()) {
            // Its turn would work on files that are being restored.
            return Ok(Step::wait_tasks([undo.id], WaitPolicy::AllSettled, state).with(tx));
        }
        match state {
            AgentState::Starting => {
                let start = Start { owner: cx.id(), parent: cx.conversation(), spawn: &input.spawn };
                let child = match tx.start_child(&shared, start).await {
                    Ok(child) => child,
                    // Others were faster: whoever was told that a report comes gets one.
                    Err(error) if matches!(error.kind(), ErrorKind::Conflict) => {
                        let text = format!("The sub-agent did not begin: {error}");
                        return tell(&shared, cx, tx, text).await;
                    }
                    Err(error) => return Err(error.into()),
                };
                let state = AgentState::Working(child);
                Ok(Step::wait_tasks([child.turn], WaitPolicy::AllSettled, state).with(tx))
            }
            AgentState::Working(child) => {
                let (Report::Answered(text) | Report::Failed(text)) = report(&tx, child).await?;
                tell(&shared, cx, tx, text).await
            }
        }
    }
}

/// Ends a sub-agent in the background with its report.
async fn tell(
    shared: &Shared,
    cx: &TaskContext,
    mut tx: Transaction,
    text: String,
) -> Result<Step<AgentTask>, TaskError> {
    let told = format!("<report task=\"{}\">\n{text}\n</report>", cx.id());
    let queued = Input::text(told).keep().into_queued()?;
    let request = Some(format!("report {}", cx.id()));
    let submission = tx.new_submission(cx.conversation(), request, queued);
    tx.hand_over(shared, submission).await?;
    Ok(Step::done(text).with(tx))
}

impl Transaction {
    /// Stages the task of a sub-agent in the background; it is bound to the session, and not to the turn that starts it.
    pub(super) async fn start_in_background(&mut self, shared: &Shared, start: Start<'_>) -> Result<TaskId> {
        let turn = self.task(start.owner).and_then(|call| self.task(call.owner?));
        let spender = turn.as_ref().map_or(start.owner, |turn| turn.id);
        self.check_children(shared, Spender::turn(start.parent, spender)).await?;
        let input = AgentInput { spawn: start.spawn.clone(), turn: change_in(turn.as_deref())? };
        let new = NewTask::of::<AgentTask>(start.parent, &input)?;
        self.create_task(NewTask { background: true, ..new })
    }
}
