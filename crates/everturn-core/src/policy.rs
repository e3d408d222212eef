//! Policy: what a call may do, decided by pure code from the acts that the call declares.
//!
//! Where no rule matches, the verdict is deny. Without any policy of the host the code layer holds
//! `allow read(**)` below the root and `allow tool(name)` for each installed tool that declares no acts.

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
    /// Runs a tool that declares no other act.
    Tool(String),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "read({path})"),
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
/// let verdict = policy.verdict(&[Act::Read("src".into())]);
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
/// let policy = Policy::default().allow_tool("count");
/// assert_eq!(policy.verdict(&[Act::Tool("count".into())]).effect, Effect::Allow);
/// assert_eq!(policy.verdict(&[Act::Tool("other".into())]).effect, Effect::Deny);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    tools: Vec<String>,
}

impl Policy {
    /// The same policy, with a rule that allows a tool which declares no acts.
    #[must_use]
    pub fn allow_tool(mut self, name: impl Into<String>) -> Self {
        self.tools.push(name.into());
        self
    }

    /// Judges a call by all its acts: the first that is not allowed decides.
    pub fn verdict(&self, acts: &[Act]) -> Verdict {
        let verdicts = acts.iter().map(|act| self.judge(act));
        let mut allowed = None;
        for verdict in verdicts {
            if verdict.effect != Effect::Allow {
                return verdict;
            }
            allowed.get_or_insert(verdict);
        }
        allowed.unwrap_or_else(|| deny("no act declared"))
    }

    fn judge(&self, act: &Act) -> Verdict {
        match act {
            Act::Read(_) => allow("allow read(**)".into()),
            Act::Tool(name) if self.tools.contains(name) => allow(format!("allow tool({name})")),
            Act::Tool(_) => deny(&format!("no rule allows {act}")),
        }
    }
}

fn allow(rule: String) -> Verdict {
    Verdict { effect: Effect::Allow, layer: Layer::Code, rule }
}

fn deny(rule: &str) -> Verdict {
    Verdict { effect: Effect::Deny, layer: Layer::Code, rule: rule.into() }
}
