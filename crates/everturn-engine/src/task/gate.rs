//! How many steps of all sessions run at once.

use std::sync::Arc;

use everturn_core::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The gate of a harness. First come, first served; each session waits at it for one step at a time, so that one with a
/// thousand ready tasks and one with a single task take turns.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

/// The right to run one step.
pub(super) struct Pass(#[expect(dead_code, reason = "held for its end")] OwnedSemaphorePermit);

impl Gate {
    pub(crate) fn new(running_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(running_max.min(Semaphore::MAX_PERMITS))))
    }

    /// A pass, where one is free and nobody waits for it.
    pub(super) fn try_enter(&self) -> Option<Pass> {
        self.0.clone().try_acquire_owned().ok().map(Pass)
    }

    /// Waits for a pass.
    pub(super) fn enter(&self) -> BoxFuture<'static, Pass> {
        let gate = self.0.clone();
        Box::pin(async move { Pass(gate.acquire_owned().await.expect("the gate is never closed")) })
    }
}
