//! What a conversation runs with, as a document.

use everturn_core::{
    Error, Result,
    budget::Budget,
    document::{Document, ScopeKey},
    id::{ConversationId, DocumentId},
    json::RawJson,
    model::{ModelRef, Thinking},
    storage::{DocumentRecord, DocumentWrite, Revision, Write},
};
use serde::{Deserialize, Serialize};

use super::{Shared, input::TurnOptions};
use crate::session::Stage;

/// What a conversation runs with. Rewindable; a fork starts with it as of the fork's entry.
///
/// ```
/// use everturn_engine::Agent;
/// let agent = Agent { model: Some("demo".parse().unwrap()), ..Agent::default() };
/// assert!(agent.directory.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(
    kind = "et.agent",
    version = 1,
    scope = "conversation",
    history = "rewindable",
    fork = "as_of",
    crate = "everturn_core"
)]
pub struct Agent {
    /// The model; a turn without one ends `no_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// How much the model should think.
    #[serde(default)]
    pub thinking: Thinking,
    /// The directory that calls work in: the root of what they can reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Which extensions it has. A name that is not installed is skipped until it is.
    #[serde(default, skip_serializing_if = "Choice::is_default")]
    pub extensions: Choice,
    /// Which of their tools it has. A name that is not installed is skipped until it is.
    #[serde(default, skip_serializing_if = "Choice::is_default")]
    pub tools: Choice,
    /// What it is told beside what its extensions say: the section `instructions` of its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What its calls are judged by: the name of a policy of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// How much it and its sub-agents may spend, all its turns together.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
}

/// Which of the names on offer are chosen.
///
/// ```
/// use everturn_engine::Choice;
/// let reading = Choice::Exactly(vec!["read".into(), "grep".into()]);
/// let all_but_exec = Choice::without(["exec"]);
/// assert_ne!(reading, all_but_exec);
/// assert!(Choice::default().is_default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// These and no others, in this order.
    Exactly(Vec<String>),
    /// What is on by default, and these, but for those.
    Default {
        /// What comes on top.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
        /// What is left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<String>,
    },
}

impl Default for Choice {
    fn default() -> Self {
        Self::Default { added: Vec::new(), removed: Vec::new() }
    }
}

impl Choice {
    /// What is on by default, but for these.
    pub fn without<S: Into<String>>(removed: impl IntoIterator<Item = S>) -> Self {
        Self::Default { added: Vec::new(), removed: removed.into_iter().map(Into::into).collect() }
    }

    /// What is on by default, and these.
    pub fn with<S: Into<String>>(added: impl IntoIterator<Item = S>) -> Self {
        Self::Default { added: added.into_iter().map(Into::into).collect(), removed: Vec::new() }
    }

    /// Whether it is what is on by default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The names that it adds.
    fn added(&self) -> &[String] {
        match self {
            Self::Exactly(names) => names,
            Self::Default { added, .. } => added,
        }
    }

    /// Whether a result may add a name: not one that was taken away, and in a sub-agent's list only whoever wrote it may.
    pub(super) fn takes(&self, name: &str, is_child: bool) -> bool {
        match self {
            Self::Exactly(_) => !is_child,
            Self::Default { removed, .. } => !removed.iter().any(|other| other == name),
        }
    }

    /// The same choice with one more name.
    pub(super) fn add(&mut self, name: &str) {
        let (Self::Exactly(names) | Self::Default { added: names, .. }) = self;
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
        if let Self::Default { removed, .. } = self {
            removed.retain(|other| other != name);
        }
    }
}

impl Agent {
    /// Writes the root's agent into a session's first commit.
    pub(super) fn stage(&self, stage: &mut Stage) -> Result<()> {
        stage.minted += 1;
        let record = DocumentRecord {
            id: DocumentId(stage.minted),
            scope: ScopeKey::Conversation(ConversationId::ROOT),
            kind: Self::KIND.into(),
            history: Self::HISTORY,
            fork: Self::FORK,
        };
        let revision = Revision::Base { version: Self::VERSION, value: RawJson::of(self)? };
        stage.writes.push(Write::Document(DocumentWrite { record, number: 1, revision }));
        Ok(())
    }
}

/// A change of an agent. What is absent stays as it is.
///
/// ```
/// use everturn_core::model::Thinking;
/// use everturn_engine::AgentChange;
/// let change = AgentChange { thinking: Some(Thinking::High), ..AgentChange::default() };
/// assert!(change.model.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentChange {
    /// Another model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Another level of thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Other extensions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Choice>,
    /// Other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Choice>,
    /// Other instructions; an empty text takes them away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Another directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Another policy, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Another budget, all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

impl AgentChange {
    /// Whether it changes nothing.
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Makes an agent what it says.
    pub(super) fn apply(self, agent: &mut Agent) {
        let Self { model, thinking, extensions, tools, instructions, directory, policy, budget } = self;
        agent.model = model.or(agent.model.take());
        agent.thinking = thinking.unwrap_or(agent.thinking);
        agent.extensions = extensions.unwrap_or_else(|| std::mem::take(&mut agent.extensions));
        agent.tools = tools.unwrap_or_else(|| std::mem::take(&mut agent.tools));
        agent.instructions = instructions.or(agent.instructions.take()).filter(|text| !text.is_empty());
        agent.directory = directory.or(agent.directory.take());
        agent.policy = policy.or(agent.policy.take());
        agent.budget = budget.unwrap_or(agent.budget);
    }
}

impl Shared {
    /// Proves that an agent can become another. Names that it had before are not asked about again.
    ///
    /// Errors: `NotFound` for a model that nobody answers for, and for an extension or a tool that is not installed; what
    /// says that the directory cannot be used.
    pub(super) fn check_agent(&self, before: &Agent, after: &Agent) -> Result<()> {
        if after.model != before.model {
            self.check_model(after.model.as_ref())?;
        }
        if after.directory != before.directory {
            (self.env)(after)?;
        }
        let registry = self.host.registry();
        check_names("extension", &before.extensions, &after.extensions, |name| registry.has_extension(name))?;
        check_names("tool", &before.tools, &after.tools, |name| registry.tool(name).is_some())
    }
}

impl Shared {
    /// Proves that a turn can go by its options.
    ///
    /// Errors: as [`check_agent`](Self::check_agent).
    pub(super) fn check_options(&self, options: &TurnOptions) -> Result<()> {
        let mut agent = Agent::default();
        options.agent.clone().apply(&mut agent);
        self.check_agent(&Agent::default(), &agent)
    }
}

fn check_names(what: &str, before: &Choice, after: &Choice, is_known: impl Fn(&str) -> bool) -> Result<()> {
    let mut new = after.added().iter().filter(|name| !before.added().contains(name));
    match new.find(|name| !is_known(name)) {
        Some(unknown) => Err(Error::not_found(format!(
            "configure a conversation: no {what} named {unknown} is installed; nothing was changed"
        ))),
        None => Ok(()),
    }
}

/// The conversation that chats use, moved by `branch_from`.
///
/// ```
/// use everturn_engine::Current;
/// assert_eq!(Current::default().conversation.0, 1, "the root, until someone branches");
/// ```
#[derive(Clone, Debug, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.current", version = 1, scope = "session", crate = "everturn_core")]
pub struct Current {
    /// The conversation.
    pub conversation: ConversationId,
}

impl Default for Current {
    fn default() -> Self {
        Self { conversation: ConversationId::ROOT }
    }
}

/// Why an agent without a model cannot run a turn.
pub(super) const NO_MODEL: &str =
    "run a turn: the conversation has no model; configure one, as provider/model";
