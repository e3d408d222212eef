//! The newest response of a conversation, and what its calls gave.

use std::sync::Arc;

use everturn_core::message::{Call, CallResult, End, Message, Outcome};

/// A response and the results of its calls.
pub(crate) struct LastResponse {
    response: Option<Arc<Message>>,
    results: Vec<Arc<Message>>,
}

impl LastResponse {
    pub(super) fn of(messages: &[Arc<Message>]) -> Self {
        let is_whole = |message: &Arc<Message>| match &**message {
            Message::Assistant(assistant) => assistant.end == End::Complete,
            _ => false,
        };
        let Some(at) = messages.iter().rposition(is_whole) else {
            return Self { response: None, results: Vec::new() };
        };
        let is_result = |message: &&Arc<Message>| match &***message {
            Message::Result(result) => result.outcome != Outcome::MissingResult,
            _ => false,
        };
        let results = messages[at..].iter().filter(is_result).cloned().collect();
        Self { response: Some(messages[at].clone()), results }
    }

    /// The calls, in order, each with its result where it has one.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&Call, Option<&CallResult>)> {
        let assistant = self.response.iter().filter_map(|message| match &**message {
            Message::Assistant(assistant) => Some(assistant),
            _ => None,
        });
        assistant.flat_map(|assistant| assistant.calls()).map(|call| (call, self.result_of(call)))
    }

    fn result_of(&self, call: &Call) -> Option<&CallResult> {
        self.results.iter().find_map(|message| match &**message {
            Message::Result(result) if result.call == call.id => Some(result),
            _ => None,
        })
    }
}
