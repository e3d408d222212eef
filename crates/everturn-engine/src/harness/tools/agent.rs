//! `agent`: a sub-agent that does a part of the work in a conversation of its own.

use everturn_core::{policy::Act, tool::ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    AgentChange, Choice,
    tool::{Does, SessionCall, SessionTool, Spawn},
};

/// What the sub-agent is to do, and with what.
#[derive(Deserialize, JsonSchema)]
pub(super) struct AgentArguments {
    /// The task, complete: the sub-agent sees nothing else of this conversation.
    prompt: String,
    /// A name for what it is, such as `reviewer`.
    #[serde(default)]
    name: Option<String>,
    /// The only tools that it has; all that this conversation has, without a list.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Whether to go on at once. What comes of it is reported here when it has finished.
    #[serde(default)]
    background: bool,
}

pub(super) struct AgentTool;

impl SessionTool for AgentTool {
    const NAME: &'static str = "agent";
    type Arguments = AgentArguments;

    fn description(&self) -> &str {
        "Starts a sub-agent with a task of its own and gives its answer. It may do no more than this conversation may."
    }

    fn acts(&self, arguments: &AgentArguments) -> Vec<Act> {
        vec![Act::Spawn(arguments.name.clone().unwrap_or_else(|| Self::NAME.into()))]
    }

    async fn run(&self, _: &SessionCall, arguments: AgentArguments) -> Result<Does, ToolError> {
        if arguments.prompt.trim().is_empty() {
            return Err(ToolError::new("agent: the task is empty"));
        }
        let tools = arguments.tools.map(Choice::Exactly);
        let agent = AgentChange { tools, ..AgentChange::default() };
        Ok(Does::Spawn(Spawn { prompt: arguments.prompt, agent, is_background: arguments.background }))
    }
}
