//! Holding a session: nothing new is run until it is let go of.

use std::sync::Arc;

use super::Runner;

/// While this is there, no step of the session begins; those that run go on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::{Harness, SessionSpec};
/// # let harness = Harness::builder(Store::new(Memory::new())).open().await?;
/// # let session = harness.create(SessionSpec::default()).await?;
/// let hold = session.hold();
/// session.quiescent().await?;
/// drop(hold);
/// # Ok(()) }
/// ```
#[must_use = "steps begin again when it is dropped"]
pub struct StepHold(Arc<Runner>);

impl StepHold {
    pub(super) fn new(runner: &Arc<Runner>) -> Self {
        runner.hold_begins();
        Self(runner.clone())
    }
}

impl Drop for StepHold {
    fn drop(&mut self) {
        self.0.hold_ends();
    }
}

impl std::fmt::Debug for StepHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StepHold({})", self.0.session.id())
    }
}
