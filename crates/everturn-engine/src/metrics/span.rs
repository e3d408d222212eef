//! Spans: session, turn, step, request, call and commit, with the attribute names of the OpenTelemetry conventions for
//! generative AI (0.1.0), and ours. None says what was asked, answered or given, unless the host wants that.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use everturn_core::{
    clock::Timestamp,
    id::{SessionId, TaskId},
    json::RawJson,
    message::{Outcome, Stop, Usage},
    model::{Delta, DeltaStream, Fault, FaultClass, Model, ModelRef, Request},
    task::{TaskRecord, tree},
};
use futures_util::StreamExt;
use tracing::{Span, debug_span, field::Empty, info_span, level_filters::LevelFilter};

use super::{Meter, TurnSummary};
use crate::{
    TaskContext, TurnEnd, World,
    harness::{Shared, TurnTask},
    session::{Inner, Live},
    task::Task,
    world::millis,
};

/// The spans of an open session that last longer than a step: its own, and those of turns that this owner has moved.
pub(crate) struct Spans {
    id: SessionId,
    session: Span,
    turns: Mutex<HashMap<TaskId, Span>>,
}

impl Spans {
    /// The session's span begins.
    pub(crate) fn open(id: SessionId) -> Self {
        // Whoever opens a session is soon gone; the session is not.
        let session = info_span!(parent: None, "session", gen_ai.conversation.id = %id);
        Self { id, session, turns: Mutex::default() }
    }

    /// The spans of turns end.
    pub(crate) fn end(&self, ended: &[TurnSummary]) {
        for turn in ended {
            let span = self.turns.lock().unwrap_or_else(PoisonError::into_inner).remove(&turn.turn);
            let Some(span) = span else { continue };
            span.record("outcome", turn.end.word());
            span.record("steps", turn.steps);
            spent(&span, &turn.total.usage);
            match &turn.end {
                TurnEnd::Failed { kind, .. } => _ = span.record("error.type", kind),
                end if end.failure().is_some() => _ = span.record("error.type", end.word()),
                _ => {}
            }
        }
    }

    /// What a task's steps stand in: its turn, or the session.
    fn around(&self, live: &Live, task: &TaskRecord) -> Span {
        if task.kind == TurnTask::NAME {
            return self.turn(live, task);
        }
        self.above(live, task)
    }

    /// The turn that a task belongs to, or the session.
    fn above(&self, live: &Live, task: &TaskRecord) -> Span {
        let mut above = tree::ancestors(live, task).into_iter().filter_map(|id| live.task(id));
        match above.find(|task| task.kind == TurnTask::NAME) {
            Some(turn) => self.turn(live, turn),
            None => self.session.clone(),
        }
    }

    fn turn(&self, live: &Live, turn: &TaskRecord) -> Span {
        let known = self.turns.lock().unwrap_or_else(PoisonError::into_inner).get(&turn.id).cloned();
        known.unwrap_or_else(|| self.begin_turn(live, turn))
    }

    fn begin_turn(&self, live: &Live, turn: &TaskRecord) -> Span {
        // A sub-agent's turn stands in the turn whose call it is.
        let parent = self.above(live, turn);
        let span = info_span!(
            parent: &parent, "turn",
            otel.name = "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = %self.id,
            everturn.conversation = turn.conversation.0,
            everturn.turn = turn.id.0,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_write.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            steps = Empty,
            outcome = Empty,
            error.type = Empty,
        );
        if !span.is_disabled() {
            self.turns.lock().unwrap_or_else(PoisonError::into_inner).insert(turn.id, span.clone());
        }
        span
    }
}

impl Inner {
    /// The span of what is next for a task.
    pub(crate) fn span_of_step(&self, id: TaskId) -> Span {
        if LevelFilter::current() < LevelFilter::INFO {
            return Span::none();
        }
        // Held while a turn's span begins: the commit that ends the turn ends its span after it has changed the state.
        let state = self.state();
        let Some(task) = state.live.task(id) else { return self.spans.session.clone() };
        let around = self.spans.around(&state.live, task);
        let step = debug_span!(
            parent: &around, "step",
            everturn.task = id.0,
            everturn.kind = task.kind,
            everturn.conversation = task.conversation.0,
        );
        // Where steps are not wanted, what is in them stands in what is around them.
        if step.is_disabled() { around } else { step }
    }
}

/// The span of a commit.
pub(crate) fn commit(session: SessionId, held: Duration, writes: usize) -> Span {
    debug_span!(
        "commit",
        gen_ai.conversation.id = %session,
        everturn.held_ms = millis(held),
        everturn.writes = writes,
    )
}

/// Asks a model, in a span of its own that ends with the stream.
pub(crate) fn ask(
    (shared, cx): (&Shared, &TaskContext),
    (model, client): (&ModelRef, &Arc<dyn Model>),
    request: Request,
) -> DeltaStream {
    let span = info_span!(
        "request",
        otel.name = format_args!("chat {}", model.model),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.provider,
        gen_ai.request.model = model.model,
        gen_ai.request.stream = true,
        gen_ai.conversation.id = %cx.session_id(),
        everturn.conversation = cx.conversation().0,
        everturn.task = cx.id().0,
        gen_ai.response.model = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.response.time_to_first_chunk = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_write.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        outcome = Empty,
        error.type = Empty,
    );
    let is_told = !span.is_disabled() && shared.settings().trace_content;
    if is_told && let Ok(messages) = serde_json::to_string(&request.messages) {
        span.record("gen_ai.input.messages", messages);
    }
    let sent = cx.now();
    let stream = span.in_scope(|| client.stream(request));
    let mut heard = Heard {
        span,
        said: is_told.then(String::new),
        outcome: "aborted",
        model: model.clone(),
        sent,
        first: None,
        fault: None,
        world: shared.opener.world.clone(),
        meter: shared.opener.meter.clone(),
    };
    Box::pin(stream.inspect(move |delta| heard.hear(delta)))
}

/// What was heard of a response.
struct Heard {
    span: Span,
    /// What the model said, where that is wanted.
    said: Option<String>,
    outcome: &'static str,
    model: ModelRef,
    sent: Timestamp,
    /// How long it took until something came.
    first: Option<Duration>,
    fault: Option<FaultClass>,
    world: World,
    meter: Arc<Meter>,
}

impl Heard {
    fn hear(&mut self, delta: &Result<Delta, Fault>) {
        if self.first.is_none() && delta.is_ok() {
            let first = self.world.clock.now().since(self.sent);
            self.span.record("gen_ai.response.time_to_first_chunk", first.as_secs_f64());
            self.first = Some(first);
        }
        match delta {
            Ok(Delta::Started { response, model }) => {
                response.iter().for_each(|id| _ = self.span.record("gen_ai.response.id", id.as_str()));
                model.iter().for_each(|model| _ = self.span.record("gen_ai.response.model", model.as_str()));
            }
            Ok(Delta::Text(text)) => self.said.iter_mut().for_each(|said| said.push_str(text)),
            Ok(Delta::Usage(usage)) => spent(&self.span, usage),
            Ok(Delta::End(stop)) => {
                self.outcome = "complete";
                self.span.record("gen_ai.response.finish_reasons", reason(stop));
            }
            Ok(_) => {}
            Err(fault) => {
                self.outcome = "failed";
                self.fault = Some(fault.class);
                self.span.record("error.type", fault.class.word());
            }
        }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.span.record("outcome", self.outcome);
        self.said.iter().for_each(|said| _ = self.span.record("gen_ai.output.messages", said.as_str()));
        let took = self.world.clock.now().since(self.sent);
        self.meter.asked(&self.model, (took, self.first), self.fault);
    }
}

/// Why a model stopped, in the words of the conventions where they have one.
fn reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::Answer => "stop",
        Stop::Calls => "tool_call",
        Stop::Length => "length",
        Stop::Refused => "refusal",
        Stop::Filtered => "content_filter",
        Stop::Paused => "pause",
    }
}

/// The span of a call that runs.
pub(crate) fn call((shared, cx): (&Shared, &TaskContext), tool: &str, arguments: &RawJson) -> Span {
    let span = info_span!(
        "call",
        otel.name = format_args!("execute_tool {}", tool),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = format_args!("c{}", cx.id()),
        gen_ai.conversation.id = %cx.session_id(),
        everturn.conversation = cx.conversation().0,
        everturn.task = cx.id().0,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        outcome = Empty,
        error.type = Empty,
    );
    if !span.is_disabled() && shared.settings().trace_content {
        span.record("gen_ai.tool.call.arguments", arguments.get());
    }
    span
}

/// The call whose span this is in has ended.
pub(crate) fn called(shared: &Shared, outcome: &Outcome, text: &str) {
    let span = Span::current();
    if span.is_disabled() || !span.has_field("gen_ai.tool.name") {
        return;
    }
    span.record("outcome", outcome.word());
    if outcome.is_error() {
        span.record("error.type", outcome.word());
    }
    if shared.settings().trace_content {
        span.record("gen_ai.tool.call.result", text);
    }
}

fn spent(span: &Span, usage: &Usage) {
    let fields = [
        ("gen_ai.usage.input_tokens", usage.input),
        ("gen_ai.usage.output_tokens", usage.output),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached),
        ("gen_ai.usage.cache_write.input_tokens", usage.cache_written),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
    ];
    for (name, tokens) in fields {
        tokens.iter().for_each(|tokens| _ = span.record(name, *tokens));
    }
}
