//! Calls: planned with the response that made them, run as tasks of their own, each ended by a result.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
};

use everturn_core::{
    Error, Result,
    entry::{Entry, kind},
    id::TaskId,
    json::RawJson,
    message::{Call, CallId, CallResult, Message, Outcome},
    policy::{Effect, Judged, Policy, Verdict},
    task::{TaskFailure, TaskOutcome, TaskRecord},
    tool::{AnyTool, CallContext, Output, Replay},
};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    agent::Agent,
    turn::{Turn, shared},
};
use crate::{
    NewTask, Transaction,
    task::{Aborted, Remains, Step, Task, TaskContext, TaskError, panic_text},
};

/// How much of a call's output goes into its result, in bytes.
const OUTPUT_MAX: usize = 50 << 10;
/// How many lines of it.
const LINES_MAX: usize = 2_000;

/// Calls as tasks.
pub(super) struct CallTask(pub(super) Weak<Shared>);

/// The intent of a call: committed before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Intent {
    name: String,
    arguments: RawJson,
    /// What policy said; absent where there was nothing to judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    replay: Replay,
}

/// The checkpoint of a call: there is one step, and it is this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {}

/// What a call comes to.
type Ended = (Outcome, String);

/// Stages the calls of a response: those that may run with their intent, the others with their outcome. Gives how many
/// may run.
pub(super) async fn plan(
    shared: &Shared,
    tx: &mut Transaction,
    turn: &mut Turn,
    message: &Message,
    ids: &[TaskId],
) -> Result<usize> {
    let Message::Assistant(assistant) = message else {
        return Ok(0);
    };
    let agent = tx.snapshot::<Agent>(turn.conversation()).await?.unwrap_or_default();
    let selected = shared.select(&agent);
    let mut open = 0;
    for (call, id) in assistant.calls().zip(ids) {
        let (intent, refusal) = judge(selected.tool(&call.name), &shared.policy, call);
        let refusal = refusal.or_else(|| turn.is_aborted().then(not_run));
        let new = NewTask {
            owner: Some(turn.id()),
            checkpoint: Some(RawJson::of(&Planned {})?),
            input: RawJson::of(&intent)?,
            ..NewTask::new(turn.conversation(), CallTask::NAME, CallTask::VERSION)
        };
        let mut task = tx.record_of_task(*id, new)?;
        match refusal {
            Some(ended) => {
                append_result(tx, &task, &ended)?;
                task.end(TaskOutcome::Completed { output: RawJson::of(&ended.0.word())? }, tx.time());
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
    intent.replay = tool.contract().replay;
    let acts = match tool.acts(&call.arguments) {
        Ok(acts) => acts,
        Err(error) => {
            let (text, outcome) = error.into_parts();
            return (intent, Some((outcome, text)));
        }
    };
    // Only a tool without acts is allowed by its name.
    let installed = [&*call.name];
    let installed = if acts.is_empty() { &installed[..] } else { &[] };
    let verdict = policy.verdict(&Judged { tool: &call.name, acts: &acts, session: &[], installed });
    let refusal = (verdict.effect != Effect::Allow).then(|| {
        let text = format!("Refused by policy: {}.", verdict.rule);
        (Outcome::Denied { rule: verdict.rule.clone() }, text)
    });
    intent.verdict = Some(verdict);
    (intent, refusal)
}

impl Task for CallTask {
    const NAME: &'static str = "et.call";
    type Input = Intent;
    type State = Planned;
    type Output = String;

    fn start(&self, _: &Intent) -> Planned {
        Planned {}
    }

    async fn step(&self, cx: &TaskContext, intent: &Intent, _: Planned) -> Result<Step<Self>, TaskError> {
        let registry = cx.registry().clone();
        let tool = registry.tool(&intent.name);
        let tool = tool.as_ref();
        let ended = match tool {
            _ if cx.was_entered() && !may_repeat(intent, tool) => cut_off(),
            None => (Outcome::Unavailable, format!("The tool {:?} is no longer installed.", intent.name)),
            Some(tool) => self.run(cx, intent, tool).await?,
        };
        let mut tx = cx.begin().await?;
        let call = task_of(&tx, cx)?;
        append_result(&mut tx, &call, &ended)?;
        Ok(step_of(&ended.0).with(tx))
    }

    async fn abort(&self, cx: &TaskContext, intent: &Intent, _: Planned) -> Result<Aborted<Self>, TaskError> {
        let ended = match cx.was_carried() {
            _ if cx.was_entered_here() => told_to_stop(),
            true if intent.replay == Replay::Safe => harmless(),
            true => cut_off(),
            false => not_run(),
        };
        remains(cx, &ended).await
    }

    async fn fault(
        &self,
        cx: &TaskContext,
        _: &Intent,
        _: Planned,
        why: &TaskFailure,
    ) -> Result<Remains<Self>, TaskError> {
        let outcome = if cx.was_entered() { Outcome::Unknown } else { Outcome::Error };
        remains(cx, &(outcome, why.to_string())).await
    }
}

impl CallTask {
    /// Runs the tool. What ends it without a mark on its record is the session's closing: whoever opens the session goes by
    /// the replay contract.
    async fn run(&self, cx: &TaskContext, intent: &Intent, tool: &AnyTool) -> Result<Ended, TaskError> {
        let shared = shared(&self.0)?;
        let agent = cx.snapshot::<Agent>(cx.conversation()).await?.unwrap_or_default();
        let env = match (shared.env)(&agent) {
            Ok(env) => env,
            Err(error) => return Ok((Outcome::Error, error.to_string())),
        };
        let call = CallContext {
            call: call_id(cx.id()),
            conversation: cx.conversation(),
            key: format!("{}/{}", cx.session_id(), cx.id()),
            cancel: cx.cancel().clone(),
            env,
            output: Output::default(),
        };
        if cx.cancel().is_cancelled() {
            return Err(Error::closed("the call was told to stop before it began").into());
        }
        cx.enter();
        let ended = match AssertUnwindSafe(tool.run(&call, &intent.arguments)).catch_unwind().await {
            Ok(Ok(output)) => (Outcome::Ok, output.text),
            Ok(Err(error)) if cx.cancel().is_cancelled() => (Outcome::Cancelled, error.to_string()),
            Ok(Err(error)) => {
                let (text, outcome) = error.into_parts();
                (outcome, text)
            }
            Err(panic) => {
                (Outcome::Error, format!("The tool {} broke: {}", intent.name, panic_text(&*panic)))
            }
        };
        if ended.0 == Outcome::Cancelled && cx.is_closing() && cx.abort_reason().is_none() {
            return Err(Error::closed("the session closed while the call ran").into());
        }
        Ok(ended)
    }
}

/// The replay contract: whether a call may run again that an earlier run may have begun.
fn may_repeat(intent: &Intent, tool: Option<&AnyTool>) -> bool {
    let declared = tool.map_or(Replay::Never, |tool| tool.contract().replay);
    intent.replay != Replay::Never && declared != Replay::Never
}

/// The end of a call that may have been begun, and does no harm when it was.
fn harmless() -> Ended {
    (
        Outcome::Cancelled,
        "The turn was cancelled. This call may have run; running it again does no harm.".into(),
    )
}

/// The end of a call that was never begun.
fn not_run() -> Ended {
    (Outcome::Cancelled, "The turn was cancelled before this call ran.".into())
}

/// The end of a call that an earlier run may have begun, and that must not be run again.
fn cut_off() -> Ended {
    let text = "The process ended while this call may have been running. Its effect may or may not have happened; find \
                out before you do it again.";
    (Outcome::Unknown, text.into())
}

/// The end of a call that was given up.
fn told_to_stop() -> Ended {
    let text = "The call was told to stop and did not. Its effect may or may not have happened.";
    (Outcome::Unknown, text.into())
}

/// A call that gave a result did its work, whatever the result says; one that nobody knows of did not.
fn step_of(outcome: &Outcome) -> Step<CallTask> {
    let word = outcome.word().to_owned();
    match outcome {
        Outcome::Unknown => {
            let why = TaskFailure::new("unknown", "nobody can know whether the effect happened");
            Step::fail(why).output(word)
        }
        _ => Step::done(word),
    }
}

/// Stages the result of a call that ends before it gave one.
async fn remains(cx: &TaskContext, ended: &Ended) -> Result<Remains<CallTask>, TaskError> {
    let mut tx = cx.begin().await?;
    let call = task_of(&tx, cx)?;
    append_result(&mut tx, &call, ended)?;
    Ok(Remains::output(ended.0.word().to_owned()).with(tx))
}

fn task_of(tx: &Transaction, cx: &TaskContext) -> Result<Arc<TaskRecord>> {
    tx.task(cx.id()).ok_or_else(|| Error::conflict(format!("end call {}: it has ended", cx.id())))
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

/// Stages a call's result, as an entry of its turn.
fn append_result(tx: &mut Transaction, call: &TaskRecord, (outcome, text): &Ended) -> Result<()> {
    let result = CallResult::new(call_id(call.id), outcome.clone(), within_limit(text));
    let entry = Entry::new(kind::RESULT).message(Message::Result(result));
    tx.append_for(call.owner, call.conversation, entry).map(drop)
}

fn call_id(task: TaskId) -> CallId {
    CallId(format!("c{task}"))
}
