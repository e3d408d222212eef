//! A clock that leaps to the next moment that anyone waits for as soon as nobody has anything else to do: an hour's sleep
//! takes no time, and what happens in which order does not depend on the machine.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn::{
    BoxFuture, SystemEntropy, World,
    clock::{Clock, Timestamp},
};
use tokio::{runtime::Runtime, sync::oneshot};

/// How often it leaps without getting anywhere before someone is stuck.
const STOOD_MAX: u64 = 10_000;

/// A clock that leaps. Clones are one clock.
#[derive(Clone, Debug)]
pub struct Leaping(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// What the clock on the wall shows.
    wall: Timestamp,
    /// How long it has run, in milliseconds: waits go by this, also when the wall's clock is set.
    ran_ms: u64,
    /// Who waits until when, in the order in which they came.
    waits: BTreeMap<(u64, u64), oneshot::Sender<()>>,
    count: u64,
    /// How often it leapt without getting anywhere.
    stood: u64,
}

impl Leaping {
    /// A clock that shows a moment.
    pub fn at(wall: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(State { wall, ran_ms: 0, waits: BTreeMap::new(), count: 0, stood: 0 })))
    }

    /// A world with this time. Its ids are random as everywhere.
    pub fn world(&self) -> World {
        World { clock: Arc::new(self.clone()), entropy: Arc::new(SystemEntropy) }
    }

    /// A runtime whose idle moments are skipped by this clock.
    ///
    /// Shape: what runs in it is spawned; the future that it blocks on waits for that and does nothing else.
    pub fn runtime(&self) -> Runtime {
        let clock = self.clone();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.on_thread_park(move || clock.leap()).build().expect("a runtime of this thread needs nothing")
    }

    /// Sets the clock on the wall. Who waits goes on to wait for as long as he wanted to.
    pub fn set(&self, wall: Timestamp) {
        self.state().wall = wall;
    }

    /// Goes on to the next moment that someone waits for.
    fn leap(&self) {
        let woken = {
            let mut state = self.state();
            state.waits.retain(|_, wait| !wait.is_closed());
            let Some(((until, _), wait)) = state.waits.pop_first() else { return };
            let passed = until.saturating_sub(state.ran_ms);
            state.ran_ms += passed;
            state.stood = if passed == 0 { state.stood + 1 } else { 0 };
            assert!(state.stood < STOOD_MAX, "somebody waits for no time at all, again and again");
            state.wall = state.wall + Duration::from_millis(passed);
            wait
        };
        // Who went away meanwhile does not wait any more.
        let _gone = woken.send(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        self.state().wall
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let wake = {
            let mut state = self.state();
            let (wait, wake) = oneshot::channel();
            let until = state.ran_ms + u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2);
            state.count += 1;
            let place = (until, state.count);
            state.waits.insert(place, wait);
            wake
        };
        Box::pin(async move {
            if wake.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
