//! A store that tries once more what storage refused.

use everturn_core::{
    ErrorKind, Result,
    storage::{Layered, Store},
};

use crate::operations::{Attempt, Attempting};

/// Around a store: what is `Unavailable` is tried once more, for nothing was stored.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{SessionQuery, Store}};
/// use everturn_testkit::{block_on, faulty::Faults, retrying};
///
/// let faults = Faults::when(|_, number| number % 2 == 1);
/// let store = retrying::around(faults.around(Store::new(Memory::new())));
/// assert!(block_on(store.sessions(SessionQuery::default())).is_ok());
/// ```
pub fn around(store: Store) -> Store {
    Store::new(Layered(Attempting { store, around: Retrying }))
}

struct Retrying;

impl Attempt for Retrying {
    async fn attempt<T: Send, F: Future<Output = Result<T>> + Send>(
        &self,
        _: &'static str,
        call: impl Fn() -> F + Send + Sync,
    ) -> Result<T> {
        match call().await {
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => call().await,
            answer => answer,
        }
    }
}
