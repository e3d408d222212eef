//! Tools that need the session: they see its documents, ask its people, and start others.

use std::{fmt, ops::Deref, sync::Arc};

use everturn_core::{
    BoxFuture, Result,
    document::Document,
    json::RawJson,
    message::Outcome,
    policy::Act,
    tool::{AnyTool, CallContext, Contract, Tool, ToolError, ToolOutput, ToolResult},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{AgentChange, Transaction, task::TaskContext};

/// A tool that needs the session.
///
/// Promise: what it leads to is committed with the call: what it writes, a question that it asks, a sub-agent that it starts.
///
/// ```
/// use everturn_core::tool::ToolError;
/// use everturn_engine::tool::{Does, SessionCall, SessionTool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Question { text: String }
///
/// struct AskBoss;
/// impl SessionTool for AskBoss {
///     const NAME: &'static str = "ask_boss";
///     type Arguments = Question;
///     fn description(&self) -> &str { "Asks the boss." }
///     async fn run(&self, _: &SessionCall, question: Question) -> Result<Does, ToolError> {
///         Ok(Does::Ask { text: question.text, choices: vec!["yes".into(), "no".into()] })
///     }
/// }
/// ```
pub trait SessionTool: Send + Sync + 'static {
    /// The name by which a model calls it.
    const NAME: &'static str;

    /// What it is called with; its JSON schema is sent to the model.
    type Arguments: DeserializeOwned + JsonSchema + Send;

    /// What it does, in words for the model.
    fn description(&self) -> &str;

    /// What it promises about its runs. What it leads to is committed with the call, so that running it again does no harm
    /// unless it does something else beside.
    fn contract(&self) -> Contract {
        Contract::safe()
    }

    /// What a call with these arguments does to the world. Empty: judged by the tool's name alone.
    fn acts(&self, arguments: &Self::Arguments) -> Vec<Act> {
        let _ = arguments;
        Vec::new()
    }

    /// Does the work, or says what is to be done.
    fn run(
        &self,
        cx: &SessionCall,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Does, ToolError>> + Send;
}

/// What a session's tool leads to.
///
/// ```
/// use everturn_engine::tool::Does;
/// let done = Does::from("3 of 4 are done");
/// ```
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "what a call does is said once and taken once")]
pub enum Does {
    /// The call has its result.
    Done(ToolOutput),
    /// The call has its result, and these writes are stored in the commit that stores it.
    Stored(ToolOutput, Writes),
    /// A person is asked; the answer is the result.
    Ask {
        /// The question.
        text: String,
        /// Answers to choose from; another may be given.
        choices: Vec<String>,
    },
    /// A sub-agent does it.
    Spawn(Spawn),
}

/// What a call writes beside its result: staged when all that is done to the result is done, so that nobody else's code runs
/// while the session's line is held.
///
/// ```
/// use everturn_core::entry::Entry;
/// use everturn_core::id::ConversationId;
/// use everturn_engine::tool::{Does, Writes};
///
/// let noted = Writes::new(|mut tx| async move {
///     tx.append(ConversationId::ROOT, Entry::new("app.note"))?;
///     Ok(tx)
/// });
/// let done = Does::Stored("noted".into(), noted);
/// ```
pub struct Writes(Stage);

type Stage = Box<dyn FnOnce(Transaction) -> BoxFuture<'static, Result<Transaction>> + Send>;

impl Writes {
    /// What `stage` puts into the transaction that it is given. An error of it is the call's.
    pub fn new<F>(stage: impl FnOnce(Transaction) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Transaction>> + Send + 'static,
    {
        Self(Box::new(|tx| Box::pin(stage(tx))))
    }

    /// Stages them.
    pub(crate) async fn stage(self, tx: Transaction) -> Result<Transaction> {
        (self.0)(tx).await
    }
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writes")
    }
}

impl<T: Into<ToolOutput>> From<T> for Does {
    fn from(output: T) -> Self {
        Self::Done(output.into())
    }
}

/// A sub-agent that is to be started.
///
/// ```
/// use everturn_engine::tool::Spawn;
/// let spawn = Spawn { is_background: true, ..Spawn::new("Count the files.") };
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spawn {
    /// What it is asked.
    pub prompt: String,
    /// What is different of its agent from that of who starts it.
    pub agent: AgentChange,
    /// Whether the call ends at once, and what comes of the sub-agent is reported later.
    pub is_background: bool,
}

impl Spawn {
    /// One like who starts it, whose answer is the call's result.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), agent: AgentChange::default(), is_background: false }
    }
}

/// What a running call of a session's tool may use: all that other calls may, and the session.
///
/// ```
/// use everturn_engine::tool::SessionCall;
/// async fn commits(cx: &SessionCall) -> everturn_core::Result<()> {
///     drop(cx.begin().await?);
///     Ok(())
/// }
/// ```
pub struct SessionCall {
    pub(crate) call: CallContext,
    pub(crate) task: TaskContext,
}

impl Deref for SessionCall {
    type Target = CallContext;

    fn deref(&self) -> &CallContext {
        &self.call
    }
}

impl SessionCall {
    /// Begins a transaction of the session, for a commit before the call's own: what is to be stored with the result is
    /// [`Writes`].
    ///
    /// Errors: `Nested` while one of this call is open; `Closed` when the call is over.
    pub async fn begin(&self) -> Result<Transaction> {
        self.task.begin().await
    }

    /// A document's committed value; none where there is no such document.
    pub async fn snapshot<T: Document>(&self, scope: T::Scope) -> Result<Option<T>> {
        self.task.snapshot(scope).await
    }
}

impl fmt::Debug for SessionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionCall").field(&self.call).finish()
    }
}

/// A session's tool with its types erased.
#[derive(Clone)]
pub(crate) struct AnySessionTool {
    /// How it is offered and judged.
    pub(crate) tool: AnyTool,
    code: Arc<dyn Code>,
}

trait Code: Send + Sync {
    fn run<'a>(
        &'a self,
        cx: &'a SessionCall,
        arguments: &'a RawJson,
    ) -> BoxFuture<'a, Result<Does, ToolError>>;
}

impl<T: SessionTool> Code for T {
    fn run<'a>(
        &'a self,
        cx: &'a SessionCall,
        arguments: &'a RawJson,
    ) -> BoxFuture<'a, Result<Does, ToolError>> {
        Box::pin(async move {
            let arguments = everturn_core::tool::arguments::<T::Arguments>(T::NAME, arguments)?;
            SessionTool::run(self, cx, arguments).await
        })
    }
}

impl AnySessionTool {
    pub(crate) fn new<T: SessionTool>(tool: T) -> Self {
        let tool = Arc::new(tool);
        Self { tool: AnyTool::new(Offer(tool.clone())), code: tool }
    }

    /// Runs a call.
    pub(crate) async fn run(&self, cx: &SessionCall, arguments: &RawJson) -> Result<Does, ToolError> {
        self.code.run(cx, arguments).await
    }
}

impl fmt::Debug for AnySessionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnySessionTool({})", self.tool.spec().name)
    }
}

/// How a session's tool is offered and judged: as any other.
struct Offer<T>(Arc<T>);

impl<T: SessionTool> Tool for Offer<T> {
    const NAME: &'static str = T::NAME;
    type Arguments = T::Arguments;

    fn description(&self) -> &str {
        self.0.description()
    }

    fn contract(&self) -> Contract {
        self.0.contract()
    }

    fn acts(&self, arguments: &T::Arguments) -> Vec<Act> {
        self.0.acts(arguments)
    }

    async fn run(&self, _: &CallContext, _: T::Arguments) -> ToolResult {
        Err(ToolError::outcome(format!("{} works in a session only", T::NAME), Outcome::Unavailable))
    }
}
