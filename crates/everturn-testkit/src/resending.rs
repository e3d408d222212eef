//! A store that sends a batch again until it is told what came of it.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use everturn_core::{
    Result,
    id::{Epoch, Seq, SessionId},
    storage::{Batch, Committed, Layer, Layered, Store},
};

use crate::yield_now;

/// Around a store: no commit is left unknown.
///
/// Promise: a batch that storage has already, though nobody was told so, is reported as stored now.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{Committed, Store}};
/// use everturn_testkit::{block_on, late::{Fate, Losses}, resending, store::scene::Scene};
///
/// block_on(async {
///     let losses = Losses::when(|number| (number % 2 == 1).then_some(Fate::Arrived));
///     let store = resending::around(losses.around(Store::new(Memory::new())));
///     let mut scene = Scene::new(&store).await;
///     assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored);
/// });
/// ```
pub fn around(store: Store) -> Store {
    Store::new(Layered(Resending { store, told: Mutex::default() }))
}

struct Resending {
    store: Store,
    /// Commits of which a caller knows that they are stored.
    told: Mutex<HashSet<(SessionId, Epoch, Seq)>>,
}

impl Resending {
    fn told(&self) -> MutexGuard<'_, HashSet<(SessionId, Epoch, Seq)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer for Resending {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let mut answer = self.store.commit(batch.clone()).await?;
        let was_unknown = answer == Committed::Unknown;
        while answer == Committed::Unknown {
            yield_now().await;
            answer = self.store.commit(batch.clone()).await?;
        }
        let is_news = self.told().insert((batch.session, batch.epoch, batch.seq));
        Ok(if was_unknown && is_news { Committed::Stored } else { answer })
    }
}
