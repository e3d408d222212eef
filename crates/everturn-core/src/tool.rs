//! The tool port: what a model may call.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    BoxFuture, CancelToken,
    env::Env,
    id::ConversationId,
    json::RawJson,
    message::{CallId, Outcome},
    policy::Act,
};

/// A tool with typed arguments.
///
/// Promise: arguments that do not fit end the call `invalid_arguments` before anything else happens; an error of
/// [`run`](Self::run) ends it `error`. Both reach the model as a result.
///
/// ```
/// use everturn_core::{policy::Act, tool::{CallContext, Replay, Tool, ToolResult}};
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
///     fn replay(&self) -> Replay { Replay::Safe }
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

    /// Whether it may run again when nobody knows whether it ran.
    fn replay(&self) -> Replay {
        Replay::Never
    }

    /// What a call with these arguments does to the world. Empty: judged by the tool's name alone.
    fn acts(&self, arguments: &Self::Arguments) -> Vec<Act> {
        let _ = arguments;
        Vec::new()
    }

    /// Does the work.
    fn run(&self, cx: &CallContext, arguments: Self::Arguments) -> impl Future<Output = ToolResult> + Send;
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

/// How a tool is offered to a model.
///
/// ```
/// use everturn_core::{json::RawJson, tool::{Replay, ToolSpec}};
///
/// let spec = ToolSpec {
///     name: "now".into(),
///     description: "Tells the time.".into(),
///     parameters: RawJson::parse(r#"{"type":"object"}"#).unwrap(),
///     replay: Replay::Safe,
/// };
/// assert_eq!(spec.name, "now");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name by which a model calls it.
    pub name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: RawJson,
    /// Whether it may run again.
    pub replay: Replay,
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
}

/// What a tool returns.
pub type ToolResult = Result<ToolOutput, ToolError>;

/// What a tool gave.
///
/// ```
/// use everturn_core::tool::ToolOutput;
/// assert_eq!(ToolOutput::from("3 files").text, "3 files");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// The output, in words for the model.
    pub text: String,
}

impl<T: Into<String>> From<T> for ToolOutput {
    fn from(text: T) -> Self {
        Self { text: text.into() }
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
    code: Arc<dyn Code>,
}

trait Code: Send + Sync {
    fn acts(&self, arguments: &RawJson) -> Result<Vec<Act>, ToolError>;
    fn run<'a>(&'a self, cx: &'a CallContext, arguments: &'a RawJson) -> BoxFuture<'a, ToolResult>;
}

struct Typed<T>(T);

impl<T: Tool> Typed<T> {
    fn read(arguments: &RawJson) -> Result<T::Arguments, ToolError> {
        // Providers send nothing, an empty text or null where a tool takes no parameters.
        let text = match arguments.get().trim() {
            "" | "null" | "\"\"" => "{}",
            text => text,
        };
        serde_json::from_str(text).map_err(|fault| {
            let message = format!("call {} with {text}: {fault}", T::NAME);
            ToolError::outcome(message, Outcome::InvalidArguments)
        })
    }
}

impl<T: Tool> Code for Typed<T> {
    fn acts(&self, arguments: &RawJson) -> Result<Vec<Act>, ToolError> {
        let acts = self.0.acts(&Self::read(arguments)?);
        Ok(if acts.is_empty() { vec![Act::Tool(T::NAME.into())] } else { acts })
    }

    fn run<'a>(&'a self, cx: &'a CallContext, arguments: &'a RawJson) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.0.run(cx, Self::read(arguments)?).await })
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
            replay: tool.replay(),
        };
        Self { spec: Arc::new(spec), code: Arc::new(Typed(tool)) }
    }

    /// How it is offered to a model.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// What a call with these arguments does to the world; at least one act.
    ///
    /// Errors: `invalid_arguments` when they do not fit.
    pub fn acts(&self, arguments: &RawJson) -> Result<Vec<Act>, ToolError> {
        self.code.acts(arguments)
    }

    /// Runs a call.
    pub async fn run(&self, cx: &CallContext, arguments: &RawJson) -> ToolResult {
        self.code.run(cx, arguments).await
    }
}

impl fmt::Debug for AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyTool({})", self.spec.name)
    }
}
