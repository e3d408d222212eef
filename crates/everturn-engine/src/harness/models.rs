//! The models on offer, by provider.

use std::{collections::BTreeMap, fmt, sync::Arc};

use everturn_core::{
    Error, Result,
    model::{Model, ModelRef},
};

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
