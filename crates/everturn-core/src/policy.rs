//! Policy: what a call may do, decided by pure code from the acts that the call declares.
//!
//! * A [`Rule`] allows, asks or denies acts that fit its [`Pattern`]; it has a text, such as `deny write(secrets/**)`.
//! * Rules stand in layers, in this order: code, organisation, user, project, session. The order of rules inside a layer
//!   has no meaning.
//! * A deny anywhere wins. Otherwise the last layer with a rule that fits decides; inside a layer ask beats allow.
//! * An ask of a locked layer stays an ask. The organisation's layer is locked.
//! * The project's layer only tightens until its directory is trusted.
//! * Where no rule fits, the [policy's own effect](Policy::otherwise) decides: deny, unless the host says ask.
//! * Where nobody can be asked ([`Policy::unattended`]), ask is deny.
//! * Some acts are denied whatever rules say ([`Act`]); for commands that hide what they run, allow is ask ([`Word`]).
//! * A call is judged by all its acts, a child by all its owners ([`Verdict::and`]): the strictest verdict holds.
//!
//! An allow rule is read narrowly, a deny or ask rule broadly. An ask that fits in its broad reading only, or not for
//! every value of an unknown word, turns allow into ask, and never deny into ask.

mod explain;
mod judge;
mod path;
mod pattern;
mod program;
mod rule;
mod stars;
mod subject;
mod text;
mod weigh;
mod word;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use explain::{Explanation, Matching, Standing};
pub use judge::{Judged, Policy};
pub use pattern::Pattern;
pub use rule::Rule;
pub use word::Word;

/// Something a call does to the world, declared before it runs.
///
/// Shape: paths are resolved (links followed, no `..`, case as the file system has it), with slashes; relative to the
/// session's root, or absolute where they lie outside of it. A host is as it is connected to: ASCII, no name to decode.
/// Whatever rules say, these are denied: a path that is empty, holds `..`, a control character or a direction
/// override; a write at or below a component `.git` in any case of letters; a program that is empty or is given a NUL; a
/// host or name that is none. A path outside of the root is denied unless a rule names the place.
/// Its text is that of the rule for it and nothing else: what has a meaning in patterns is escaped.
///
/// ```
/// use everturn_core::policy::Act;
/// assert_eq!(Act::Read("src/lib.rs".into()).to_string(), "read(src/lib.rs)");
/// assert_eq!(Act::Exec(vec!["ls".into(), "*.rs".into(), "a b".into()]).to_string(), r"exec(ls \*.rs a\ b)");
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
            Self::Read(path) => write!(f, "read({})", text::path(path)),
            Self::Write(path) => write!(f, "write({})", text::path(path)),
            Self::Exec(argv) => {
                let words: Vec<_> = argv.iter().map(|word| text::argument(word)).collect();
                write!(f, "exec({})", words.join(" "))
            }
            Self::Net { host, port } => write!(f, "net({}, {port})", text::name(host)),
            Self::Mcp { server, tool } => write!(f, "mcp({}, {})", text::name(server), text::name(tool)),
            Self::Spawn(agent) => write!(f, "spawn({})", text::name(agent)),
            Self::Tool(name) => write!(f, "tool({})", text::name(name)),
        }
    }
}

/// What policy says of a call, with the rule that said it. Stored with the call.
///
/// ```
/// use everturn_core::policy::{Act, Effect, Judged, Policy};
///
/// let policy = Policy::default();
/// let verdict = policy.verdict(&Judged { tool: "read", acts: &[Act::Read("src".into())], ..Judged::default() });
/// assert_eq!((verdict.effect, verdict.rule.as_str()), (Effect::Allow, "allow read(**)"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What may happen.
    pub effect: Effect,
    /// The layer of the rule; code, where no rule decided.
    pub layer: Layer,
    /// The rule that decided, with a word in brackets where its effect is not the verdict's; or, where none did, why.
    pub rule: String,
}

impl Verdict {
    /// The stricter of two verdicts, the first where they are equally strict: what a child may is what it may and all its
    /// owners may.
    ///
    /// ```
    /// use everturn_core::policy::{Effect, Layer, Verdict};
    ///
    /// let verdict = |effect| Verdict { effect, layer: Layer::User, rule: format!("{effect} spawn(*)") };
    /// assert_eq!(verdict(Effect::Allow).and(verdict(Effect::Ask)), verdict(Effect::Ask));
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if other.effect > self.effect { other } else { self }
    }
}

/// What a rule or a verdict does; the stricter, the greater.
///
/// ```
/// use everturn_core::policy::Effect;
/// assert!(Effect::Allow < Effect::Ask && Effect::Ask < Effect::Deny);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// The call runs.
    Allow,
    /// A person is asked whether the call runs.
    Ask,
    /// The call is refused.
    Deny,
}

impl Effect {
    /// The word that rules begin with.
    fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Where a rule stands; the later, the greater.
///
/// ```
/// use everturn_core::policy::Layer;
/// assert!(Layer::User < Layer::Project);
/// assert_eq!(serde_json::to_string(&Layer::Code).unwrap(), r#""code""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// The host's code.
    Code,
    /// Who runs the machines. Locked.
    Organisation,
    /// Who works with the session.
    User,
    /// The directory that is worked on. It only tightens until the user has trusted it.
    Project,
    /// What was allowed for this session.
    Session,
}

impl Layer {
    /// All layers, in their order.
    pub const ALL: [Self; 5] = [Self::Code, Self::Organisation, Self::User, Self::Project, Self::Session];
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Code => "code",
            Self::Organisation => "organisation",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
        })
    }
}
