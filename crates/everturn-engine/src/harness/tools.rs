//! The tools that need the session: the extension `session`.

mod agent;
mod ask;
mod todo;

use crate::Extension;
pub use todo::{Todo, TodoItem, TodoStatus};

/// The extension `session`: `todo` (a list that stays with the conversation), `ask` (a question to the person), `agent` (a
/// sub-agent, if policy allows to start one: `allow spawn(*)`).
///
/// ```
/// use everturn_engine::{Registry, session_tools};
/// let registry = Registry::default().with(session_tools()).unwrap();
/// assert!(registry.tool("todo").is_some());
/// ```
pub fn session_tools() -> Extension {
    Extension::new("session")
        .session_tool(todo::TodoTool)
        .session_tool(ask::AskTool)
        .session_tool(agent::AgentTool)
}
