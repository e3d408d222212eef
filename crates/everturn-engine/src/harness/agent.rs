//! What a conversation runs with, as a document.

use everturn_core::{
    Result,
    document::{Document, ScopeKey},
    id::{ConversationId, DocumentId},
    json::RawJson,
    model::{ModelRef, Thinking},
    storage::{DocumentRecord, DocumentWrite, Revision, Write},
};
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentChange {
    /// Another model.
    pub model: Option<ModelRef>,
    /// Another level of thinking.
    pub thinking: Option<Thinking>,
}

impl AgentChange {
    pub(super) fn apply(self, agent: &mut Agent) {
        agent.model = self.model.or(agent.model.take());
        agent.thinking = self.thinking.unwrap_or(agent.thinking);
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
