//! A store that refuses operations when it is told to: how a full disk looks, or a server that is not there.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use everturn_core::{
    Error, ErrorKind, Result,
    storage::{Layered, Store},
};

use crate::operations::{Attempt, Attempting, NAMES};

/// Which operations are refused, by name and count. Clones share what they were told, and one count.
///
/// Promise: a refusal is `Unavailable`, with a hint to try again at once, and storage was not asked.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{SessionQuery, Store}};
/// use everturn_testkit::{block_on, faulty::Faults};
///
/// let faults = Faults::default();
/// let store = faults.around(Store::new(Memory::new()));
/// faults.refuse("sessions", 1);
/// assert!(block_on(store.sessions(SessionQuery::default())).is_err());
/// assert!(block_on(store.sessions(SessionQuery::default())).is_ok());
/// ```
#[derive(Clone)]
pub struct Faults {
    plan: Arc<dyn Fn(&'static str, u64) -> bool + Send + Sync>,
    calls: Arc<Mutex<HashMap<&'static str, Calls>>>,
}

#[derive(Default)]
struct Calls {
    count: u64,
    refused_next: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self::when(|_, _| false)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

impl Faults {
    /// Refuses an operation where `plan` says so of its name and of how often it was called, from 1.
    pub fn when(plan: impl Fn(&'static str, u64) -> bool + Send + Sync + 'static) -> Self {
        Self { plan: Arc::new(plan), calls: Arc::default() }
    }

    /// Refuses the next `count` calls of an operation.
    ///
    /// # Panics
    ///
    /// Where no operation that can fail has this name.
    pub fn refuse(&self, operation: &'static str, count: u64) {
        assert!(NAMES.contains(&operation), "refuse {operation}: the operations are {NAMES:?}");
        self.calls(|calls| calls.entry(operation).or_default().refused_next = count);
    }

    /// A store with these faults around another.
    pub fn around(&self, store: Store) -> Store {
        Store::new(Layered(Attempting { store, around: self.clone() }))
    }

    fn check(&self, operation: &'static str) -> Result<()> {
        let (count, is_next) = self.calls(|calls| {
            let calls = calls.entry(operation).or_default();
            calls.count += 1;
            let is_next = calls.refused_next > 0;
            calls.refused_next = calls.refused_next.saturating_sub(1);
            (calls.count, is_next)
        });
        if is_next || (self.plan)(operation, count) {
            let kind = ErrorKind::Unavailable { retry_after: Some(Duration::ZERO) };
            return Err(Error::new(kind, format!("{operation}, call {count}: the test refuses it")));
        }
        Ok(())
    }

    fn calls<T>(&self, act: impl FnOnce(&mut HashMap<&'static str, Calls>) -> T) -> T {
        act(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Attempt for Faults {
    async fn attempt<T: Send, F: Future<Output = Result<T>> + Send>(
        &self,
        operation: &'static str,
        call: impl Fn() -> F + Send + Sync,
    ) -> Result<T> {
        self.check(operation)?;
        call().await
    }
}
