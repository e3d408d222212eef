//! The ids of calls on the wire.

use std::collections::{HashMap, HashSet};

use everturn_core::message::{Call, CallId};

/// The ids of calls on the wire: the provider's own, else ours, where it is empty, was used before, or is none that
/// the provider in question takes. Each follows from the messages up to its call alone, so that no later message can
/// change what was sent before.
pub(crate) struct Ids<'a> {
    is_legal: fn(&str) -> bool,
    used: HashSet<String>,
    of: HashMap<&'a CallId, String>,
}

impl<'a> Ids<'a> {
    pub(crate) fn new(is_legal: fn(&str) -> bool) -> Self {
        Self { is_legal, used: HashSet::new(), of: HashMap::new() }
    }

    pub(crate) fn of_call(&mut self, call: &'a Call) -> String {
        let provider = call.provider.as_deref().filter(|id| !id.trim().is_empty() && (self.is_legal)(id));
        let mut id = match provider {
            Some(id) if !self.used.contains(id) => id.to_owned(),
            _ => call.id.0.clone(),
        };
        // A provider may have given another call the very text of our id.
        while self.used.contains(&id) {
            id.push('_');
        }
        self.used.insert(id.clone());
        self.of.insert(&call.id, id.clone());
        id
    }

    pub(crate) fn of_result(&self, call: &CallId) -> String {
        self.of.get(call).unwrap_or(&call.0).clone()
    }
}
