//! A store that loses answers to commits: the connection broke, or a deadline passed, on the way.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use everturn_core::{
    Result,
    storage::{Batch, Committed, Layer, Layered, Store},
};

/// What became of a batch whose answer was lost.
///
/// ```
/// use everturn_testkit::late::Fate;
/// assert_ne!(Fate::Arrived, Fate::Held);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Storage had it before the answer was lost.
    Arrived,
    /// Storage never has it.
    Lost,
    /// Storage has it when the test [delivers](Losses::deliver) it, however much was answered meanwhile.
    Held,
}

/// Which answers to commits are lost. Clones share what they were told, and one count.
///
/// Promise: the caller of such a commit gets [`Committed::Unknown`], whatever storage said.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{Committed, Store}};
/// use everturn_testkit::{block_on, late::{Fate, Losses}, store::scene::Scene};
///
/// block_on(async {
///     let losses = Losses::default();
///     let scene = Scene::new(&losses.around(Store::new(Memory::new()))).await;
///     losses.lose(1, Fate::Held);
///     let batch = scene.batch(vec![]);
///     assert_eq!(scene.store.commit(batch.clone()).await.unwrap(), Committed::Unknown);
///     assert_eq!(scene.store.commit(batch).await.unwrap(), Committed::Stored);
///     let [first] = losses.deliver().await.try_into().unwrap();
///     assert_eq!(first.unwrap(), Committed::Already);
/// });
/// ```
#[derive(Clone)]
pub struct Losses(Arc<Inner>);

struct Inner {
    plan: Box<dyn Fn(u64) -> Option<Fate> + Send + Sync>,
    told: Mutex<BTreeMap<u64, Fate>>,
    count: AtomicU64,
    held: Mutex<Vec<(Store, Batch)>>,
}

impl Default for Losses {
    fn default() -> Self {
        Self::when(|_| None)
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Losses")
    }
}

impl Losses {
    /// Loses an answer where `plan` says so of the commit's number, from 1. A batch that is sent again is a commit.
    pub fn when(plan: impl Fn(u64) -> Option<Fate> + Send + Sync + 'static) -> Self {
        let (told, held) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { plan: Box::new(plan), told, count: AtomicU64::new(0), held }))
    }

    /// Loses the answer to the commit of this number, from 1.
    pub fn lose(&self, number: u64, fate: Fate) {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner).insert(number, fate);
    }

    /// A store that loses these answers, around another.
    pub fn around(&self, store: Store) -> Store {
        Store::new(Layered(Late { store, losses: self.clone() }))
    }

    /// Hands storage the batches that were held, oldest first, and gives what it said of each.
    pub async fn deliver(&self) -> Vec<Result<Committed>> {
        let held = std::mem::take(&mut *self.0.held.lock().unwrap_or_else(PoisonError::into_inner));
        let mut answers = Vec::new();
        for (store, batch) in held {
            answers.push(store.commit(batch).await);
        }
        answers
    }

    fn next(&self) -> Option<Fate> {
        let number = self.0.count.fetch_add(1, Ordering::SeqCst) + 1;
        let told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        told.or_else(|| (self.0.plan)(number))
    }

    fn hold(&self, store: &Store, batch: Batch) {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner).push((store.clone(), batch));
    }
}

struct Late {
    store: Store,
    losses: Losses,
}

impl Layer for Late {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        match self.losses.next() {
            None => return self.store.commit(batch).await,
            Some(Fate::Arrived) => drop(self.store.commit(batch).await),
            Some(Fate::Held) => self.losses.hold(&self.store, batch),
            Some(Fate::Lost) => {}
        }
        Ok(Committed::Unknown)
    }
}
