//! The proof that messages are a legal request, made before money is spent.

use std::{collections::HashSet, fmt, sync::Arc};

use crate::{
    error::Error,
    id::EntryId,
    message::{Assistant, CallId, End, Message},
};

/// Why messages are no legal request.
///
/// ```
/// use everturn_core::{context::check, message::{CallId, CallResult, Message, Outcome}};
/// use std::sync::Arc;
///
/// let orphan = Message::Result(CallResult::new(CallId("c1".into()), Outcome::Ok, "3"));
/// let breach = check(&[Arc::new(orphan)]).unwrap_err();
/// assert_eq!(breach.to_string(), "message 0 is a result of call c1, which nothing before it made");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which message.
    pub index: usize,
    /// The entry that contributed it, where that is known.
    pub entry: Option<EntryId>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}", self.index)?;
        if let Some(entry) = self.entry {
            write!(f, " (entry {entry})")?;
        }
        write!(f, " {}", self.what)
    }
}

impl std::error::Error for Breach {}

impl From<Breach> for Error {
    fn from(breach: Breach) -> Self {
        Error::invalid(format!("build a request: {breach}"))
    }
}

/// Proves that messages are a legal request: each call has exactly one result, directly behind its assistant message
/// and in call order; each result has a call; call ids are unique; only complete assistant messages are sent.
///
/// Errors: the first [`Breach`].
pub fn check(messages: &[Arc<Message>]) -> Result<(), Breach> {
    Checked::default().advance(messages, messages.len())
}

/// How far messages have been proven. What was proven stays proven while it stays as it is.
///
/// ```
/// use everturn_core::{context::Checked, message::Message};
/// use std::sync::Arc;
///
/// let messages = [Arc::new(Message::user("one")), Arc::new(Message::user("two"))];
/// let mut checked = Checked::default();
/// checked.advance(&messages[..1], 1).unwrap();
/// checked.advance(&messages, 2).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checked {
    settled: usize,
    calls: HashSet<CallId>,
}

impl Checked {
    /// Proves all messages from where the last proof ended; the first `settled` of them are not looked at again, unless
    /// the proof fails.
    ///
    /// Errors: the first [`Breach`].
    pub fn advance(&mut self, messages: &[Arc<Message>], settled: usize) -> Result<(), Breach> {
        let settled = settled.min(messages.len()).max(self.settled);
        let mut open = Open { seen: &mut self.calls, added: Vec::new(), due: Vec::new() };
        let proof = open.prove(messages, self.settled);
        let added = open.added;
        // What a later proof looks at again must not be there already.
        let again = if proof.is_ok() { settled } else { 0 };
        for (_, call) in added.iter().filter(|(index, _)| *index >= again) {
            self.calls.remove(call);
        }
        if proof.is_ok() {
            self.settled = settled;
        }
        proof
    }
}

/// The state between two messages.
struct Open<'a> {
    seen: &'a mut HashSet<CallId>,
    /// The calls that this proof added to the seen ones, each with the index of its message.
    added: Vec<(usize, CallId)>,
    /// The calls of the last assistant message that still want their results, in order.
    due: Vec<CallId>,
}

impl Open<'_> {
    fn prove(&mut self, messages: &[Arc<Message>], begin: usize) -> Result<(), Breach> {
        for (index, message) in messages.iter().enumerate().skip(begin) {
            let breach = |what| Breach { index, entry: None, what };
            self.step(message, index).map_err(breach)?;
        }
        match self.due.first() {
            Some(call) => Err(Breach {
                index: messages.len().saturating_sub(1),
                entry: None,
                what: format!("is the last, and call {call} has no result"),
            }),
            None => Ok(()),
        }
    }

    fn step(&mut self, message: &Message, index: usize) -> Result<(), String> {
        match message {
            Message::Result(result) => self.result(&result.call),
            _ if !self.due.is_empty() => {
                Err(format!("comes where the result of call {} must be", self.due[0]))
            }
            Message::Assistant(assistant) => self.assistant(assistant, index),
            Message::System(_) | Message::User(_) => Ok(()),
        }
    }

    fn assistant(&mut self, assistant: &Assistant, index: usize) -> Result<(), String> {
        if assistant.end != End::Complete {
            return Err("is an assistant message that did not end well".into());
        }
        for call in assistant.calls() {
            if !self.seen.insert(call.id.clone()) {
                return Err(format!("repeats the call id {}", call.id));
            }
            self.added.push((index, call.id.clone()));
            self.due.push(call.id.clone());
        }
        Ok(())
    }

    fn result(&mut self, call: &CallId) -> Result<(), String> {
        match self.due.iter().position(|due| due == call) {
            Some(0) => {
                self.due.remove(0);
                Ok(())
            }
            Some(_) => Err(format!("is the result of call {call}, out of call order")),
            None => Err(format!("is a result of call {call}, which nothing before it made")),
        }
    }
}
