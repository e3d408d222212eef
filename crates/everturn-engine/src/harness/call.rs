//! Calls: planned with the response that made them, run as tasks of their own, settled with a result.

use std::{panic::AssertUnwindSafe, time::Duration};

use everturn_core::{
    CancelToken, Error, Result,
    entry::{Entry, kind},
    id::{Epoch, Seq, TaskId},
    json::RawJson,
    message::{Call, CallId, CallResult, Message, Outcome},
    policy::{Effect, Policy, Verdict},
    task::{TaskFailure, TaskOutcome, TaskRecord, TaskState},
    tool::{AnyTool, CallContext, Replay},
};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::{Shared, agent::Agent, live::LiveSession, turn::Turn};
use crate::Transaction;

/// The kind of calls as tasks.
pub(crate) const KIND: &str = "et.call";
const VERSION: u32 = 1;
/// How much of a call's output goes into its result, in bytes.
const OUTPUT_MAX: usize = 50 << 10;
/// How many lines of it.
const LINES_MAX: usize = 2_000;

/// The intent of a call: committed before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Intent {
    name: String,
    arguments: RawJson,
    /// What policy said; absent where there was nothing to judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    replay: Replay,
}

/// The checkpoint of a call that may run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Checkpoint {
    /// The epoch of the owner that may have run it. An owner of a later epoch goes by the replay contract.
    epoch: Epoch,
}

/// What a call comes to.
type Ended = (Outcome, String);

/// Stages the calls of a response: those that may run with their intent, the others with their outcome. Gives how many
/// may run.
pub(super) fn plan(
    shared: &Shared,
    tx: &mut Transaction,
    turn: &mut Turn,
    message: &Message,
    ids: &[TaskId],
) -> Result<usize> {
    let Message::Assistant(assistant) = message else {
        return Ok(0);
    };
    let registry = shared.registry();
    let mut open = 0;
    for (call, id) in assistant.calls().zip(ids) {
        let (intent, refusal) = judge(registry.tool(&call.name), &shared.policy, call);
        let refusal = refusal.or_else(|| turn.state.cancelled.as_ref().map(|_| not_run()));
        let mut task = TaskRecord {
            id: *id,
            conversation: turn.conversation(),
            owner: Some(turn.task.id),
            background: false,
            kind: KIND.into(),
            version: VERSION,
            input: RawJson::of(&intent)?,
            state: TaskState::Ready { checkpoint: RawJson::of(&Checkpoint { epoch: tx.session().epoch() })? },
            abort: None,
            started: tx.time(),
            ended: None,
        };
        match refusal {
            Some(ended) => {
                append_result(tx, turn, *id, &ended)?;
                task.end(task_outcome(&ended.0), tx.time());
            }
            None => open += 1,
        }
        tx.put_task(task);
    }
    Ok(open)
}

/// Resolves, validates and judges a call; gives its intent, and its outcome where it may not run.
fn judge(tool: Option<&AnyTool>, policy: &Policy, call: &Call) -> (Intent, Option<Ended>) {
    let mut intent = Intent {
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        verdict: None,
        replay: Replay::Never,
    };
    let Some(tool) = tool else {
        let text = format!("There is no tool {:?}.", call.name);
        return (intent, Some((Outcome::Unavailable, text)));
    };
    intent.replay = tool.spec().replay;
    let acts = match tool.acts(&call.arguments) {
        Ok(acts) => acts,
        Err(error) => {
            let (text, outcome) = error.into_parts();
            return (intent, Some((outcome, text)));
        }
    };
    let verdict = policy.verdict(&call.name, &acts);
    let refusal = (verdict.effect != Effect::Allow).then(|| {
        let text = format!("Refused by policy: {}.", verdict.rule);
        (Outcome::Denied { rule: verdict.rule.clone() }, text)
    });
    intent.verdict = Some(verdict);
    (intent, refusal)
}

/// Runs the step of a ready call.
pub(super) async fn step(live: &LiveSession, id: TaskId, cancel: CancelToken) -> Result<()> {
    let Some(task) = live.task(id) else {
        return Ok(());
    };
    let TaskState::Ready { checkpoint } = &task.state else {
        return Ok(());
    };
    let (intent, checkpoint): (Intent, Checkpoint) = (task.input.read()?, checkpoint.read()?);
    let is_fresh = checkpoint.epoch == live.epoch() && !live.0.scheduler.was_entered(id);
    let registry = live.shared().registry();
    let tool = registry.tool(&intent.name);
    let ended = match (decide(&intent, tool, is_fresh, task.abort.is_some()), tool) {
        (Some(ended), _) => ended,
        (None, Some(tool)) => {
            let ended = run(live, &task, &intent, tool, cancel).await?;
            let is_aborted = live.task(id).is_none_or(|task| task.abort.is_some());
            if live.is_closing() && !is_aborted && matches!(ended.0, Outcome::Cancelled | Outcome::Unknown) {
                // The token fired without a mark on the record: whoever opens the session goes by the contract.
                return Err(Error::closed("the session closed while the call ran"));
            }
            ended
        }
        (None, None) => (Outcome::Unavailable, format!("The tool {:?} is no longer installed.", intent.name)),
    };
    live.insist(|| settle(live, id, ended.clone())).await
}

/// The end of a call that was never begun.
fn not_run() -> Ended {
    (Outcome::Cancelled, "The turn was cancelled before this call ran.".into())
}

/// The replay contract: what becomes of a call without running it; none when it runs.
fn decide(intent: &Intent, tool: Option<&AnyTool>, is_fresh: bool, is_aborted: bool) -> Option<Ended> {
    let declared = tool.map_or(Replay::Never, |tool| tool.spec().replay);
    let may_repeat = intent.replay != Replay::Never && declared != Replay::Never;
    match (is_fresh, is_aborted) {
        (false, _) if !may_repeat => {
            let text = "The process ended while this call may have been running. Its effect may or may not have \
                        happened; find out before you do it again.";
            Some((Outcome::Unknown, text.into()))
        }
        (_, true) => Some(not_run()),
        _ => None,
    }
}

async fn run(
    live: &LiveSession,
    task: &TaskRecord,
    intent: &Intent,
    tool: &AnyTool,
    cancel: CancelToken,
) -> Result<Ended> {
    let agent = live.snapshot::<Agent>(task.conversation).await?.unwrap_or_default();
    let env = match (live.shared().env)(&agent) {
        Ok(env) => env,
        Err(error) => return Ok((Outcome::Error, error.to_string())),
    };
    let cx = CallContext {
        call: call_id(task.id),
        conversation: task.conversation,
        key: format!("{}/{}", live.id(), task.id),
        cancel: cancel.clone(),
        env,
    };
    live.0.scheduler.enter(task.id);
    let mut running = std::pin::pin!(AssertUnwindSafe(tool.run(&cx, &intent.arguments)).catch_unwind());
    let clock = &live.shared().opener.world.clock;
    let grace = async {
        cancel.cancelled().await;
        clock.sleep(Duration::from_millis(live.shared().settings.grace_ms)).await;
    };
    tokio::select! {
        biased;
        result = &mut running => Ok(match result {
            Ok(Ok(output)) => (Outcome::Ok, output.text),
            Ok(Err(error)) if cancel.is_cancelled() => (Outcome::Cancelled, error.to_string()),
            Ok(Err(error)) => {
                let (text, outcome) = error.into_parts();
                (outcome, text)
            }
            Err(panic) => (Outcome::Error, format!("The tool {} broke: {}", intent.name, panic_text(&*panic))),
        }),
        () = grace => {
            let text = "The call was told to stop and did not. Its effect may or may not have happened.";
            Ok((Outcome::Unknown, text.into()))
        }
    }
}

/// What of an output the model is told: its beginning, at whole characters. Tools keep limits of their own; this one
/// keeps any of them from growing the transcript without end.
fn within_limit(text: &str) -> String {
    let by_lines =
        text.char_indices().filter(|(_, c)| *c == '\n').nth(LINES_MAX - 1).map_or(text.len(), |(at, _)| at);
    let end = text.floor_char_boundary(OUTPUT_MAX).min(by_lines);
    match &text[end..] {
        "" | "\n" => text.to_owned(),
        _ => format!("{}\n({} bytes in all, the rest is left out)", &text[..end], text.len()),
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}

/// Commits a call's outcome; the last of a response holds what comes next as well.
pub(super) async fn settle(live: &LiveSession, id: TaskId, ended: Ended) -> Result<Seq> {
    let mut tx = live.begin_last().await?;
    let Some(task) = tx.task(id).filter(|task| task.is_live()) else {
        return Ok(live.head());
    };
    let mut task = (*task).clone();
    task.end(task_outcome(&ended.0), tx.time());
    let owner = task.owner;
    tx.put_task(task);
    let turn = owner.map(|turn| Turn::load(live.shared(), &tx, turn)).transpose()?.flatten();
    if let Some(mut turn) = turn {
        append_result(&mut tx, &mut turn, id, &ended)?;
        turn.advance(live.shared(), &mut tx).await?;
    }
    let seq = tx.commit().await?;
    live.0.scheduler.settled(id);
    Ok(seq)
}

fn append_result(tx: &mut Transaction, turn: &mut Turn, id: TaskId, (outcome, text): &Ended) -> Result<()> {
    let result =
        CallResult { call: call_id(id), text: within_limit(text), outcome: outcome.clone(), time: None };
    turn.append(tx, Entry::new(kind::RESULT).message(Message::Result(result))).map(drop)
}

fn call_id(task: TaskId) -> CallId {
    CallId(format!("c{task}"))
}

/// A call that gave a result did its work, whatever the result says; one that nobody knows of did not.
fn task_outcome(outcome: &Outcome) -> TaskOutcome {
    match outcome {
        Outcome::Cancelled => TaskOutcome::Aborted { reason: "cancelled".into(), output: None },
        Outcome::Unknown => {
            let message = "nobody can know whether the effect happened".into();
            TaskOutcome::Failed { error: TaskFailure { kind: "unknown".into(), message }, output: None }
        }
        ended => {
            TaskOutcome::Completed { output: RawJson::of(&ended.word()).expect("a word has a JSON form") }
        }
    }
}
