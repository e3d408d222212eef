//! A clock that stands still, so that two runs write the same times.

use std::{sync::Arc, time::Duration};

use everturn::{
    BoxFuture, SystemEntropy, World,
    clock::{Clock, Timestamp},
};

/// Waits up to this are over at once. Longer ones, such as a lease's, never are.
const SHORT: Duration = Duration::from_secs(1);

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > SHORT {
            return Box::pin(std::future::pending());
        }
        Box::pin(tokio::task::yield_now())
    }
}

/// A world without time. Its ids are random as everywhere.
pub fn world() -> World {
    World { clock: Arc::new(Still), entropy: Arc::new(SystemEntropy) }
}
