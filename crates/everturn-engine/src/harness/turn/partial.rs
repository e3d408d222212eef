//! What has come of a response that has not ended: committed while it streams.

use everturn_core::{
    clock::Timestamp,
    document::{Document, Operation, Path, Value},
    id::TaskId,
    message::{Assistant, End, Part},
    response::{CallDraft, Response},
};
use serde::{Deserialize, Serialize};

/// The partial response of a conversation; empty while none streams.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.partial", version = 1, scope = "conversation", crate = "everturn_core")]
pub(crate) struct Partial {
    /// The turn that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<TaskId>,
    #[serde(default)]
    pub(crate) step: u32,
    #[serde(default)]
    pub(crate) attempt: u32,
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) thinking: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<PartialCall>,
    /// How long the request had been out when this was stored, in milliseconds.
    #[serde(default)]
    pub(crate) out_ms: u64,
    /// When the request is sent, where it waits for a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
    /// Whether others at its endpoint keep it waiting: until that moment, or for a place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_held: bool,
}

/// A call whose arguments are still coming.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartialCall {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Partial {
    pub(super) fn of(turn: TaskId, step: u32, attempt: u32, response: &Response) -> Self {
        let call =
            |call: &CallDraft| PartialCall { name: call.name.clone(), arguments: call.arguments.clone() };
        Self {
            turn: Some(turn),
            step,
            attempt,
            text: response.text(),
            thinking: response.thinking(),
            calls: response.calls().map(call).collect(),
            ..Self::default()
        }
    }

    /// Nothing yet, of an attempt that is made at some moment.
    pub(super) fn waiting(turn: TaskId, (step, attempt): (u32, u32), until: Timestamp) -> Self {
        Self { turn: Some(turn), step, attempt, until: Some(until), ..Self::default() }
    }

    /// Nothing yet, of an attempt that others keep waiting: until a moment, or for a place.
    pub(super) fn held(turn: TaskId, (step, attempt): (u32, u32), until: Option<Timestamp>) -> Self {
        Self { turn: Some(turn), step, attempt, until, is_held: true, ..Self::default() }
    }

    /// Whether the attempt has not begun.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_held || self.until.is_some()
    }

    /// What was shown, as a message that was cut off.
    pub(super) fn into_message(self) -> Assistant {
        let thinking = Some(self.thinking).filter(|text| !text.is_empty()).map(Part::Thinking);
        let text = Some(self.text).filter(|text| !text.is_empty()).map(Part::Text);
        Assistant {
            parts: thinking.into_iter().chain(text).collect(),
            end: End::Aborted,
            ..Assistant::default()
        }
    }

    /// Whether nothing has come.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.calls.is_empty()
    }

    /// The operations that lead from this partial response to a later one of the same attempt: it only grows.
    pub(super) fn grow(&self, later: &Self) -> Vec<Operation> {
        let mut operations = Vec::new();
        let mut append = |path: Path, before: &str, after: &str| {
            if after.len() > before.len() {
                operations.push(Operation::Append { path, text: after[before.len()..].into() });
            }
        };
        append(Path::from(["text"]), &self.text, &later.text);
        append(Path::from(["thinking"]), &self.thinking, &later.thinking);
        for (at, (before, after)) in self.calls.iter().zip(&later.calls).enumerate() {
            let path = Path::root().key("calls").index(at).key("arguments");
            append(path, &before.arguments, &after.arguments);
        }
        if later.calls.len() > self.calls.len() {
            operations.push(self.more_calls(&later.calls[self.calls.len()..]));
        }
        if !operations.is_empty() {
            operations.push(Operation::Set { path: Path::from(["out_ms"]), value: later.out_ms.into() });
        }
        operations
    }

    fn more_calls(&self, calls: &[PartialCall]) -> Operation {
        let insert = calls
            .iter()
            .map(|call| serde_json::to_value(call).expect("a call of two strings has a JSON form"));
        let insert: Vec<Value> = insert.collect();
        let path = Path::from(["calls"]);
        match self.calls.len() {
            0 => Operation::Set { path, value: insert.into() },
            at => Operation::Splice { path, at, remove: 0, insert },
        }
    }

    /// The operation that makes this the whole value.
    pub(super) fn whole(&self) -> Operation {
        Operation::Replace {
            value: serde_json::to_value(self).expect("strings and numbers have a JSON form"),
        }
    }
}
