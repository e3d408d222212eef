//! The model port: a request in, a stream of deltas out.

use std::{fmt, pin::Pin, str::FromStr, sync::Arc, time::Duration};

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    json::RawJson,
    message::{Message, Stop, Usage},
    tool::ToolSpec,
    usage::Price,
};

/// A model's answer as it comes.
pub type DeltaStream = Pin<Box<dyn Stream<Item = Result<Delta, Fault>> + Send>>;

/// Speaks to a model provider.
///
/// Promise: the client never retries, since each attempt is journaled by the turn. A response that ended well ends in
/// exactly one [`Delta::End`]; anything else (also a stream that just stops) ends in a [`Fault`]. Dropping the stream
/// cancels the request.
///
/// ```
/// use everturn_core::model::{Delta, DeltaStream, Model, Request};
/// use everturn_core::message::Stop;
///
/// /// Answers everything with one word.
/// struct Yes;
/// impl Model for Yes {
///     fn stream(&self, _: Request) -> DeltaStream {
///         let deltas = [Delta::Text("Yes.".into()), Delta::End(Stop::Answer)];
///         Box::pin(futures_util::stream::iter(deltas.map(Ok)))
///     }
/// }
/// ```
pub trait Model: Send + Sync + 'static {
    /// Sends a request and streams the answer.
    fn stream(&self, request: Request) -> DeltaStream;

    /// What a model of this provider can do, by the name that the provider has for it.
    fn abilities(&self, model: &str) -> Abilities {
        let _ = model;
        Abilities::default()
    }
}

/// What a model can do.
///
/// ```
/// use everturn_core::model::Abilities;
/// assert!(Abilities::default().window.is_none(), "nobody said how much it reads");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Abilities {
    /// The models that can go on with what this one was sent, opaque items included; its own name, without one.
    pub family: Option<String>,
    /// Whether it takes a change of its system prompt behind the messages.
    pub takes_changes: bool,
    /// How many tokens a request and its answer may have together, where that is known.
    pub window: Option<u64>,
    /// How many tokens an answer may have, where that is known.
    pub output_max: Option<u64>,
    /// What its tokens cost, where that is known.
    pub price: Option<Price>,
}

impl Default for Abilities {
    fn default() -> Self {
        Self { family: None, takes_changes: true, window: None, output_max: None, price: None }
    }
}

/// What a model is asked.
///
/// Promise: a pure function of the transcript and the pinned agent; equal requests are equal bytes on the wire.
///
/// ```
/// use everturn_core::{message::Message, model::Request};
///
/// let request = Request::new("qwen", [Message::user("hello")]);
/// assert_eq!(request.texts(), ["hello"]);
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// The model, as its provider names it.
    pub model: String,
    /// The endpoint of the model reference (a base URL), if it names one.
    pub endpoint: Option<String>,
    /// How much the model should think.
    pub thinking: Thinking,
    /// The messages, oldest first; legal by `context::check`.
    pub messages: Arc<Vec<Arc<Message>>>,
    /// The tools on offer, in the registry's order.
    pub tools: Arc<[ToolSpec]>,
    /// The JSON schema that the answer has to fit, where one is asked for. A provider that cannot be told of it leaves it
    /// out: whoever asked checks the answer.
    pub schema: Option<RawJson>,
}

impl Request {
    /// A request of `messages` to `model`, without tools.
    pub fn new(model: impl Into<String>, messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            model: model.into(),
            endpoint: None,
            thinking: Thinking::default(),
            messages: Arc::new(messages.into_iter().map(Arc::new).collect()),
            tools: Arc::from([]),
            schema: None,
        }
    }

    /// What the messages say, one text for each: to look at, not to send.
    pub fn texts(&self) -> Vec<String> {
        self.messages.iter().map(|message| message.text()).collect()
    }
}

/// How much a model should think before it answers. Providers map it to what they have.
///
/// ```
/// use everturn_core::model::Thinking;
/// assert_eq!(serde_json::to_string(&Thinking::High).unwrap(), r#""high""#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// The provider's own default.
    #[default]
    Default,
    /// None, where it can be turned off.
    Off,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// One piece of a model's answer.
///
/// Shape: calls are numbered from 0 in the order of their first appearance; each call that is whole has a
/// [`CallStart`](Self::CallStart), any number of [`CallArguments`](Self::CallArguments) and one
/// [`CallEnd`](Self::CallEnd). A call without its end was cut and must never run.
///
/// ```
/// use everturn_core::model::Delta;
/// assert_eq!(Delta::Text("a".into()), Delta::Text("a".into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The provider took the request.
    Started {
        /// Its id of the response.
        response: Option<String>,
        /// The model that answers, where it is not the one that was asked.
        model: Option<String>,
    },
    /// More text for the reader.
    Text(String),
    /// More readable thinking. Separate blocks are told apart by a newline that the decoder puts between.
    Thinking(String),
    /// A call begins.
    CallStart {
        /// Its number.
        call: u32,
        /// The provider's id of it, if it gave one.
        provider: Option<String>,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments (JSON text).
    CallArguments {
        /// The call's number.
        call: u32,
        /// The next piece.
        piece: String,
    },
    /// A call is whole.
    CallEnd {
        /// Its number.
        call: u32,
    },
    /// An item to keep byte for byte.
    Opaque(RawJson),
    /// What the provider counted so far: a snapshot that replaces the last one.
    Usage(Usage),
    /// The response ended well.
    End(Stop),
}

impl Delta {
    /// Bytes of what it adds to the message.
    pub fn weight(&self) -> usize {
        match self {
            Self::Text(piece) | Self::Thinking(piece) | Self::CallArguments { piece, .. } => piece.len(),
            Self::CallStart { name, .. } => name.len(),
            Self::Opaque(item) => item.get().len(),
            Self::Started { .. } | Self::CallEnd { .. } | Self::Usage(_) | Self::End(_) => 0,
        }
    }
}

/// A request that did not end well.
///
/// ```
/// use everturn_core::model::{Fault, FaultClass};
///
/// let fault = Fault::new(FaultClass::Overloaded, "the model is busy");
/// assert_eq!(fault.to_string(), "overloaded: the model is busy");
/// assert!(fault.may_retry());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind of failure it is.
    pub class: FaultClass,
    /// What happened, in words; never a key or a header.
    pub message: String,
    /// The HTTP status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the server said of sending the same request again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// How long the server asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Fault {
    /// A fault of `class`, without anything the server said.
    pub fn new(class: FaultClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: None, retry: None, wait_ms: None, request: None }
    }

    /// Whether the same request may be sent again: what the server said, else what the class says.
    pub fn may_retry(&self) -> bool {
        self.retry.unwrap_or(matches!(
            self.class,
            FaultClass::Transient | FaultClass::RateLimited | FaultClass::Overloaded
        ))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}

impl std::error::Error for Fault {}

/// What kind of failure a provider's fault is.
///
/// ```
/// use everturn_core::model::FaultClass;
/// assert_eq!(FaultClass::RateLimited.to_string(), "rate_limited");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// The connection or the server failed; the same request may work.
    Transient,
    /// Too many requests for now.
    RateLimited,
    /// The provider has no capacity for now.
    Overloaded,
    /// The account has no credit or reached its spend limit.
    Quota,
    /// The key is missing, wrong or not allowed.
    Auth,
    /// The provider says that the request is wrong.
    Invalid,
    /// The request does not fit the model's window.
    TooLong,
    /// The provider will not serve this request.
    Refused,
    /// A signed item is bound to another prefix.
    Binding,
    /// The answer cannot be read.
    Malformed,
    /// Our own mistake.
    Bug,
}

impl FaultClass {
    /// The class in one word, as it is stored and shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Quota => "quota",
            Self::Auth => "auth",
            Self::Invalid => "invalid",
            Self::TooLong => "too_long",
            Self::Refused => "refused",
            Self::Binding => "binding",
            Self::Malformed => "malformed",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A model reference: `provider/model`, or `provider/model@http://endpoint`.
///
/// Shape: the provider ends at the first `/`; an endpoint begins at the last `@http://` or `@https://`. A bare word is a
/// provider whose only model has its name (`demo`). What looks like an address and lacks its scheme is refused: taken
/// for a part of the model's name, it would send the request to the provider's own endpoint.
///
/// ```
/// use everturn_core::model::ModelRef;
///
/// let model: ModelRef = "chat/org/qwen@http://127.0.0.1:8080/v1".parse().unwrap();
/// assert_eq!((model.provider.as_str(), model.model.as_str()), ("chat", "org/qwen"));
/// assert_eq!(model.endpoint.as_deref(), Some("http://127.0.0.1:8080/v1"));
/// assert_eq!(model.to_string(), "chat/org/qwen@http://127.0.0.1:8080/v1");
/// assert!("/qwen".parse::<ModelRef>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    /// The provider.
    pub provider: String,
    /// The model, as the provider names it.
    pub model: String,
    /// A base URL, if the reference names one.
    pub endpoint: Option<String>,
}

impl FromStr for ModelRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let at = ["@http://", "@https://"].iter().filter_map(|scheme| text.rfind(scheme)).max();
        let (name, endpoint) = match at {
            Some(at) => (&text[..at], Some(text[at + 1..].to_owned())),
            None => (text, None),
        };
        if let Some(address) = name.rsplit_once('@').map(|(_, behind)| behind).filter(|it| is_address(it)) {
            return Err(Error::invalid(format!(
                "read model {text:?}: an address begins with http:// or https://, and {address:?} does not"
            )));
        }
        let (provider, model) = name.split_once('/').unwrap_or((name, name));
        if provider.is_empty() || model.is_empty() {
            return Err(Error::invalid(format!(
                "read model {text:?}: a model is named PROVIDER/MODEL or PROVIDER/MODEL@http://HOST/v1"
            )));
        }
        Ok(Self { provider: provider.into(), model: model.into(), endpoint })
    }
}

/// Whether someone meant this as an address: it names a scheme, a port, or this machine.
fn is_address(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    text.contains("://") || host == "localhost" || port.is_some_and(is_port)
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provider)?;
        if self.model != self.provider {
            write!(f, "/{}", self.model)?;
        }
        match &self.endpoint {
            Some(endpoint) => write!(f, "@{endpoint}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for ModelRef {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ModelRef> for String {
    fn from(model: ModelRef) -> Self {
        model.to_string()
    }
}

impl Fault {
    /// How long the server asks to wait, if it said so.
    pub fn wait(&self) -> Option<Duration> {
        self.wait_ms.map(Duration::from_millis)
    }
}
