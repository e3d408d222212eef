//! A store that counts what it is asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn_core::storage::{Layer, Layered, Store};

/// How often each operation was asked for. Clones share one count.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{SessionQuery, Store}};
/// use everturn_testkit::{block_on, counting::Counts};
///
/// let counts = Counts::default();
/// let store = counts.around(Store::new(Memory::new()));
/// block_on(store.sessions(SessionQuery::default())).unwrap();
/// assert_eq!(counts.all(), [("sessions", 1)].into());
/// assert_eq!(counts.of("commit"), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Counts {
    /// A store that counts, around another.
    pub fn around(&self, store: Store) -> Store {
        Store::new(Layered(Counting { store, counts: self.clone() }))
    }

    /// How often one operation was asked for.
    pub fn of(&self, operation: &str) -> u64 {
        self.lock().get(operation).copied().unwrap_or(0)
    }

    /// How often each operation was asked for that was, by name.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Counting {
    store: Store,
    counts: Counts,
}

impl Layer for Counting {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn around<T: Send>(&self, operation: &'static str, call: impl Future<Output = T> + Send) -> T {
        *self.counts.lock().entry(operation).or_default() += 1;
        call.await
    }
}
