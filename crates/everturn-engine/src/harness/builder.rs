//! Putting a harness together.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use everturn_core::{
    Result,
    compaction::{Strategy, Summarise},
    env::{Env, Nowhere},
    policy::Policy,
    storage::Store,
};

use super::{
    Agent, EnvMaker, Harness, Models, Policies, Settings, Shared,
    approval::{AnyApprover, Approver},
    call, child, compact, deadline, letter,
    limiter::Limiter,
    turn, undo,
};
use crate::{
    Extension, Opener, Registry, World,
    metrics::{Meter, Observer},
    task::{AnyTask, Host, RunLimits},
};

/// Puts a harness together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// use everturn_core::{memory::Memory, storage::Store};
/// use everturn_engine::{Harness, Models, Settings};
///
/// let settings = Settings { steps_max: 5, ..Settings::default() };
/// let harness = Harness::builder(Store::new(Memory::new())).models(Models::new()).settings(settings);
/// let harness = harness.open().await?;
/// # Ok(()) }
/// ```
pub struct Builder {
    store: Store,
    world: World,
    models: Models,
    registry: Registry,
    policies: Policies,
    approver: Option<AnyApprover>,
    observers: Vec<Arc<dyn Observer>>,
    strategy: Arc<dyn Strategy>,
    env: EnvMaker,
    settings: Settings,
}

impl Builder {
    /// Nothing but a store.
    pub(super) fn over(store: Store) -> Self {
        Self {
            store,
            world: World::system(),
            models: Models::new(),
            registry: Registry::default(),
            policies: Policies::default(),
            approver: None,
            observers: Vec::new(),
            strategy: Arc::new(Summarise),
            env: Box::new(|_| Ok(Env::new(Nowhere))),
            settings: Settings::default(),
        }
    }

    /// The models on offer.
    #[must_use]
    pub fn models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// One more extension.
    ///
    /// Errors: `Conflict` when another extension has a tool of the same name.
    pub fn install(mut self, extension: Extension) -> Result<Self> {
        self.registry = self.registry.with(extension)?;
        Ok(self)
    }

    /// What calls are judged by, where an agent names no policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policies.default = Arc::new(policy);
        self
    }

    /// What calls are judged by, where an agent names it.
    #[must_use]
    pub fn policy_named(mut self, name: impl Into<String>, policy: Policy) -> Self {
        self.policies.named.insert(name.into(), Arc::new(policy));
        self
    }

    /// Who decides approvals in this process, at once.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(AnyApprover::new(approver));
        self
    }

    /// One more who is told how each turn went.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// How contexts are made shorter.
    #[must_use]
    pub fn compaction(mut self, strategy: impl Strategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// What makes the environment of an agent's calls.
    #[must_use]
    pub fn env(mut self, make: impl Fn(&Agent) -> Result<Env> + Send + Sync + 'static) -> Self {
        self.env = Box::new(make);
        self
    }

    /// Time and randomness, where they are not the machine's own.
    #[must_use]
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// What the host sets.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The harness.
    ///
    /// Errors: `Invalid` when the settings contradict themselves.
    pub async fn open(self) -> Result<Harness> {
        let Self { store, world, models, registry, policies, approver, strategy, env, settings, .. } = self;
        settings.check("open a harness")?;
        let limits = RunLimits {
            running_max: settings.running_max,
            session_running_max: settings.session_running_max,
            grace: Duration::from_millis(settings.grace_ms),
        };
        let opener =
            Opener { meter: Arc::new(Meter::new(self.observers)), ..Opener::new(store, world).await };
        Ok(Harness(Arc::new_cyclic(|shared| {
            let turn = AnyTask::new(turn::TurnTask(shared.clone()));
            let call = AnyTask::new(call::CallTask(shared.clone()));
            let agent = AnyTask::new(child::AgentTask(shared.clone()));
            let compact = AnyTask::new(compact::CompactTask(shared.clone()));
            let postman = letter::HarnessMail(shared.clone());
            let deadline = AnyTask::new(deadline::DeadlineTask);
            let undo = AnyTask::new(undo::UndoTask(shared.clone()));
            let host = Arc::new(Host::new(
                registry,
                vec![turn, call, agent, compact, undo, deadline],
                postman,
                limits,
            ));
            let settings = RwLock::new(Arc::new(settings));
            let policies = RwLock::new(policies);
            let (seen, limiter) = (Arc::default(), Limiter::default());
            Shared { opener, models, policies, approver, env, settings, strategy, seen, limiter, host }
        })))
    }
}
