//! A store that tells of its commits before and after they happen: where crash tests stop the world.

use everturn_core::{
    BoxFuture, Result,
    storage::{Batch, Committed, Create, Created, Layer, Store},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// When a commit is told of.
///
/// ```
/// use everturn_testkit::watched::Moment;
/// assert_ne!(Moment::Before, Moment::After);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Storage has not been asked.
    Before,
    /// It is stored; nobody has been told.
    After,
}

/// A store whose commits are told of; a creation is a commit.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{Layered, Store}};
/// use everturn_testkit::watched::Watched;
///
/// let memory = Store::new(Memory::new());
/// let store = Store::new(Layered(Watched::new(memory, |moment, number| {
///     println!("{moment:?} commit {number}");
///     Box::pin(async {})
/// })));
/// ```
pub struct Watched {
    store: Store,
    tell: Box<dyn Fn(Moment, u64) -> BoxFuture<'static, ()> + Send + Sync>,
    count: AtomicU64,
}

impl Watched {
    /// Tells of each commit: the moment, and its number from 1. The commit waits for what `tell` gives: for ever, where
    /// the world is to stop there.
    pub fn new(
        store: Store,
        tell: impl Fn(Moment, u64) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { store, tell: Box::new(tell), count: AtomicU64::new(0) }
    }

    async fn told<T>(&self, commit: impl Future<Output = T>) -> T {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        (self.tell)(Moment::Before, number).await;
        let committed = commit.await;
        (self.tell)(Moment::After, number).await;
        committed
    }
}

impl Layer for Watched {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn create(&self, create: Create) -> Result<Created> {
        self.told(self.store.create(create)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        self.told(self.store.commit(batch)).await
    }
}
