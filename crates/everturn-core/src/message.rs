//! Messages: what a model is sent, and what it answers.
//!
//! The stored form tags from outside (`{"user":{...}}`, `{"text":"..."}`): short, and raw JSON inside keeps its bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{clock::Timestamp, id::BlobId, json::RawJson, tool::Control};

/// One message of a request.
///
/// ```
/// use everturn_core::message::Message;
///
/// let message = Message::user("hello");
/// assert_eq!(serde_json::to_string(&message).unwrap(), r#"{"user":{"parts":[{"text":"hello"}]}}"#);
/// assert_eq!(message.text(), "hello");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Instructions.
    System(System),
    /// What a person, or the application for them, said.
    User(User),
    /// What the model answered.
    Assistant(Assistant),
    /// What a tool call gave.
    Result(CallResult),
}

impl Message {
    /// A user message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(User { parts: vec![Part::Text(text.into())] })
    }

    /// A system message of one text.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System(System { text: text.into() })
    }

    /// An assistant message of one text that ended well.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(Assistant { parts: vec![Part::Text(text.into())], ..Assistant::default() })
    }

    /// Bytes of text in the message: what its JSON weighs at least.
    pub fn weight(&self) -> usize {
        match self {
            Self::System(system) => system.text.len(),
            Self::User(user) => user.parts.iter().map(Part::weight).sum(),
            Self::Assistant(assistant) => assistant.parts.iter().map(Part::weight).sum(),
            Self::Result(result) => result.text.len(),
        }
    }

    /// All text for the reader, parts joined without anything between.
    pub fn text(&self) -> String {
        match self {
            Self::System(system) => system.text.clone(),
            Self::User(user) => text_of(&user.parts),
            Self::Assistant(assistant) => assistant.text(),
            Self::Result(result) => result.text.clone(),
        }
    }
}

fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
        .collect()
}

/// Instructions to the model.
///
/// ```
/// use everturn_core::message::System;
/// assert_eq!(System { text: "Be brief.".into() }.text, "Be brief.");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// The instructions.
    pub text: String,
}

/// What a person said.
///
/// ```
/// use everturn_core::message::{Part, User};
/// let user = User { parts: vec![Part::Text("hello".into())] };
/// assert_eq!(user.parts.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// The parts, in order.
    pub parts: Vec<Part>,
}

/// What the model answered, in the order it came.
///
/// ```
/// use everturn_core::message::{Assistant, End, Part};
///
/// let answer = Assistant { parts: vec![Part::Text("42".into())], ..Assistant::default() };
/// assert_eq!((answer.text().as_str(), answer.end), ("42", End::Complete));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    /// Text, thinking, calls and opaque items, in the order in which they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Where it came from; absent for messages that no model made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Why the model stopped; absent where it was not seen to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// What the provider counted; absent where it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the message is whole.
    #[serde(default, skip_serializing_if = "End::is_complete")]
    pub end: End,
}

impl Assistant {
    /// All text for the reader, parts joined without anything between.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }

    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None })
    }
}

/// How an assistant message ended. Only a complete one is ever sent back to a model.
///
/// ```
/// use everturn_core::message::End;
/// assert_eq!(serde_json::to_string(&End::Aborted).unwrap(), r#""aborted""#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It is whole.
    #[default]
    Complete,
    /// It was cut off: by a person, a crash or a lost connection.
    Aborted,
    /// The provider said that it failed.
    Error,
    /// The provider put it off; a later message carries the answer.
    Deferred,
}

impl End {
    fn is_complete(&self) -> bool {
        *self == Self::Complete
    }
}

/// Where an assistant message came from.
///
/// ```
/// use everturn_core::message::Origin;
/// let origin = Origin { provider: "chat".into(), model: "qwen".into(), response: None };
/// assert_eq!(origin.provider, "chat");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The provider's name, as in a model reference.
    pub provider: String,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

/// A part of a user or assistant message.
///
/// ```
/// use everturn_core::message::Part;
/// assert_eq!(serde_json::to_string(&Part::Text("a".into())).unwrap(), r#"{"text":"a"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text for the reader.
    Text(String),
    /// Readable thinking.
    Thinking(String),
    /// A tool call.
    Call(Call),
    /// An item of the provider that is kept byte for byte and sent back to it in place (signatures, encrypted
    /// reasoning), and to no other provider.
    Opaque(RawJson),
}

impl Part {
    /// Bytes of text in the part.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::Call(call) => call.name.len() + call.arguments.get().len(),
            Self::Opaque(item) => item.get().len(),
        }
    }
}

/// A tool call as the model asked for it.
///
/// ```
/// use everturn_core::{json::RawJson, message::{Call, CallId}};
/// let call = Call { id: CallId("c7".into()), provider: None, name: "read".into(), arguments: RawJson::empty() };
/// assert_eq!(call.arguments.get(), "{}");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Our id, unique in the session.
    pub id: CallId,
    /// The provider's id, which may be empty, repeated or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments, one JSON value as the model wrote it.
    pub arguments: RawJson,
}

/// Our id of a call: unique in its session whatever the provider sent.
///
/// ```
/// use everturn_core::message::CallId;
/// assert_eq!(CallId("c12".into()).to_string(), "c12");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a call gave, as the model is told.
///
/// ```
/// use everturn_core::message::{CallId, CallResult, Outcome};
/// let result = CallResult::new(CallId("c7".into()), Outcome::Ok, "3 files");
/// assert!(!result.outcome.is_error());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The call.
    pub call: CallId,
    /// The output, or what went wrong, in words for the model.
    pub text: String,
    /// How the call ended.
    pub outcome: Outcome,
    /// The time of a made-up result; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Whether the text is not all of the output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The whole output, where the text is not all of it and it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<BlobId>,
    /// How much of the text's beginning was shown while the call ran, in bytes.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub shown: usize,
    /// More about it for people; no model is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<RawJson>,
    /// What it asks of its turn.
    #[serde(default, skip_serializing_if = "Control::is_none")]
    pub control: Control,
}

impl CallResult {
    /// The result of a call that gave a text, and nothing beside it.
    pub fn new(call: CallId, outcome: Outcome, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            call,
            text,
            outcome,
            time: None,
            truncated: false,
            whole: None,
            shown: 0,
            details: None,
            control: Control::default(),
        }
    }

    /// What of it was shown while the call ran.
    pub fn shown(&self) -> &str {
        self.text.get(..self.shown).unwrap_or_default()
    }
}

/// How a call ended. Each end reaches the model as a result; none is an exception.
///
/// ```
/// use everturn_core::message::Outcome;
/// let denied = Outcome::Denied { rule: "deny exec(**)".into() };
/// assert_eq!(serde_json::to_string(&denied).unwrap(), r#"{"denied":{"rule":"deny exec(**)"}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it was asked.
    Ok,
    /// The tool said that it could not.
    Error,
    /// Policy refused it, by this rule.
    Denied {
        /// The rule that refused.
        rule: String,
    },
    /// A person, or the host for them, refused it.
    Declined {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// No tool of that name is installed.
    Unavailable,
    /// The arguments do not fit the tool.
    InvalidArguments,
    /// It took longer than it may.
    TimedOut,
    /// It was told to stop before it was done.
    Cancelled,
    /// Nobody can know whether its effect happened.
    Unknown,
    /// No result was stored; this one was made up so that the request is legal.
    MissingResult,
}

impl Outcome {
    /// Whether the model should take the result for a failure.
    pub fn is_error(&self) -> bool {
        *self != Self::Ok
    }

    /// The outcome in one word, as events, tables and screens show it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied { .. } => "denied",
            Self::Declined { .. } => "declined",
            Self::Unavailable => "unavailable",
            Self::InvalidArguments => "invalid_arguments",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
            Self::MissingResult => "missing_result",
        }
    }
}

/// Why a model stopped, when its response ended well.
///
/// ```
/// use everturn_core::message::Stop;
/// assert_eq!(serde_json::to_string(&Stop::Length).unwrap(), r#""length""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It answered.
    Answer,
    /// It wants calls to be made.
    Calls,
    /// It reached the output limit.
    Length,
    /// The model refused.
    Refused,
    /// The provider filtered the answer.
    Filtered,
    /// The provider paused: send the turn back to go on.
    Paused,
}

/// Tokens as a provider counted them. A count that nobody reported is absent, never 0.
///
/// ```
/// use everturn_core::message::Usage;
///
/// let usage = Usage { input: Some(31), output: Some(9), ..Usage::default() };
/// assert_eq!(usage.plus(&usage).input, Some(62));
/// assert_eq!(usage.plus(&usage).cached, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, the cached and the written ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Input tokens read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Input tokens written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<u64>,
    /// Output tokens spent on reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// The sum, count by count; absent only where both are.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            cached: sum(self.cached, other.cached),
            cache_written: sum(self.cache_written, other.cache_written),
            reasoning: sum(self.reasoning, other.reasoning),
        }
    }
}
