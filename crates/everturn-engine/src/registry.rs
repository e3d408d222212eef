//! What is installed, and what of it a conversation works with.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use everturn_core::{
    Error, Result,
    tool::{AnyTool, ToolSpec},
};

use crate::{
    Agent, Extension,
    extension::{AnyAfterTool, AnyBeforeTool, AnySection, AnyStopGate, AnyWrap, InstalledTool},
    harness::Choice,
    task::AnyTask,
    tool::AnySessionTool,
};

/// The installed extensions, in the order of their first installation.
///
/// Promise: a value. What is installed later does not change a snapshot that someone works with.
///
/// ```
/// use everturn_engine::{Extension, Registry};
/// let registry = Registry::default().with(Extension::new("coding")).unwrap();
/// assert!(registry.tool("read").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    extensions: Vec<Arc<Extension>>,
}

impl Registry {
    /// The same registry with an extension; one of the same name is replaced in place.
    ///
    /// Errors: as [`install`](Self::install).
    pub fn with(&self, extension: Extension) -> Result<Self> {
        let mut registry = self.clone();
        registry.install(extension)?;
        Ok(registry)
    }

    /// Installs an extension; one of the same name is replaced in place.
    ///
    /// Errors: `Conflict` when two tools, two tasks or two sections would have one name; `Invalid` when a task has one of
    /// Everturn's own. Nothing is changed then.
    pub fn install(&mut self, extension: Extension) -> Result<()> {
        let mut extensions = self.extensions.clone();
        let extension = Arc::new(extension);
        match extensions.iter_mut().find(|installed| installed.name() == extension.name()) {
            Some(installed) => *installed = extension,
            None => extensions.push(extension),
        }
        check(&extensions)?;
        self.extensions = extensions;
        Ok(())
    }

    /// Takes an extension away, and says whether it was there. Conversations keep its name: it comes back to them when it
    /// is installed again.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.extensions.len();
        self.extensions.retain(|extension| extension.name() != name);
        self.extensions.len() < before
    }

    /// The installed extensions.
    pub fn extensions(&self) -> impl Iterator<Item = &Extension> {
        self.extensions.iter().map(|extension| &**extension)
    }

    /// A tool by its name, with all that stands around it.
    pub fn tool(&self, name: &str) -> Option<AnyTool> {
        let installed = self.extensions.iter().flat_map(|extension| &extension.tools);
        let tool = installed.map(|installed| &installed.tool).find(|tool| tool.spec().name == name)?;
        Some(wrapped(&self.extensions, tool))
    }

    /// The code of a kind of task.
    pub fn task(&self, kind: &str) -> Option<&AnyTask> {
        self.tasks().find(|task| task.kind() == kind)
    }

    /// All kinds of task, in the registry's order.
    pub fn tasks(&self) -> impl Iterator<Item = &AnyTask> {
        self.extensions.iter().flat_map(|extension| &extension.tasks)
    }

    /// What a conversation with this agent works with, by what the host offers by default (all, without a word).
    pub(crate) fn select(&self, agent: &Agent, default: Option<&[String]>) -> Selected {
        let is_default = |name: &str| default.is_none_or(|names| names.iter().any(|other| other == name));
        let all = self.extensions().map(Extension::name);
        let names = agent.extensions.of(all, is_default);
        let chosen = names.iter().filter_map(|name| self.extensions.iter().find(|one| one.name() == *name));
        let extensions: Vec<Arc<Extension>> = chosen.cloned().collect();
        let installed: Vec<&InstalledTool> =
            extensions.iter().flat_map(|extension| &extension.tools).collect();
        let find = |name: &str| installed.iter().find(|one| one.tool.spec().name == name);
        let all = installed.iter().map(|one| one.tool.spec().name.as_str());
        let names = agent.tools.of(all, |name| find(name).is_some_and(|one| !one.is_on_demand));
        let tools = names.iter().filter_map(|name| find(name)).map(|one| wrapped(&extensions, &one.tool));
        let tools = tools.collect();
        Selected { extensions, tools }
    }

    /// Whether a name is that of an installed extension.
    pub(crate) fn has_extension(&self, name: &str) -> bool {
        self.extensions.iter().any(|extension| extension.name() == name)
    }
}

/// What of the registry a conversation works with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selected {
    extensions: Vec<Arc<Extension>>,
    tools: Vec<AnyTool>,
}

impl Selected {
    /// The tools on offer, in order.
    pub(crate) fn tools(&self) -> &[AnyTool] {
        &self.tools
    }

    /// How they are offered.
    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        self.tools.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// The code of a tool on offer that needs the session.
    pub(crate) fn session_tool(&self, name: &str) -> Option<&AnySessionTool> {
        let installed = self.extensions.iter().flat_map(|extension| &extension.tools);
        installed.filter_map(|one| one.session.as_ref()).find(|one| one.tool.spec().name == name)
    }

    /// A tool on offer by its name.
    pub(crate) fn tool(&self, name: &str) -> Option<&AnyTool> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = &AnySection> {
        self.extensions.iter().flat_map(|extension| &extension.sections)
    }

    pub(crate) fn wraps(&self, key: &str) -> impl Iterator<Item = &AnyWrap> {
        let wraps = self.extensions.iter().flat_map(|extension| &extension.wraps);
        wraps.filter(move |wrap| wrap.key() == key)
    }

    pub(crate) fn before(&self) -> impl Iterator<Item = &AnyBeforeTool> {
        self.extensions.iter().flat_map(|extension| &extension.before)
    }

    pub(crate) fn after(&self) -> impl Iterator<Item = &AnyAfterTool> {
        self.extensions.iter().flat_map(|extension| &extension.after)
    }

    pub(crate) fn gates(&self) -> impl Iterator<Item = &AnyStopGate> {
        self.extensions.iter().flat_map(|extension| &extension.gates)
    }
}

impl Choice {
    /// The chosen names: those that it lists, or those that are on by default, less and more.
    fn of<'a>(
        &'a self,
        all: impl Iterator<Item = &'a str>,
        is_default: impl Fn(&str) -> bool,
    ) -> Vec<&'a str> {
        match self {
            Self::Exactly(names) => names.iter().map(String::as_str).collect(),
            Self::Default { added, removed } => {
                let is_in = |names: &[String], name: &str| names.iter().any(|other| other == name);
                let on = all.filter(|name| is_default(name) || is_in(added, name));
                let mut chosen: Vec<&str> = on.filter(|name| !is_in(removed, name)).collect();
                let missing = added.iter().map(String::as_str).filter(|name| !chosen.contains(name));
                let missing: Vec<&str> = missing.filter(|name| !is_in(removed, name)).collect();
                chosen.extend(missing);
                chosen
            }
        }
    }
}

/// A tool with all that stands around it.
fn wrapped(extensions: &[Arc<Extension>], tool: &AnyTool) -> AnyTool {
    let wraps = extensions.iter().flat_map(|extension| &extension.tool_wraps);
    let wraps = wraps.filter(|wrap| wrap.name == tool.spec().name);
    wraps.fold(tool.clone(), |tool, around| (around.wrap)(tool))
}

fn check(extensions: &[Arc<Extension>]) -> Result<()> {
    let tools = extensions.iter().flat_map(|extension| &extension.tools);
    check_names("tools", tools.map(|installed| installed.tool.spec().name.as_str()))?;
    let of_session = |name: &str| {
        let mut tools = extensions.iter().flat_map(|extension| &extension.tools);
        tools.any(|installed| installed.session.is_some() && installed.tool.spec().name == name)
    };
    let wraps = extensions.iter().flat_map(|extension| &extension.tool_wraps);
    if let Some(wrap) = wraps.into_iter().find(|wrap| of_session(&wrap.name)) {
        return Err(Error::conflict(format!(
            "install extensions: {} needs the session, and nothing can stand around it; use a hook",
            wrap.name
        )));
    }
    let sections = extensions.iter().flat_map(|extension| &extension.sections);
    check_names("sections", sections.map(AnySection::key))?;
    let tasks: Vec<&str> =
        extensions.iter().flat_map(|extension| &extension.tasks).map(AnyTask::kind).collect();
    if let Some(kind) = tasks.iter().find(|kind| kind.starts_with("et.") || kind.is_empty()) {
        return Err(Error::invalid(format!(
            "install task {kind:?}: names that begin with et. are Everturn's own; give it another"
        )));
    }
    check_names("tasks", tasks.into_iter())
}

/// No two of them have one name.
fn check_names<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::conflict(format!("install extensions: two of their {what} are named {name}")));
        }
    }
    Ok(())
}
