//! Policy: what a call may do, decided by pure code from the acts that the call declares.
//!
//! Where no rule matches, the verdict is deny. The code layer holds `allow read(**)` below the root, and
//! `allow tool(name)` for each installed tool that declares no acts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something a call does to the world, declared before it runs.
///
/// ```
/// use everturn_core::policy::Act;
/// assert_eq!(Act::Read("src/lib.rs".into()).to_string(), "read(src/lib.rs)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Act {
    /// Reads the file or directory, relative to the session's root.
    Read(String),
    /// Writes, creates or removes the file, relative to the session's root.
    Write(String),
    /// Runs a program with these arguments, the program first, without a shell.
    Exec(Vec<String>),
    /// Speaks to a host.
    Net {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// Starts a sub-agent.
    Spawn(String),
    /// Does what only a tool of this name may.
    Tool(String),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "read({path})"),
            Self::Write(path) => write!(f, "write({path})"),
            Self::Exec(argv) => write!(f, "exec({})", argv.join(" ")),
            Self::Net { host, port } => write!(f, "net({host}, {port})"),
            Self::Mcp { server, tool } => write!(f, "mcp({server}, {tool})"),
            Self::Spawn(agent) => write!(f, "spawn({agent})"),
            Self::Tool(name) => write!(f, "tool({name})"),
        }
    }
}

/// What policy says of a call, with the rule that said it. Stored with the call.
///
/// ```
/// use everturn_core::policy::{Act, Effect, Policy};
///
/// let policy = Policy::default();
/// let verdict = policy.verdict("read", &[Act::Read("src".into())]);
/// assert_eq!((verdict.effect, verdict.rule.as_str()), (Effect::Allow, "allow read(**)"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What may happen.
    pub effect: Effect,
    /// The layer of the rule.
    pub layer: Layer,
    /// The rule that decided.
    pub rule: String,
}

/// What a verdict does.
///
/// ```
/// use everturn_core::policy::Effect;
/// assert_ne!(Effect::Allow, Effect::Deny);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// The call runs.
    Allow,
    /// The call is refused.
    Deny,
}

/// Where a rule stands.
///
/// ```
/// use everturn_core::policy::Layer;
/// assert_eq!(serde_json::to_string(&Layer::Code).unwrap(), r#""code""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// The host's code.
    Code,
}

/// The rules that calls are judged by.
///
/// ```
/// use everturn_core::policy::{Act, Effect, Policy};
///
/// let policy = Policy::default();
/// assert_eq!(policy.verdict("count", &[]).rule, "allow tool(count)", "an installed tool that declares no acts");
/// assert_eq!(policy.verdict("other", &[Act::Tool("count".into())]).effect, Effect::Deny);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Policy;

impl Policy {
    /// Judges a call of an installed tool by all its acts: the first that is not allowed decides. A tool that declares
    /// none is judged by its name.
    pub fn verdict(&self, tool: &str, acts: &[Act]) -> Verdict {
        let mut verdicts = acts.iter().map(judge);
        let first = verdicts.next().unwrap_or_else(|| allow(format!("allow tool({tool})")));
        std::iter::once(first.clone())
            .chain(verdicts)
            .find(|verdict| verdict.effect != Effect::Allow)
            .unwrap_or(first)
    }
}

fn judge(act: &Act) -> Verdict {
    match act {
        Act::Read(_) => allow("allow read(**)".into()),
        _ => Verdict { effect: Effect::Deny, layer: Layer::Code, rule: format!("no rule allows {act}") },
    }
}

fn allow(rule: String) -> Verdict {
    Verdict { effect: Effect::Allow, layer: Layer::Code, rule }
}
