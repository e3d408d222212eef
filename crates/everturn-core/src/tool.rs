//! The tool port: what a model may call.

use std::{fmt, sync::Arc, time::Duration};

pub use everturn_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    BoxFuture, CancelToken,
    env::Env,
    id::ConversationId,
    json::RawJson,
    message::{CallId, Outcome, Usage},
    policy::Act,
};

/// A tool with typed arguments.
///
/// Most are an `async fn` with the attribute [`macro@tool`]. `crate = "everturn_core"` says where Everturn is, when that is
/// not `::everturn`.
///
/// ```
/// use everturn_core::tool::{AnyTool, ToolResult, tool};
///
/// #[tool(replay = "safe", crate = "everturn_core")]
/// /// Count from 1 to n.
/// async fn count(
///     /// How far to count.
///     n: u32,
/// ) -> ToolResult {
///     Ok((1..=n).map(|i| format!("{i}\n")).collect::<String>().into())
/// }
///
/// let offered = AnyTool::new(count);
/// assert_eq!(offered.spec().description, "Count from 1 to n.");
/// ```
///
/// By hand, where a tool has a state of its own or says what a call would do:
///
/// Promise: arguments that do not fit end the call `invalid_arguments` before anything else happens; an error of
/// [`run`](Self::run) ends it `error`. Both reach the model as a result.
///
/// ```
/// use everturn_core::{policy::Act, tool::{CallContext, Contract, Tool, ToolResult}};
///
/// /// How far to count.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Arguments { n: u32 }
///
/// struct Count;
/// impl Tool for Count {
///     const NAME: &'static str = "count";
///     type Arguments = Arguments;
///     fn description(&self) -> &str { "Count from 1 to n." }
///     fn contract(&self) -> Contract { Contract::safe() }
///     async fn run(&self, _: &CallContext, arguments: Arguments) -> ToolResult {
///         Ok((1..=arguments.n).map(|i| format!("{i}\n")).collect::<String>().into())
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The name by which a model calls it.
    const NAME: &'static str;

    /// What it is called with; its JSON schema is sent to the model.
    type Arguments: DeserializeOwned + JsonSchema + Send;

    /// What it does, in words for the model.
    fn description(&self) -> &str;

    /// What it promises about its runs.
    fn contract(&self) -> Contract {
        Contract::default()
    }

    /// What a call with these arguments does to the world. Empty: judged by the tool's name alone.
    fn acts(&self, arguments: &Self::Arguments) -> Vec<Act> {
        let _ = arguments;
        Vec::new()
    }

    /// Does the work.
    fn run(&self, cx: &CallContext, arguments: Self::Arguments) -> impl Future<Output = ToolResult> + Send;

    /// What a call with these arguments would do, for a person who is asked whether it may: a difference, a command.
    /// None where there is no more to say than the arguments do.
    ///
    /// Promise: it changes nothing.
    fn preview(
        &self,
        cx: &CallContext,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Option<RawJson>> + Send {
        let _ = (cx, arguments);
        async { None }
    }
}

/// What a tool promises about running again after a crash between intent and result.
///
/// ```
/// use everturn_core::tool::Replay;
/// assert_eq!(Replay::default(), Replay::Never, "safe and keyed must be declared");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// Running it again does no harm.
    Safe,
    /// It passes the call's [key](CallContext::key) on, and the far side does the work once per key.
    Keyed,
    /// It is never run a second time; a call that was cut off ends `unknown`.
    #[default]
    Never,
}

/// What happens to a call of which nobody can know whether it ran.
///
/// ```
/// use everturn_core::tool::OnUnknown;
/// assert_eq!(OnUnknown::default(), OnUnknown::Tell);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The model is told so, and goes on.
    #[default]
    Tell,
    /// A person is asked: it happened, it did not, or stop.
    Pause,
}

/// What a tool promises about its runs, and what it asks for. No model is told of it.
///
/// ```
/// use everturn_core::tool::{Contract, Replay};
/// assert_eq!(Contract::default().replay, Replay::Never);
/// assert_eq!(Contract::safe().replay, Replay::Safe);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contract {
    /// Whether it may run again when nobody knows whether it ran.
    pub replay: Replay,
    /// What happens when it may not, and nobody knows.
    pub on_unknown: OnUnknown,
    /// Whether the calls of a response that has one of it run one after the other.
    pub is_sequential: bool,
    /// How long a call may run; past it the call is told to stop and ends `timed_out`.
    pub deadline: Option<Duration>,
    /// Which part of an output that is too long is kept.
    pub keep: Keep,
    /// The application's own words about the tool.
    pub metadata: Option<RawJson>,
}

impl Contract {
    /// One of a tool that may run again.
    pub fn safe() -> Self {
        Self { replay: Replay::Safe, ..Self::default() }
    }

    /// One of a tool that passes the call's key on.
    pub fn keyed() -> Self {
        Self { replay: Replay::Keyed, ..Self::default() }
    }
}

/// Which part of an output that is too long is kept.
///
/// ```
/// use everturn_core::tool::Keep;
/// assert_eq!(Keep::default(), Keep::Head);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Its beginning.
    #[default]
    Head,
    /// Its end.
    Tail,
    /// Half of either.
    Both,
}

/// How a tool is offered to a model.
///
/// ```
/// use everturn_core::{json::RawJson, tool::ToolSpec};
///
/// let spec = ToolSpec {
///     name: "now".into(),
///     description: "Tells the time.".into(),
///     parameters: RawJson::parse(r#"{"type":"object"}"#).unwrap(),
/// };
/// assert_eq!(spec.name, "now");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which a model calls it.
    pub name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: RawJson,
}

/// What a running call may use.
///
/// ```
/// use everturn_core::{env::{Env, ExecutionEnv}, tool::CallContext};
///
/// async fn first_bytes(cx: &CallContext) -> everturn_core::Result<Vec<u8>> {
///     cx.env.read(everturn_core::env::ReadFile { path: "README.md".into(), offset: 0, limit: 64 }).await
/// }
/// ```
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The call.
    pub call: CallId,
    /// The conversation it belongs to.
    pub conversation: ConversationId,
    /// The same text each time this call runs, also after a crash: an idempotency key for the far side.
    pub key: String,
    /// Fires when the call should stop.
    pub cancel: CancelToken,
    /// Files and processes: the only way to either.
    pub env: Env,
    /// Where output goes while the call runs.
    pub output: Output,
}

/// Where a call's output goes while it runs: shown as it comes, and kept within limits. What was written stands in the
/// result before the text that the tool returns.
///
/// Promise: writing never waits and never fails; what is beyond the limits is counted, and not kept.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use everturn_core::tool::Output;
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let output = Output::new({ let seen = seen.clone(); move |bytes| seen.lock().unwrap().extend_from_slice(bytes) });
/// output.write(b"3 files\n");
/// assert_eq!(*seen.lock().unwrap(), b"3 files\n");
/// Output::default().write(b"nobody looks");
/// ```
#[derive(Clone, Default)]
pub struct Output(Option<Arc<Take>>);

/// Takes the next piece of an output.
type Take = dyn Fn(&[u8]) + Send + Sync;

impl Output {
    /// An output that hands each piece on.
    pub fn new(to: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(to)))
    }

    /// Writes the next piece: bytes as they come, whole characters or not.
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        if let Some(to) = &self.0 {
            to(bytes.as_ref());
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Output({})", if self.0.is_some() { "shown" } else { "nowhere" })
    }
}

/// What a tool returns.
pub type ToolResult = Result<ToolOutput, ToolError>;

/// What a tool gave.
///
/// ```
/// use everturn_core::tool::ToolOutput;
/// assert_eq!(ToolOutput::from("3 files").text, "3 files");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The output, in words for the model.
    pub text: String,
    /// More about it for people: no model is told of it.
    pub details: Option<RawJson>,
    /// What a model that the tool asked counted.
    pub usage: Option<Usage>,
    /// What the turn does next, beside telling the model.
    pub control: Control,
}

impl<T: Into<String>> From<T> for ToolOutput {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// What a result asks of its turn.
///
/// ```
/// use everturn_core::tool::{Control, ToolOutput};
/// let done = ToolOutput { control: Control { end_turn: true, ..Control::default() }, ..ToolOutput::from("done") };
/// assert!(done.control.end_turn);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Tools that the conversation has from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_tools: Vec<String>,
    /// Whether the turn ends without asking the model again; it does when all calls of the response say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_turn: bool,
    /// Ends the turn and begins a new context with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_off: Option<String>,
}

impl Control {
    /// Whether it asks for nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a tool could not do what it was asked. Takes any error by `?`.
///
/// ```
/// use everturn_core::tool::{ToolError, ToolResult};
///
/// fn parse(text: &str) -> ToolResult {
///     let n: u32 = text.parse()?;
///     Ok(n.to_string().into())
/// }
/// assert!(parse("x").unwrap_err().to_string().contains("invalid digit"));
/// assert_eq!(ToolError::new("no such file").to_string(), "no such file");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    message: String,
    outcome: Outcome,
}

impl ToolError {
    /// An error, in words for the model.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: Outcome::Error }
    }

    /// The same words, with another outcome than `error`.
    #[must_use]
    pub fn outcome(message: impl Into<String>, outcome: Outcome) -> Self {
        Self { message: message.into(), outcome }
    }

    /// The words and the outcome.
    pub fn into_parts(self) -> (String, Outcome) {
        (self.message, self.outcome)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// A tool with its types erased, as a registry holds it.
///
/// ```
/// # use everturn_core::tool::{CallContext, Tool, ToolResult};
/// use everturn_core::tool::AnyTool;
/// # struct Hello;
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Nothing {}
/// # impl Tool for Hello {
/// #     const NAME: &'static str = "hello";
/// #     type Arguments = Nothing;
/// #     fn description(&self) -> &str { "Says hello." }
/// #     async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult { Ok("hello".into()) }
/// # }
/// let tool = AnyTool::new(Hello);
/// assert_eq!(tool.spec().name, "hello");
/// ```
#[derive(Clone)]
pub struct AnyTool {
    spec: Arc<ToolSpec>,
    contract: Arc<Contract>,
    code: Arc<dyn Code>,
}

trait Code: Send + Sync {
    fn acts(&self, arguments: &RawJson) -> Result<Vec<Act>, ToolError>;
    fn run<'a>(&'a self, cx: &'a CallContext, arguments: &'a RawJson) -> BoxFuture<'a, ToolResult>;
    fn preview<'a>(&'a self, cx: &'a CallContext, arguments: &'a RawJson) -> BoxFuture<'a, Option<RawJson>>;
}

struct Typed<T>(T);

impl<T: Tool> Typed<T> {
    fn read(arguments: &RawJson) -> Result<T::Arguments, ToolError> {
        self::arguments(T::NAME, arguments)
    }
}

/// The arguments of a call, as its tool takes them.
///
/// Errors: `invalid_arguments`, quoting what is wrong.
///
/// ```
/// use everturn_core::{json::RawJson, tool};
/// let n: [u32; 2] = tool::arguments("add", &RawJson::parse("[1, 2]").unwrap()).unwrap();
/// assert_eq!(n, [1, 2]);
/// ```
pub fn arguments<T: DeserializeOwned>(tool: &str, arguments: &RawJson) -> Result<T, ToolError> {
    // What a provider sent and is no JSON is kept as a JSON string.
    let text = arguments.get();
    let unquoted = text.starts_with('"').then(|| arguments.read::<String>().ok()).flatten();
    // Providers send nothing, an empty text or null where a tool takes no parameters.
    let text = match unquoted.as_deref().unwrap_or(text).trim() {
        "" | "null" => "{}",
        text => text,
    };
    serde_json::from_str(text).map_err(|fault| {
        let message = format!("call {tool} with {}: {fault}", around(text, &fault));
        ToolError::outcome(message, Outcome::InvalidArguments)
    })
}

/// How many bytes before and behind a fault are quoted.
const QUOTED: usize = 200;

/// The part of long text in which the fault is.
fn around(text: &str, fault: &serde_json::Error) -> String {
    let before: usize = text.split_inclusive('\n').take(fault.line().saturating_sub(1)).map(str::len).sum();
    let at = (before + fault.column()).min(text.len());
    let from = text.floor_char_boundary(at.saturating_sub(QUOTED));
    let to = text.ceil_char_boundary((at + QUOTED).min(text.len()));
    let (left, right) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{left}{}{right}", &text[from..to])
}

impl<T: Tool> Code for Typed<T> {
    fn acts(&self, arguments: &RawJson) -> Result<Vec<Act>, ToolError> {
        Ok(self.0.acts(&Self::read(arguments)?))
    }

    fn run<'a>(&'a self, cx: &'a CallContext, arguments: &'a RawJson) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.0.run(cx, Self::read(arguments)?).await })
    }

    fn preview<'a>(&'a self, cx: &'a CallContext, arguments: &'a RawJson) -> BoxFuture<'a, Option<RawJson>> {
        Box::pin(async move { self.0.preview(cx, Self::read(arguments).ok()?).await })
    }
}

impl AnyTool {
    /// Erases a tool's types.
    pub fn new<T: Tool>(tool: T) -> Self {
        let mut schema = schemars::schema_for!(T::Arguments);
        schema.remove("$schema");
        schema.remove("title");
        // The documentation of the type is for Rust; the tool has a description of its own.
        schema.remove("description");
        let spec = ToolSpec {
            name: T::NAME.into(),
            description: tool.description().into(),
            parameters: RawJson::of(&schema).expect("a schema is JSON"),
        };
        let contract = Arc::new(tool.contract());
        Self { spec: Arc::new(spec), contract, code: Arc::new(Typed(tool)) }
    }

    /// How it is offered to a model.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// What it promises about its runs.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// What a call with these arguments does to the world; nothing, where it is judged by its name.
    ///
    /// Errors: `invalid_arguments` when they do not fit.
    pub fn acts(&self, arguments: &RawJson) -> Result<Vec<Act>, ToolError> {
        self.code.acts(arguments)
    }

    /// Runs a call.
    pub async fn run(&self, cx: &CallContext, arguments: &RawJson) -> ToolResult {
        self.code.run(cx, arguments).await
    }

    /// What a call would do, for a person who is asked whether it may; nothing is changed.
    pub async fn preview(&self, cx: &CallContext, arguments: &RawJson) -> Option<RawJson> {
        self.code.preview(cx, arguments).await
    }
}

/// What the code that [`macro@tool`] writes stands on, so that nobody else needs to depend on it.
#[doc(hidden)]
pub mod written {
    pub use schemars;
    pub use serde;
}

impl fmt::Debug for AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyTool({})", self.spec.name)
    }
}
