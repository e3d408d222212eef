//! A store that tells of each of its operations before and after it happens, reads included.

use std::sync::atomic::{AtomicU64, Ordering};

use everturn::{
    BoxFuture,
    storage::{Layer, Layered, Store},
};
use everturn_testkit::watched::Moment;

/// An operation, as it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What the port calls it.
    pub name: &'static str,
    /// Its number, from 1.
    pub number: u64,
}

/// A store around another that tells of each operation. It waits for what `tell` gives: for ever, where the world is to
/// stop there.
///
/// Shape: waiting at the doorbell is not told of, for it is no question to the store.
pub fn told(
    store: Store,
    tell: impl Fn(Moment, Operation) -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Store {
    Store::new(Layered(Told { store, tell: Box::new(tell), count: AtomicU64::new(0) }))
}

struct Told {
    store: Store,
    tell: Box<dyn Fn(Moment, Operation) -> BoxFuture<'static, ()> + Send + Sync>,
    count: AtomicU64,
}

impl Layer for Told {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn around<T: Send>(&self, name: &'static str, call: impl Future<Output = T> + Send) -> T {
        if name == "doorbell" {
            return call.await;
        }
        let operation = Operation { name, number: self.count.fetch_add(1, Ordering::SeqCst) + 1 };
        (self.tell)(Moment::Before, operation).await;
        let answer = call.await;
        (self.tell)(Moment::After, operation).await;
        answer
    }
}
