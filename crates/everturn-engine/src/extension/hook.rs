//! Hooks: what sees a call before it is judged, a result before it is stored, an answer before it ends a turn.

use std::{fmt, sync::Arc};

use everturn_core::{
    BoxFuture,
    id::{ConversationId, TaskId},
    json::RawJson,
    message::{CallId, Outcome},
};

/// A call, as a hook sees it.
///
/// ```
/// use everturn_engine::extension::CallView;
/// fn is_shell(call: &CallView) -> bool {
///     call.tool == "exec"
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CallView {
    /// The conversation it belongs to.
    pub conversation: ConversationId,
    /// The call.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// The arguments, as hooks before this one have left them.
    pub arguments: RawJson,
}

/// What a hook makes of a call.
///
/// ```
/// use everturn_engine::extension::Hooked;
/// assert_eq!(Hooked::default(), Hooked::Pass);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Hooked {
    /// It goes on as it is.
    #[default]
    Pass,
    /// It goes on with other arguments, which are validated and judged as the model's own.
    Rewrite(RawJson),
    /// It does not run: the model is told why.
    Block(String),
}

/// Sees each call before it is judged.
///
/// Promise: before the call's intent is committed, so that it may see a call again after a crash.
///
/// ```
/// use everturn_engine::extension::{BeforeTool, CallView, Hooked};
///
/// struct NoForce;
/// impl BeforeTool for NoForce {
///     async fn before(&self, call: &CallView) -> Hooked {
///         match call.arguments.get().contains("--force") {
///             true => Hooked::Block("never with --force".into()),
///             false => Hooked::Pass,
///         }
///     }
/// }
/// ```
pub trait BeforeTool: Send + Sync + 'static {
    /// Looks at a call.
    fn before(&self, call: &CallView) -> impl Future<Output = Hooked> + Send;
}

/// Sees each result before it is stored.
///
/// ```
/// use everturn_core::message::Outcome;
/// use everturn_engine::extension::{AfterTool, CallView};
///
/// struct Signed;
/// impl AfterTool for Signed {
///     async fn after(&self, _: &CallView, _: &Outcome, text: String) -> String {
///         format!("{text}\n(checked)")
///     }
/// }
/// ```
pub trait AfterTool: Send + Sync + 'static {
    /// What the model is told, given what the tool gave.
    fn after(&self, call: &CallView, outcome: &Outcome, text: String) -> impl Future<Output = String> + Send;
}

/// An answer, as a gate sees it.
///
/// ```
/// use everturn_engine::extension::TurnAnswer;
/// fn is_short(answer: &TurnAnswer) -> bool {
///     answer.text.len() < 80
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TurnAnswer {
    /// The conversation.
    pub conversation: ConversationId,
    /// The turn.
    pub turn: TaskId,
    /// How often this turn was sent on before.
    pub refusals: u32,
    /// What the model answered.
    pub text: String,
}

/// What a gate makes of an answer.
///
/// ```
/// use everturn_engine::extension::Gated;
/// assert_ne!(Gated::Pass, Gated::Refuse("run the tests first".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gated {
    /// The turn ends with it.
    #[default]
    Pass,
    /// The turn goes on with this message to the model.
    Refuse(String),
}

/// Sees each answer before it ends a turn, and may send the turn on.
///
/// ```
/// use everturn_engine::extension::{Gated, StopGate, TurnAnswer};
///
/// struct Polite;
/// impl StopGate for Polite {
///     async fn check(&self, answer: &TurnAnswer) -> Gated {
///         match answer.text.contains("please") {
///             true => Gated::Pass,
///             false => Gated::Refuse("Say please.".into()),
///         }
///     }
/// }
/// ```
pub trait StopGate: Send + Sync + 'static {
    /// Looks at an answer.
    fn check(&self, answer: &TurnAnswer) -> impl Future<Output = Gated> + Send;
}

/// Declares a hook, or another object of the host, with its type erased.
macro_rules! erased {
    ($(#[$doc:meta])* $any:ident, $erased:ident, $hook:ident, $method:ident($($arg:ident: $ty:ty),*) -> $out:ty) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $any(Arc<dyn $erased>);

        trait $erased: Send + Sync {
            fn $method<'a>(&'a self, $($arg: $ty),*) -> BoxFuture<'a, $out>;
        }

        impl<T: $hook> $erased for T {
            fn $method<'a>(&'a self, $($arg: $ty),*) -> BoxFuture<'a, $out> {
                Box::pin($hook::$method(self, $($arg),*))
            }
        }

        impl $any {
            pub(crate) fn new(hook: impl $hook) -> Self {
                Self(Arc::new(hook))
            }

            pub(crate) fn $method<'a>(&'a self, $($arg: $ty),*) -> BoxFuture<'a, $out> {
                self.0.$method($($arg),*)
            }
        }

        impl fmt::Debug for $any {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($any))
            }
        }
    };
}
pub(crate) use erased;

erased! {
    /// A hook before calls.
    AnyBeforeTool, ErasedBefore, BeforeTool, before(call: &'a CallView) -> Hooked
}
erased! {
    /// A hook behind calls.
    AnyAfterTool, ErasedAfter, AfterTool, after(call: &'a CallView, outcome: &'a Outcome, text: String) -> String
}
erased! {
    /// A gate before the end.
    AnyStopGate, ErasedGate, StopGate, check(answer: &'a TurnAnswer) -> Gated
}
