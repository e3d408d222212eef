//! What all sessions of a harness share: the code of tasks, and how much of it runs at once.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    Result,
    task::{Blocked, BlockedBy, TaskRecord},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch as latest};

use super::{AnyTask, Gate, Postman};
use crate::Registry;

/// The code of tasks, and how much of it runs at once.
pub(crate) struct Host {
    registry: latest::Sender<Arc<Registry>>,
    /// Counts changes of what work goes by beside code.
    rules: latest::Sender<u64>,
    built_in: Vec<AnyTask>,
    gate: Gate,
    suspects: Arc<Semaphore>,
    /// Does what mail asks that is not about a task.
    pub(super) postman: Box<dyn Postman>,
    pub(super) limits: RunLimits,
}

/// How much runs at once, and how long it has to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    /// Steps of all sessions.
    pub(crate) running_max: usize,
    /// Steps of a session.
    pub(crate) session_running_max: usize,
    /// How long code has to end after its token fired.
    pub(crate) grace: Duration,
}

impl Host {
    pub(crate) fn new(
        registry: Registry,
        built_in: Vec<AnyTask>,
        postman: impl Postman + 'static,
        limits: RunLimits,
    ) -> Self {
        let gate = Gate::new(limits.running_max);
        Self {
            registry: latest::Sender::new(Arc::new(registry)),
            rules: latest::Sender::new(1),
            built_in,
            gate,
            suspects: Arc::new(Semaphore::new(1)),
            postman: Box::new(postman),
            limits,
        }
    }

    /// What is installed now; the snapshot stays as it is.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.borrow().clone()
    }

    /// Installs something, and has all sessions look again at what waits for code.
    pub(crate) fn install(&self, change: impl FnOnce(&Registry) -> Result<Registry>) -> Result<()> {
        let mut changed = Ok(());
        self.registry.send_if_modified(|registry| match change(registry) {
            Ok(new) => {
                *registry = Arc::new(new);
                true
            }
            Err(error) => {
                changed = Err(error);
                false
            }
        });
        changed
    }

    /// Told when something is installed.
    pub(super) fn changes(&self) -> latest::Receiver<Arc<Registry>> {
        self.registry.subscribe()
    }

    /// Has all sessions look again at what waits because of what the host goes by beside code: that has changed.
    pub(crate) fn rules_changed(&self) {
        self.rules.send_modify(|changes| *changes += 1);
    }

    /// How often that has happened.
    pub(super) fn rules(&self) -> u64 {
        *self.rules.borrow()
    }

    /// Told when that happens, and how often it has.
    pub(super) fn rule_changes(&self) -> latest::Receiver<u64> {
        self.rules.subscribe()
    }

    /// The place of the one suspect that may run, whatever its session.
    pub(super) fn suspects(&self) -> impl Future<Output = OwnedSemaphorePermit> + Send + use<> {
        let place = self.suspects.clone().acquire_owned();
        async move { place.await.expect("it is never closed") }
    }

    /// How many steps of all sessions run at once.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The code of a record, by a snapshot of what is installed.
    ///
    /// Errors: that it is missing, or too old.
    pub(super) fn code(&self, registry: &Registry, task: &TaskRecord) -> Result<AnyTask, Blocked> {
        let kind = &task.kind;
        let built_in = self.built_in.iter().find(|code| code.kind() == kind);
        let code = built_in.or_else(|| registry.task(kind)).ok_or_else(|| Blocked {
            by: BlockedBy::Missing,
            needs: task.version,
            message: format!("no code of kind {kind} is installed"),
        })?;
        code.check(task).map(|()| code.clone())
    }

    /// All kinds of code, with their versions.
    pub(crate) fn tasks(&self) -> Vec<AnyTask> {
        self.built_in.iter().cloned().chain(self.registry.borrow().tasks().cloned()).collect()
    }
}
