//! The body of an answer as deltas, whatever the dialect.

use std::{collections::VecDeque, mem};

use everturn_core::{
    json::RawJson,
    message::{Stop, Usage},
    model::{Delta, Fault, FaultClass},
};
use serde_json::value::RawValue;

use crate::{
    answer,
    dialect::{Answer, Dialect},
    escapes,
    sse::{self, Event},
};

/// Reads the body of an answer as its bytes come.
///
/// Shape: [`pop`](Self::pop) gives the deltas so far. The last one is [`Delta::End`] or a fault, and comes with the
/// dialect's terminal event, an error, or [`finish`](Self::finish); what follows it is not read.
/// Promise: no I/O and no clock; the same bytes give the same deltas, however they are cut. An answer without its
/// terminal event never ends well, and only a call that is whole gets its end.
/// Errors: `transient` where the body ends too soon, `malformed` where it cannot be read, and what the server says.
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
pub struct Decoder<D: Dialect> {
    /// The events; none when the answer has ended.
    events: Option<sse::Decoder>,
    answer: D::Answer,
    out: Out,
}

impl<D: Dialect> Decoder<D> {
    /// A decoder at the start of a body.
    pub fn new(limits: sse::Limits) -> Self {
        Self { events: Some(sse::Decoder::new(limits)), answer: D::Answer::default(), out: Out::default() }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let Self { events: Some(events), answer, out } = self else { return };
        if let Err(error) = events.push(bytes, |event| take(answer, &event, out)) {
            out.fail(Fault::new(FaultClass::Malformed, error.to_string()));
        }
        if self.out.over {
            self.events = None;
        }
    }

    /// Takes the end of the body.
    pub fn finish(&mut self) {
        self.break_off(Fault::new(
            FaultClass::Transient,
            "the answer ended before it was finished: the connection was cut",
        ));
    }

    /// Takes a body that broke off with `fault`: an end all the same, if all that says so was there before it.
    pub fn break_off(&mut self, fault: Fault) {
        let Some(events) = self.events.take() else { return };
        let Self { answer, out, .. } = self;
        if let Err(error) = events.finish(|event| take(answer, &event, out)) {
            out.fail(Fault::new(FaultClass::Malformed, error.to_string()));
        }
        if !out.over {
            answer.end(fault, out);
        }
    }

    /// The next delta, if there is one.
    pub fn pop(&mut self) -> Option<Result<Delta, Fault>> {
        self.out.deltas.pop_front()
    }

    /// Whether the answer has ended, so that no bytes are needed any more.
    pub fn is_over(&self) -> bool {
        self.out.over
    }

    /// How many events said nothing that we know; they were skipped.
    pub fn skipped(&self) -> u64 {
        self.out.skipped
    }
}

fn take(answer: &mut impl Answer, event: &Event<'_>, out: &mut Out) {
    let data = event.data.trim();
    if out.over || data.is_empty() {
        return;
    }
    if let Err(error) = answer.take(event, &escapes::mend(data), out)
        // The body was cut inside this event: its end will say so.
        && event.whole
    {
        let message = format!("the answer holds an event that cannot be read: {error}");
        out.fail(Fault::new(FaultClass::Malformed, message));
    }
}

/// What an answer gives.
#[derive(Debug, Default)]
pub struct Out {
    deltas: VecDeque<Result<Delta, Fault>>,
    thinking: Block,
    /// How many calls began by [`begin_call`](Self::begin_call).
    calls: u32,
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

impl Out {
    pub(crate) fn give(&mut self, delta: Delta) {
        self.deltas.push_back(Ok(delta));
    }

    /// The provider took the request. The model that answers is not named: aliases are answered by dated names, which would
    /// part the message from the model that it has to be sent back to.
    pub(crate) fn start(&mut self, response: Option<impl Into<String>>) {
        let response = response.map(Into::into).filter(|id| !id.is_empty());
        self.give(Delta::Started { response, model: None });
    }

    /// What the provider counted so far, if it counted anything.
    pub(crate) fn count(&mut self, usage: Usage) {
        if usage != Usage::default() {
            self.give(Delta::Usage(usage));
        }
    }

    /// Begins a call; gives its number.
    pub(crate) fn begin_call(&mut self, provider: Option<String>, name: String) -> u32 {
        self.close_thinking();
        let call = self.calls;
        self.calls += 1;
        self.give(Delta::CallStart { call, provider: provider.filter(|id| !id.is_empty()), name });
        call
    }

    /// Whether any call began so.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// More text for the reader.
    pub(crate) fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.close_thinking();
            self.give(Delta::Text(text));
        }
    }

    /// More readable thinking.
    pub(crate) fn think(&mut self, mut text: String) {
        if text.is_empty() {
            return;
        }
        if self.thinking == Block::Closed {
            text.insert(0, '\n');
        }
        self.thinking = Block::Open;
        self.give(Delta::Thinking(text));
    }

    /// Ends a block of thinking, if one is open.
    pub(crate) fn close_thinking(&mut self) {
        if self.thinking == Block::Open {
            self.thinking = Block::Closed;
        }
    }

    /// Keeps an item byte for byte.
    pub(crate) fn keep(&mut self, item: &RawValue) {
        self.give(Delta::Opaque(RawJson::parse(item.get()).expect("a raw value is JSON")));
    }

    /// Takes note of an event, or a part of one, that says nothing that we know.
    pub(crate) fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Ends the answer well.
    pub(crate) fn end(&mut self, stop: Stop) {
        if !mem::replace(&mut self.over, true) {
            self.give(Delta::End(stop));
        }
    }

    /// Ends the answer with a fault.
    pub(crate) fn fail(&mut self, fault: Fault) {
        if !mem::replace(&mut self.over, true) {
            self.deltas.push_back(Err(fault));
        }
    }

    /// Ends the answer with what the server says went wrong; `error` is its JSON.
    pub(crate) fn fail_with(&mut self, error: &RawValue) {
        self.fail(answer::stream_fault(error.get()));
    }
}
