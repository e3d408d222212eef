//! Calls: planned with the response that made them, run as tasks of their own, each ended by a result.

mod asked;
mod ended;
mod judge;
mod output;
mod plan;
mod run;
mod session;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use everturn_core::{
    Error, Result,
    approval::{ApprovalRecord, ApprovalState, Question},
    budget::Spent,
    id::{ApprovalId, TaskId},
    json::RawJson,
    message::{CallId, Outcome},
    policy::{Act, Verdict},
    task::{TaskFailure, TaskRecord},
    tool::{AnyTool, OnUnknown, Replay},
};
use serde::{Deserialize, Serialize};
use tracing::Instrument;

use super::{Shared, budget::Spender, child::Child, turn::shared};
use crate::{
    Transaction,
    metrics::span,
    task::{Aborted, Remains, Step, Task, TaskContext, TaskError},
};
pub(super) use ended::Ended;
pub(super) use judge::{Bench, SessionRule, SessionRules, acts_of};
pub(super) use output::Streamed;
pub(super) use plan::plan;

/// The signal that wakes a call whose approval was decided, or that is to be judged again.
pub(super) const DECIDED: &str = "et.decided";

/// Calls as tasks.
pub(super) struct CallTask(pub(super) Weak<Shared>);

/// The intent of a call: committed before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) name: String,
    pub(super) arguments: RawJson,
    /// What policy said; absent where there was nothing to judge, or it was not judged yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<Verdict>,
    /// What it does, as it was judged: with paths resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) acts: Vec<Act>,
    pub(super) replay: Replay,
    /// What happens when nobody can know whether it ran.
    #[serde(default, skip_serializing_if = "tells")]
    pub(super) on_unknown: OnUnknown,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn tells(on_unknown: &OnUnknown) -> bool {
    *on_unknown == OnUnknown::Tell
}

/// The checkpoint of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CallState {
    #[serde(skip_serializing_if = "Phase::is_ready")]
    pub(super) phase: Phase,
    /// What it came to, where that is not what it was planned with: a hook or a person changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) intent: Option<Intent>,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// Its intent is committed, and it may run.
    #[default]
    Ready,
    /// Nobody has judged it: hooks see it first, or calls before it run first.
    Proposed,
    /// It waits for a decision whether it may run, or for an answer.
    Asking(ApprovalId),
    /// It waits for someone to say whether it ran.
    Unsure(ApprovalId),
    /// It waits for its sub-agent.
    Child(Child),
}

impl Phase {
    fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}

impl CallState {
    fn at(phase: Phase, intent: Intent) -> Self {
        Self { phase, intent: Some(intent) }
    }
}

impl Task for CallTask {
    const NAME: &'static str = "et.call";
    type Input = Intent;
    type State = CallState;
    type Output = String;

    fn start(&self, _: &Intent) -> CallState {
        CallState::default()
    }

    async fn step(
        &self,
        cx: &TaskContext,
        planned: &Intent,
        state: CallState,
    ) -> Result<Step<Self>, TaskError> {
        let shared = shared(&self.0)?;
        let intent = state.intent.unwrap_or_else(|| planned.clone());
        let call = Running { shared: &shared, cx };
        match state.phase {
            Phase::Ready => {
                let span = span::call((&shared, cx), &intent.name, &intent.arguments);
                call.ready(intent).instrument(span).await
            }
            Phase::Proposed => call.proposed(intent).await,
            Phase::Asking(approval) => call.asked(intent, approval).await,
            Phase::Unsure(approval) => call.unsure(intent, approval).await,
            Phase::Child(child) => call.child(child).await,
        }
    }

    async fn abort(
        &self,
        cx: &TaskContext,
        planned: &Intent,
        state: CallState,
    ) -> Result<Aborted<Self>, TaskError> {
        let intent = state.intent.as_ref().unwrap_or(planned);
        let ended = match cx.was_carried() {
            _ if matches!(state.phase, Phase::Unsure(_)) => Ended::cut_off(),
            _ if matches!(state.phase, Phase::Child(_)) => Ended::child_stopped(),
            _ if !state.phase.is_ready() => Ended::not_run(),
            _ if cx.was_entered_here() => Ended::told_to_stop(),
            true if intent.replay == Replay::Safe => Ended::harmless(),
            true => Ended::cut_off(),
            false => Ended::not_run(),
        };
        remains(cx, ended).await
    }

    async fn fault(
        &self,
        cx: &TaskContext,
        _: &Intent,
        state: CallState,
        why: &TaskFailure,
    ) -> Result<Remains<Self>, TaskError> {
        let is_unknown = state.phase.is_ready() && cx.was_entered();
        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::Error };
        remains(cx, Ended::new(outcome, why.to_string())).await
    }
}

/// A call that runs.
struct Running<'a> {
    shared: &'a Shared,
    cx: &'a TaskContext,
}

impl Running<'_> {
    /// Runs a call whose intent is committed, unless an earlier run may have begun it.
    async fn ready(&self, intent: Intent) -> Result<Step<CallTask>, TaskError> {
        let cx = self.cx;
        let (agent, selected) = self.selected().await?;
        let tool = selected.tool(&intent.name);
        if cx.was_entered() && !may_repeat(&intent, tool) {
            return match intent.on_unknown {
                OnUnknown::Pause => self.ask_whether_it_ran(intent).await,
                OnUnknown::Tell => self.end(Ended::cut_off().behind(&self.streamed().await?)).await,
            };
        }
        let Some(tool) = tool else { return self.end(Ended::unavailable(&intent.name)).await };
        if let Some(code) = selected.session_tool(&intent.name) {
            return self.run_in_session(intent, code, (&agent, &selected)).await;
        }
        let ended = self.run(&intent, tool, (&agent, &selected)).await?;
        self.end(ended).await
    }

    /// Ends the call with a result.
    async fn end(&self, ended: Ended) -> Result<Step<CallTask>, TaskError> {
        let tx = self.cx.begin().await?;
        self.end_in(tx, ended).await
    }

    /// Ends the call with a result, in a transaction.
    async fn end_in(&self, mut tx: Transaction, ended: Ended) -> Result<Step<CallTask>, TaskError> {
        let call = task_of(&tx, self.cx)?;
        span::called(self.shared, &ended.outcome, &ended.text);
        let step = ended.step(ended.outcome.word().to_owned());
        if let (Some(turn), wall_ms @ 1..) = (call.owner, ended.wall_ms) {
            let by = Spender::turn(call.conversation, turn);
            tx.charge(self.shared, by, Spent { wall_ms, ..Spent::default() }).await?;
        }
        let ended = ended.retire_shown(&mut tx, call.id).await?;
        ended.stage(&mut tx, &call).await?;
        Ok(step.with(tx))
    }
}

/// The replay contract: whether a call may run again that an earlier run may have begun.
fn may_repeat(intent: &Intent, tool: Option<&AnyTool>) -> bool {
    let declared = tool.map_or(Replay::Never, |tool| tool.contract().replay);
    intent.replay != Replay::Never && declared != Replay::Never
}

/// Stages the result of a call that ends before it gave one.
async fn remains(cx: &TaskContext, ended: Ended) -> Result<Remains<CallTask>, TaskError> {
    let mut tx = cx.begin().await?;
    let call = task_of(&tx, cx)?;
    let shown = tx.snapshot::<Streamed>(call.id).await?.unwrap_or_default();
    let word = ended.outcome.word().to_owned();
    let ended = ended.behind(&shown.text).retire_shown(&mut tx, call.id).await?;
    ended.stage(&mut tx, &call).await?;
    Ok(Remains::output(word).with(tx))
}

fn task_of(tx: &Transaction, cx: &TaskContext) -> Result<Arc<TaskRecord>> {
    tx.task(cx.id()).ok_or_else(|| Error::conflict(format!("end call {}: it has ended", cx.id())))
}

/// The id of a task's call.
pub(super) fn call_id(task: TaskId) -> CallId {
    CallId(format!("c{task}"))
}

/// Stages an open approval of a call.
fn open(
    shared: &Shared,
    tx: &mut Transaction,
    call: &TaskRecord,
    (id, question): (ApprovalId, Question),
) -> ApprovalRecord {
    let time = tx.time();
    let approval = ApprovalRecord {
        id,
        conversation: call.conversation,
        call: call.id,
        turn: call.owner,
        question,
        state: ApprovalState::Open,
        until: shared.settings().approval_ms.map(|ms| time + Duration::from_millis(ms)),
        time,
    };
    tx.put_approval(approval.clone());
    approval
}
