//! What is installed under one name: tools, sections of the prompt, hooks, wraps and tasks.

mod hook;
mod section;

use std::sync::Arc;

use everturn_core::tool::{AnyTool, Tool};

use crate::{
    task::{AnyTask, Task},
    tool::{AnySessionTool, SessionTool},
};
pub use hook::{AfterTool, BeforeTool, CallView, Gated, Hooked, StopGate, TurnAnswer};
pub(crate) use hook::{AnyAfterTool, AnyBeforeTool, AnyStopGate, erased};
pub(crate) use section::{AnySection, AnyWrap};
pub use section::{PromptSection, SectionContext, SectionWrap};

/// A named bundle of tools, sections of the prompt, hooks, wraps and tasks.
///
/// ```
/// use everturn_engine::Extension;
/// let coding = Extension::new("coding").text("style", "Write short functions.");
/// assert_eq!(coding.name(), "coding");
/// ```
#[derive(Clone, Debug)]
pub struct Extension {
    name: String,
    pub(crate) tools: Vec<InstalledTool>,
    pub(crate) tool_wraps: Vec<ToolWrap>,
    pub(crate) tasks: Vec<AnyTask>,
    pub(crate) sections: Vec<AnySection>,
    pub(crate) wraps: Vec<AnyWrap>,
    pub(crate) before: Vec<AnyBeforeTool>,
    pub(crate) after: Vec<AnyAfterTool>,
    pub(crate) gates: Vec<AnyStopGate>,
}

/// A tool, and whether a conversation has it without asking for it.
#[derive(Clone, Debug)]
pub(crate) struct InstalledTool {
    pub(crate) tool: AnyTool,
    /// Its code, where it needs the session.
    pub(crate) session: Option<AnySessionTool>,
    pub(crate) is_on_demand: bool,
}

/// What stands around a tool of this name, whichever extension has it.
#[derive(Clone)]
pub(crate) struct ToolWrap {
    pub(crate) name: String,
    pub(crate) wrap: Arc<dyn Fn(AnyTool) -> AnyTool + Send + Sync>,
}

impl std::fmt::Debug for ToolWrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ToolWrap({})", self.name)
    }
}

impl Extension {
    /// An extension without anything in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tools: Vec::new(),
            tool_wraps: Vec::new(),
            tasks: Vec::new(),
            sections: Vec::new(),
            wraps: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            gates: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same extension with one more tool.
    #[must_use]
    pub fn tool(self, tool: impl Tool) -> Self {
        self.tools([AnyTool::new(tool)])
    }

    /// The same extension with more tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = AnyTool>) -> Self {
        let installed = |tool| InstalledTool { tool, session: None, is_on_demand: false };
        self.tools.extend(tools.into_iter().map(installed));
        self
    }

    /// The same extension with one more tool that needs the session.
    #[must_use]
    pub fn session_tool(mut self, tool: impl SessionTool) -> Self {
        let code = AnySessionTool::new(tool);
        let (tool, session) = (code.tool.clone(), Some(code));
        self.tools.push(InstalledTool { tool, session, is_on_demand: false });
        self
    }

    /// The same extension with a tool that a conversation has only when it asks for it: by its agent, or by the result of
    /// another tool.
    #[must_use]
    pub fn tool_on_demand(mut self, tool: impl Tool) -> Self {
        self.tools.push(InstalledTool { tool: AnyTool::new(tool), session: None, is_on_demand: true });
        self
    }

    /// The same extension with something around a tool, whichever extension has it. Where there is no tool of the name, it
    /// does nothing.
    #[must_use]
    pub fn wrap_tool(
        mut self,
        name: impl Into<String>,
        wrap: impl Fn(AnyTool) -> AnyTool + Send + Sync + 'static,
    ) -> Self {
        self.tool_wraps.push(ToolWrap { name: name.into(), wrap: Arc::new(wrap) });
        self
    }

    /// The same extension with one more kind of task.
    #[must_use]
    pub fn task(mut self, task: impl Task) -> Self {
        self.tasks.push(AnyTask::new(task));
        self
    }

    /// The same extension with one more section of the prompt.
    #[must_use]
    pub fn section(mut self, section: impl PromptSection) -> Self {
        self.sections.push(AnySection::new(section));
        self
    }

    /// The same extension with a section of the prompt that always says the same.
    #[must_use]
    pub fn text(self, key: impl Into<String>, text: impl Into<String>) -> Self {
        self.section(section::Text { key: key.into(), text: text.into() })
    }

    /// The same extension with something around a section, whichever extension has it.
    #[must_use]
    pub fn wrap(mut self, wrap: impl SectionWrap) -> Self {
        self.wraps.push(AnyWrap::new(wrap));
        self
    }

    /// The same extension with a hook that sees each call before it is judged.
    #[must_use]
    pub fn before_tool(mut self, hook: impl BeforeTool) -> Self {
        self.before.push(AnyBeforeTool::new(hook));
        self
    }

    /// The same extension with a hook that sees each result before it is stored.
    #[must_use]
    pub fn after_tool(mut self, hook: impl AfterTool) -> Self {
        self.after.push(AnyAfterTool::new(hook));
        self
    }

    /// The same extension with a gate that each answer has to pass.
    #[must_use]
    pub fn stop_gate(mut self, gate: impl StopGate) -> Self {
        self.gates.push(AnyStopGate::new(gate));
        self
    }
}
