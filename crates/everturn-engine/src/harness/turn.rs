//! The turn: a task that is moved by one pure decision.

mod advance;
mod fit;
mod gate;
mod partial;
mod prepare;
mod request;
mod retry;
mod schema;
mod standstill;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use everturn_core::{
    Error, Result,
    id::{ConversationId, EntryId, TaskId},
    task::{TaskFailure, TaskRecord},
    usage::RequestEnd,
};

use super::{
    Shared,
    agent::{Agent, AgentChange},
    budget::ROOM,
    history::TurnEnd,
    settle,
};
use crate::{
    Transaction,
    task::{Aborted, Remains, Step, Task, TaskContext, TaskError},
};
pub(super) use advance::{Came, Sent, Turn, admit, admit_later};
pub(super) use partial::Partial;
pub(super) use request::Attempt;
pub(super) use retry::wait as retry_wait;
pub(super) use schema::value as json_value;
pub(super) use state::TurnInput;
pub(super) use state::{Ending, Reason};
use state::{Phase, TurnState};

/// Turns as tasks. What comes out is the entry that keeps the turn.
pub(crate) struct TurnTask(pub(super) Weak<Shared>);

/// What built-in tasks share with their harness.
pub(super) fn shared(weak: &Weak<Shared>) -> Result<Arc<Shared>> {
    weak.upgrade().ok_or_else(|| Error::closed("its harness is gone"))
}

/// What is different of the agent in the turn that a task is, if it is one.
pub(super) fn change_in(task: Option<&TaskRecord>) -> Result<AgentChange> {
    match task.filter(|task| task.kind == TurnTask::NAME) {
        Some(turn) => Ok(turn.input.read::<TurnInput>()?.options.agent),
        None => Ok(AgentChange::default()),
    }
}

impl Transaction {
    /// What a conversation runs with in a turn, or without one.
    pub(super) async fn agent_in(&self, conversation: ConversationId, turn: Option<TaskId>) -> Result<Agent> {
        let mut agent = self.snapshot::<Agent>(conversation).await?.unwrap_or_default();
        let turn = turn.and_then(|turn| self.task(turn));
        change_in(turn.as_deref())?.apply(&mut agent);
        Ok(agent)
    }
}

impl Task for TurnTask {
    const NAME: &'static str = "et.turn";
    type Input = TurnInput;
    type State = TurnState;
    type Output = EntryId;

    fn start(&self, input: &TurnInput) -> TurnState {
        TurnState::begin(input.first)
    }

    async fn step(
        &self,
        cx: &TaskContext,
        input: &TurnInput,
        state: TurnState,
    ) -> Result<Step<Self>, TaskError> {
        let shared = shared(&self.0)?;
        if matches!(state.phase, Phase::Waiting(_)) {
            // A move of its own: whoever finds the turn waiting knows that nothing was sent.
            let mut tx = cx.begin().await?;
            let turn = Turn::load(&shared, &tx, cx.id(), state)?;
            return Ok(turn.send_again(&shared, &mut tx).await?.into_step().with(tx));
        }
        if let Phase::Pinned(pinned) = &state.phase
            && !cx.was_entered()
        {
            let pinned = pinned.clone();
            return Ok(request::send(&shared, cx, state, &pinned).await?);
        }
        let judged = gate::ask(&shared, cx, input, &state).await?;
        let mut tx = cx.begin().await?;
        let mut turn = Turn::load(&shared, &tx, cx.id(), state)?;
        if let (Some(said), Phase::Responded { judged, .. }) = (judged, &mut turn.state.phase) {
            *judged = said;
        }
        if matches!(turn.state.phase, Phase::Pinned(_)) {
            // The request may have been sent: that was an attempt, and what follows is the next one.
            turn.cut_attempt(&shared, &mut tx, RequestEnd::Unknown).await?;
            turn.was_cut();
            return Ok(turn.send_again(&shared, &mut tx).await?.into_step().with(tx));
        }
        Ok(turn.advance(&shared, &mut tx).await?.into_step().with(tx))
    }

    async fn abort(
        &self,
        cx: &TaskContext,
        _: &TurnInput,
        state: TurnState,
    ) -> Result<Aborted<Self>, TaskError> {
        let reason = cx.abort_reason().unwrap_or_default();
        self.remains(cx, state, Ending::Cancelled { reason }).await
    }

    async fn fault(
        &self,
        cx: &TaskContext,
        _: &TurnInput,
        state: TurnState,
        why: &TaskFailure,
    ) -> Result<Remains<Self>, TaskError> {
        self.remains(cx, state, Ending::Failed(Reason::faulted(why.to_string()))).await
    }
}

impl TurnTask {
    /// What a turn leaves that is cut off: the account of its request, its entry, and whoever comes next.
    async fn remains(
        &self,
        cx: &TaskContext,
        state: TurnState,
        ending: Ending,
    ) -> Result<Remains<Self>, TaskError> {
        let shared = shared(&self.0)?;
        let mut tx = cx.begin().await?;
        let mut turn = Turn::load(&shared, &tx, cx.id(), state)?;
        if matches!(turn.state.phase, Phase::Pinned(_)) && cx.was_entered() {
            let end = match ending {
                Ending::Cancelled { .. } if cx.was_entered_here() => RequestEnd::Aborted,
                Ending::Cancelled { .. } => RequestEnd::Unknown,
                _ => RequestEnd::Failed,
            };
            turn.cut_attempt(&shared, &mut tx, end).await?;
        }
        turn.state.last = turn.newest(&tx).await?;
        let (_, entry) = settle::end(&shared, &mut tx, turn, ending).await?;
        Ok(Remains::output(entry).with(tx))
    }
}

impl Came {
    /// The same as a step's result.
    fn into_step(self) -> Step<TurnTask> {
        match self {
            Self::On(state) => Step::go(state),
            // The commit of the last outcome holds the next prepare.
            Self::Wait(state, calls) => Step::wait_tasks(calls, Default::default(), state).joined(),
            Self::Sleep(state, until) => Step::sleep(until, state),
            Self::Listen(state) => Step::wait_signal(ROOM, state),
            Self::Over(TurnEnd::Answered | TurnEnd::HandedOff, entry) => Step::done(entry),
            Self::Over(end, entry) => Step::fail(end.into_failure()).output(entry),
        }
    }
}
