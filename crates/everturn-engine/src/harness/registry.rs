//! What is installed: extensions with their tools, and models by provider.

use std::{collections::BTreeMap, fmt, sync::Arc};

use everturn_core::{
    Error, Result,
    model::{Model, ModelRef},
    tool::{AnyTool, Tool, ToolSpec},
};

/// A named bundle of tools.
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
}

impl Extension {
    /// An extension without anything in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tools: Vec::new() }
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
    /// Errors: `Conflict` when two tools would have one name.
    pub fn with(&self, extension: Extension) -> Result<Self> {
        let mut extensions = self.extensions.clone();
        match extensions.iter_mut().find(|installed| installed.name == extension.name) {
            Some(installed) => *installed = extension,
            None => extensions.push(extension),
        }
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
}

fn tools(extensions: &[Extension]) -> impl Iterator<Item = &AnyTool> {
    extensions.iter().flat_map(|extension| &extension.tools)
}

/// Models by the provider that a model reference names.
///
/// ```
/// use everturn_engine::Models;
/// let error = Models::new().resolve(&"chat/qwen".parse().unwrap()).err().unwrap();
/// assert!(error.to_string().contains("no provider chat"));
/// ```
#[derive(Clone, Default)]
pub struct Models(BTreeMap<String, Arc<dyn Model>>);

impl Models {
    /// No models.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same models with one more provider.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, model: impl Model) -> Self {
        self.0.insert(name.into(), Arc::new(model));
        self
    }

    /// The client of a model reference.
    ///
    /// Errors: `NotFound`, naming the providers that there are.
    pub fn resolve(&self, model: &ModelRef) -> Result<Arc<dyn Model>> {
        self.0.get(&model.provider).cloned().ok_or_else(|| {
            let known = self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none" } else { &known };
            Error::not_found(format!(
                "use model {model}: there is no provider {}; there are: {known}",
                model.provider
            ))
        })
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
