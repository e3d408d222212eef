//! What is installed: extensions with their tools and tasks.

use std::sync::Arc;

use everturn_core::{
    Error, Result,
    tool::{AnyTool, Tool, ToolSpec},
};

use crate::task::{AnyTask, Task};

/// A named bundle of tools and tasks.
///
/// ```
/// use everturn_engine::Extension;
/// let coding = Extension::new("coding");
/// assert_eq!(coding.name(), "coding");
/// ```
#[derive(Clone, Debug)]
pub struct Extension {
    name: String,
    tools: Vec<AnyTool>,
    tasks: Vec<AnyTask>,
}

impl Extension {
    /// An extension without anything in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tools: Vec::new(), tasks: Vec::new() }
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
        self.tools.extend(tools);
        self
    }

    /// The same extension with one more kind of task.
    #[must_use]
    pub fn task(mut self, task: impl Task) -> Self {
        self.tasks.push(AnyTask::new(task));
        self
    }
}

/// The installed extensions, in the order of their first installation.
///
/// ```
/// use everturn_engine::{Extension, Registry};
/// let registry = Registry::default().with(Extension::new("coding")).unwrap();
/// assert!(registry.tool("read").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    extensions: Vec<Extension>,
    specs: Arc<[ToolSpec]>,
}

impl Registry {
    /// The same registry with an extension; one of the same name is replaced in place.
    ///
    /// Errors: `Conflict` when two tools, or two tasks, would have one name; `Invalid` when a task has one of Everturn's own.
    pub fn with(&self, extension: Extension) -> Result<Self> {
        let mut extensions = self.extensions.clone();
        match extensions.iter_mut().find(|installed| installed.name == extension.name) {
            Some(installed) => *installed = extension,
            None => extensions.push(extension),
        }
        check_kinds(&extensions)?;
        let specs: Arc<[ToolSpec]> = tools(&extensions).map(|tool| tool.spec().clone()).collect();
        for (at, spec) in specs.iter().enumerate() {
            if specs[..at].iter().any(|other| other.name == spec.name) {
                let message = format!("install extensions: two of their tools are named {}", spec.name);
                return Err(Error::conflict(message));
            }
        }
        Ok(Self { extensions, specs })
    }

    /// The tools on offer, in the registry's order.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// A tool by its name.
    pub fn tool(&self, name: &str) -> Option<&AnyTool> {
        tools(&self.extensions).find(|tool| tool.spec().name == name)
    }

    /// The code of a kind of task.
    pub fn task(&self, kind: &str) -> Option<&AnyTask> {
        self.tasks().find(|task| task.kind() == kind)
    }

    /// All kinds of task, in the registry's order.
    pub fn tasks(&self) -> impl Iterator<Item = &AnyTask> {
        tasks(&self.extensions)
    }
}

fn tasks(extensions: &[Extension]) -> impl Iterator<Item = &AnyTask> {
    extensions.iter().flat_map(|extension| &extension.tasks)
}

fn check_kinds(extensions: &[Extension]) -> Result<()> {
    for (at, task) in tasks(extensions).enumerate() {
        let kind = task.kind();
        if kind.starts_with("et.") || kind.is_empty() {
            return Err(Error::invalid(format!(
                "install task {kind:?}: names that begin with et. are Everturn's own; give it another"
            )));
        }
        if tasks(extensions).take(at).any(|other| other.kind() == kind) {
            return Err(Error::conflict(format!("install extensions: two of their tasks are named {kind}")));
        }
    }
    Ok(())
}

fn tools(extensions: &[Extension]) -> impl Iterator<Item = &AnyTool> {
    extensions.iter().flat_map(|extension| &extension.tools)
}
