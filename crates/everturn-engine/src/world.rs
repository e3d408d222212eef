//! The world as a session meets it: time and randomness.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use everturn_core::{
    BoxFuture,
    clock::{Clock, Entropy, Timestamp},
    id::OwnerId,
};

/// Where time and randomness come from.
///
/// ```
/// use everturn_engine::World;
/// assert!(World::system().clock.now().0 > 0);
/// ```
#[derive(Clone)]
pub struct World {
    /// Tells the time and waits.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl World {
    /// The machine's own clock and randomness.
    pub fn system() -> Self {
        Self { clock: Arc::new(SystemClock), entropy: Arc::new(SystemEntropy) }
    }

    /// A new owner id, to open a store with.
    pub fn owner(&self) -> OwnerId {
        OwnerId::new(self.clock.now(), &*self.entropy)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// A time in whole milliseconds; the longest that can be said where it is longer.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The machine's clock; waits on tokio's timer.
///
/// ```
/// use everturn_core::clock::Clock;
/// use everturn_engine::SystemClock;
/// assert!(SystemClock.now().0 > 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that stands behind the port")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that stands behind the port")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The operating system's randomness.
///
/// ```
/// use everturn_core::clock::Entropy;
/// use everturn_engine::SystemEntropy;
/// let mut bytes = [0; 16];
/// SystemEntropy.fill(&mut bytes);
/// assert_ne!(bytes, [0; 16]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the randomness that stands behind the port")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives randomness");
    }
}
