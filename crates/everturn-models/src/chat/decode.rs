//! The body of a Chat Completions answer as deltas.

use std::collections::VecDeque;

use everturn_core::{
    json::RawJson,
    message::Stop,
    model::{Delta, Fault, FaultClass},
};
use serde_json::value::RawValue;

use super::{calls::Calls, wire};
use crate::{
    answer, escapes,
    sse::{self, Event},
};

/// Reads the body of an answer as its bytes come.
///
/// Shape: [`pop`](Self::pop) gives the deltas so far. The last one is [`Delta::End`] or a fault, and comes with `[DONE]`, an
/// error, or [`finish`](Self::finish); what follows it is not read.
/// Promise: an answer without a finish reason never ends well. Only a call whose arguments are complete JSON when the
/// finish reason was seen gets its end; an answer that ended well after a call began stops for calls, whatever word
/// the server used.
/// Errors: `transient` where the body ends too soon, `malformed` where it cannot be read, and what the server says.
/// Source: OpenAI, "Chat Completions API", and what compatible servers were seen to send.
///
/// ```
/// use everturn_core::{message::Stop, model::Delta};
/// use everturn_models::{chat::Decoder, sse::Limits};
///
/// let mut decoder = Decoder::new(Limits::default());
/// decoder.push(br#"data: {"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}"#);
/// decoder.finish();
/// let deltas: Vec<_> = std::iter::from_fn(|| decoder.pop()).map(Result::unwrap).collect();
/// assert_eq!(deltas[1..], [Delta::Text("Yes.".into()), Delta::End(Stop::Answer)]);
/// ```
#[derive(Debug)]
pub struct Decoder {
    /// The events; none when the answer has ended.
    events: Option<sse::Decoder>,
    answer: Answer,
}

impl Decoder {
    /// A decoder at the start of a body.
    pub fn new(limits: sse::Limits) -> Self {
        Self { events: Some(sse::Decoder::new(limits)), answer: Answer::default() }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let Some(events) = &mut self.events else { return };
        if let Err(error) = events.push(bytes, |event| self.answer.take(&event)) {
            self.answer.fail(Fault::new(FaultClass::Malformed, error.to_string()));
        }
        if self.answer.over {
            self.events = None;
        }
    }

    /// Takes the end of the body.
    pub fn finish(&mut self) {
        self.end(Fault::new(
            FaultClass::Transient,
            "the answer ended before it was finished: the connection was cut",
        ));
    }

    /// Takes a body that broke off with `fault`: an end all the same, if the finish reason was there before it.
    pub fn break_off(&mut self, fault: Fault) {
        self.end(fault);
    }

    fn end(&mut self, unfinished: Fault) {
        let Some(events) = self.events.take() else { return };
        if let Err(error) = events.finish(|event| self.answer.take(&event)) {
            self.answer.fail(Fault::new(FaultClass::Malformed, error.to_string()));
        }
        self.answer.conclude(unfinished);
    }

    /// The next delta, if there is one.
    pub fn pop(&mut self) -> Option<Result<Delta, Fault>> {
        self.answer.out.pop_front()
    }

    /// Whether the answer has ended, so that no bytes are needed any more.
    pub fn is_over(&self) -> bool {
        self.answer.over
    }

    /// How many events said nothing that we know; they were skipped.
    pub fn skipped(&self) -> u64 {
        self.answer.skipped
    }
}

/// What was read of the answer.
#[derive(Debug, Default)]
struct Answer {
    out: VecDeque<Result<Delta, Fault>>,
    calls: Calls,
    thinking: Block,
    started: bool,
    refused: bool,
    /// The server's word for why it stopped; an empty one is one too.
    finish_reason: Option<String>,
    over: bool,
    skipped: u64,
}

/// Where readable thinking stands: a second block of it is parted from the first by a newline.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Block {
    #[default]
    None,
    Open,
    Closed,
}

impl Answer {
    fn take(&mut self, event: &Event<'_>) {
        let data = event.data.trim();
        if self.over || data.is_empty() {
            return;
        }
        if data == "[DONE]" {
            return self
                .conclude(Fault::new(FaultClass::Transient, "the answer ended without a finish reason"));
        }
        match serde_json::from_str(&escapes::mend(data)) {
            Ok(chunk) => self.take_chunk(chunk),
            // The body was cut inside this event: its end will say so.
            Err(_) if !event.whole => (),
            Err(error) => self.fail(Fault::new(
                FaultClass::Malformed,
                format!("the answer holds an event that cannot be read: {error}"),
            )),
        }
    }

    fn take_chunk(&mut self, chunk: wire::Chunk<'_>) {
        if let Some(error) = chunk.error {
            return self.fail(answer::stream_fault(error.get()));
        }
        if chunk.choices.is_empty() && chunk.usage.is_none() {
            self.skipped += 1;
        }
        let response = chunk.id.filter(|id| !id.is_empty());
        if !self.started && (response.is_some() || !chunk.choices.is_empty()) {
            self.started = true;
            // The model is not named: aliases are answered by dated names, which would part the message from the
            // model that it has to be sent back to.
            self.give(Delta::Started { response, model: None });
        }
        for choice in chunk.choices {
            if choice.index.unwrap_or(0) == 0 {
                self.take_piece(choice.delta);
                self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            }
        }
        let usage = chunk.usage.map(everturn_core::message::Usage::from).unwrap_or_default();
        if usage != everturn_core::message::Usage::default() {
            self.give(Delta::Usage(usage));
        }
    }

    fn take_piece(&mut self, piece: wire::Piece<'_>) {
        self.think(piece.reasoning.or(piece.reasoning_content).unwrap_or_default());
        for item in piece.reasoning_details {
            self.keep(item);
        }
        self.say(piece.content.map(wire::Content::text).unwrap_or_default());
        let refusal = piece.refusal.unwrap_or_default();
        self.refused |= !refusal.is_empty();
        self.say(refusal);
        let old_form = piece.function_call.map(|function| wire::CallPiece {
            index: Some(0),
            id: None,
            function: Some(function),
        });
        for call in piece.tool_calls.into_iter().chain(old_form) {
            self.close_thinking();
            self.calls.take(call, &mut self.out);
        }
    }

    fn think(&mut self, mut text: String) {
        if text.is_empty() {
            return;
        }
        if self.thinking == Block::Closed {
            text.insert(0, '\n');
        }
        self.thinking = Block::Open;
        self.give(Delta::Thinking(text));
    }

    fn close_thinking(&mut self) {
        if self.thinking == Block::Open {
            self.thinking = Block::Closed;
        }
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.close_thinking();
            self.give(Delta::Text(text));
        }
    }

    fn keep(&mut self, item: &RawValue) {
        let item = RawJson::parse(item.get()).expect("a raw value is JSON");
        self.give(Delta::Opaque(item));
    }

    /// Ends the answer: well, if there was a finish reason, else with `unfinished`.
    fn conclude(&mut self, unfinished: Fault) {
        if self.over {
            return;
        }
        let Some(reason) = self.finish_reason.take() else {
            return self.fail(unfinished);
        };
        self.calls.end(&mut self.out);
        let stop = match reason.as_str() {
            "error" => {
                return self.fail(Fault::new(
                    FaultClass::Transient,
                    "the server broke off the answer, with finish reason error and no word why",
                ));
            }
            _ if self.refused => Stop::Refused,
            "content_filter" => Stop::Filtered,
            "length" | "model_length" => Stop::Length,
            _ if self.calls.any_nameless() => {
                return self
                    .fail(Fault::new(FaultClass::Malformed, "the answer holds a call that names no tool"));
            }
            _ if self.calls.any() => Stop::Calls,
            _ => Stop::Answer,
        };
        self.give(Delta::End(stop));
        self.over = true;
    }

    fn fail(&mut self, fault: Fault) {
        if !self.over {
            self.out.push_back(Err(fault));
            self.over = true;
        }
    }

    fn give(&mut self, delta: Delta) {
        self.out.push_back(Ok(delta));
    }
}
