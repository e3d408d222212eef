//! A clock that moves only when a test moves it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn_core::{
    BoxFuture,
    clock::{Clock, Timestamp},
};
use futures_channel::oneshot;
use futures_util::FutureExt;

/// A clock that moves only when a test moves it. Clones are the same clock.
///
/// ```
/// use everturn_core::clock::{Clock, Timestamp};
/// use everturn_testkit::manual::ManualClock;
/// use std::time::Duration;
///
/// let clock = ManualClock::at(Timestamp(1_000));
/// let sleep = clock.sleep(Duration::from_secs(2));
/// assert_eq!(clock.sleepers(), 1);
/// clock.advance(Duration::from_secs(2));
/// everturn_testkit::block_on(sleep);
/// assert_eq!(clock.now(), Timestamp(3_000));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// What it shows.
    now: Timestamp,
    /// How much time has passed, whatever it shows.
    passed: Duration,
    sleepers: Vec<(Duration, oneshot::Sender<()>)>,
    slept: u64,
}

impl ManualClock {
    /// A clock that shows a moment.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Inner { now, ..Inner::default() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets time pass, and wakes all whose time has come.
    pub fn advance(&self, duration: Duration) {
        let mut inner = self.inner();
        (inner.now, inner.passed) = (inner.now + duration, inner.passed + duration);
        let passed = inner.passed;
        for (_, sleeper) in inner.sleepers.extract_if(.., |(until, _)| *until <= passed) {
            // A sleeper that was dropped needs no waking.
            sleeper.send(()).ok();
        }
    }

    /// Sets it, as a person or a time server does: no time passes by that, and nobody is woken.
    pub fn set(&self, now: Timestamp) {
        self.inner().now = now;
    }

    /// How many wait for it.
    pub fn sleepers(&self) -> usize {
        let mut inner = self.inner();
        inner.sleepers.retain(|(_, sleeper)| !sleeper.is_canceled());
        inner.sleepers.len()
    }

    /// How often anyone has begun to wait for it.
    pub fn slept(&self) -> u64 {
        self.inner().slept
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.inner().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut inner = self.inner();
        inner.slept += 1;
        let (sleeper, woken) = oneshot::channel();
        let until = inner.passed.saturating_add(duration);
        inner.sleepers.retain(|(_, sleeper)| !sleeper.is_canceled());
        match duration.is_zero() {
            true => drop(sleeper),
            false => inner.sleepers.push((until, sleeper)),
        }
        woken.map(|_| ()).boxed()
    }
}
