//! A clock that moves only when a test moves it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{
    BoxFuture,
    clock::{Clock, Timestamp},
};
use futures_util::FutureExt;
use tokio::sync::oneshot;

#[derive(Clone, Default)]
pub(crate) struct ManualClock(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    now: Timestamp,
    sleepers: Vec<(Timestamp, oneshot::Sender<()>)>,
}

impl ManualClock {
    /// Moves time on, and wakes all whose time has come.
    pub(crate) fn advance(&self, duration: Duration) {
        let mut inner = self.0.lock().unwrap();
        inner.now = inner.now + duration;
        let now = inner.now;
        for (_, sleeper) in inner.sleepers.extract_if(.., |(until, _)| *until <= now) {
            // A sleeper that was dropped needs no waking.
            sleeper.send(()).ok();
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut inner = self.0.lock().unwrap();
        let (sleeper, woken) = oneshot::channel();
        let until = inner.now + duration;
        inner.sleepers.retain(|(_, sleeper)| !sleeper.is_closed());
        inner.sleepers.push((until, sleeper));
        woken.map(|_| ()).boxed()
    }
}
