//! A store whose operations let others go first: one seed, one order of events, and no clock.

use std::sync::atomic::{AtomicU64, Ordering};

use everturn_core::storage::{Layer, Layered, Store};

use crate::yield_now;

/// Around a store: every operation yields to the executor some times before and some times after, as `seed` has it.
///
/// ```
/// use everturn_core::{memory::Memory, storage::{SessionQuery, Store}};
/// use everturn_testkit::{block_on, slow};
///
/// let store = slow::around(Store::new(Memory::new()), 7);
/// assert_eq!(block_on(store.sessions(SessionQuery::default())).unwrap(), []);
/// ```
pub fn around(store: Store, seed: u64) -> Store {
    Store::new(Layered(Slow { store, state: AtomicU64::new(seed) }))
}

struct Slow {
    store: Store,
    state: AtomicU64,
}

impl Slow {
    /// Yields up to three times.
    async fn pause(&self) {
        // SplitMix64: a good number from a counter, whatever the seed is.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.state.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        for _ in 0..(mixed >> 62) {
            yield_now().await;
        }
    }
}

impl Layer for Slow {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn around<T: Send>(&self, _: &'static str, call: impl Future<Output = T> + Send) -> T {
        self.pause().await;
        let answer = call.await;
        self.pause().await;
        answer
    }
}
