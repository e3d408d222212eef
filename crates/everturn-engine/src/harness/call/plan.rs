//! Planning the calls of a response: in its commit, each with its intent, its question or its outcome.

use everturn_core::{
    Result,
    id::{ApprovalId, TaskId},
    json::RawJson,
    message::{Call, Message},
    task::{TaskOutcome, TaskRecord, TaskState, WaitPolicy},
    tool::{OnUnknown, Replay},
};

use super::{Bench, CallState, CallTask, DECIDED, Ended, Intent, Phase, judge::Judgement, open};
use crate::{
    NewTask, Transaction,
    harness::{CallOrder, Shared, turn::Turn},
    task::Task,
};

/// Stages the calls of a response: those that may run with their intent, those that a person is asked about with the
/// question, the others with their outcome: all of them, where there is a reason why none may run. Gives how many have not
/// ended.
pub(in crate::harness) async fn plan(
    shared: &Shared,
    tx: &mut Transaction,
    turn: &mut Turn,
    (message, ids): (&Message, &[TaskId]),
    why_not: Option<Ended>,
) -> Result<usize> {
    let Message::Assistant(assistant) = message else {
        return Ok(0);
    };
    let agent = turn.agent(tx).await?;
    let selected = shared.select(&agent);
    let bench = Bench::of(shared, tx, turn.conversation(), (&agent, &selected)).await?;
    let is_sequential =
        |call: &Call| selected.tool(&call.name).is_some_and(|tool| tool.contract().is_sequential);
    let in_order = shared.settings().calls == CallOrder::Sequential || assistant.calls().any(is_sequential);
    let has_hooks = selected.before().next().is_some();
    let mut before = None;
    let mut opened = 0;
    for (call, id) in assistant.calls().zip(ids) {
        let intent = Intent {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            verdict: None,
            acts: Vec::new(),
            replay: Replay::Never,
            on_unknown: OnUnknown::Tell,
        };
        let judgement = match &why_not {
            Some(ended) => Planned::Judged(Judgement::End(intent, ended.clone())),
            None if has_hooks || (in_order && before.is_some()) => Planned::Later(intent, before),
            None => Planned::Judged(bench.judge(intent).await),
        };
        opened += usize::from(stage(shared, tx, (turn, *id), judgement).await?);
        before = in_order.then_some(*id);
    }
    turn.state.counts.calls += u32::try_from(ids.len()).unwrap_or(u32::MAX);
    Ok(opened)
}

/// What a call begins as.
enum Planned {
    Judged(Judgement),
    /// It is judged by its own first step, once the call before it has ended.
    Later(Intent, Option<TaskId>),
}

/// Stages a call; gives whether it is still open.
async fn stage(
    shared: &Shared,
    tx: &mut Transaction,
    (turn, id): (&Turn, TaskId),
    planned: Planned,
) -> Result<bool> {
    let (intent, phase, ended, question) = match planned {
        Planned::Judged(Judgement::Run(intent)) => (intent, Phase::Ready, None, None),
        Planned::Judged(Judgement::End(intent, ended)) => (intent, Phase::Ready, Some(ended), None),
        Planned::Judged(Judgement::Ask(intent, question)) => {
            let approval = ApprovalId(tx.mint());
            (intent, Phase::Asking(approval), None, Some(question))
        }
        Planned::Later(intent, before) => {
            let mut task = record(tx, (turn, id), &intent, Phase::Proposed)?;
            if let Some(before) = before {
                let checkpoint = RawJson::of(&CallState { phase: Phase::Proposed, intent: None })?;
                let policy = WaitPolicy::AllSettled;
                task.state = TaskState::Waiting { checkpoint, on: vec![before], policy, joined: false };
            }
            tx.put_task(task);
            return Ok(true);
        }
    };
    let mut task = record(tx, (turn, id), &intent, phase)?;
    if let Some(ended) = ended {
        let word = RawJson::of(&ended.outcome.word())?;
        ended.stage(tx, &task).await?;
        task.end(TaskOutcome::Completed { output: word }, tx.time());
        tx.put_task(task);
        return Ok(false);
    }
    if let (Phase::Asking(approval), Some(question)) = (phase, question) {
        let until = open(shared, tx, &task, (approval, question)).until;
        // Where someone in this process decides, the call asks by itself; else nothing of it runs until it is decided.
        if shared.approver.is_none() {
            let checkpoint = RawJson::of(&CallState { phase, intent: None })?;
            task.state = TaskState::Listening { checkpoint, signal: DECIDED.into(), until };
        }
    }
    tx.put_task(task);
    Ok(true)
}

fn record(
    tx: &Transaction,
    (turn, id): (&Turn, TaskId),
    intent: &Intent,
    phase: Phase,
) -> Result<TaskRecord> {
    let new = NewTask {
        owner: Some(turn.id()),
        checkpoint: Some(RawJson::of(&CallState { phase, intent: None })?),
        input: RawJson::of(intent)?,
        ..NewTask::new(turn.conversation(), CallTask::NAME, CallTask::VERSION)
    };
    tx.record_of_task(id, new)
}
