//! The harness: models, tools and an agent over the kernel.

mod agent;
mod approval;
mod budget;
mod call;
mod child;
mod compact;
mod conversation;
mod deadline;
mod event;
mod files;
mod history;
mod inbox;
mod input;
mod letter;
mod limiter;
mod live;
mod models;
mod prompt;
mod settle;
mod signal;
mod submission;
mod task;
mod tools;
mod turn;
mod undo;
pub mod view;
mod within;
mod worker;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use everturn_core::{
    Error, Result,
    budget::Budget,
    compaction::{Strategy, Summarise},
    env::{Env, Nowhere},
    id::SessionId,
    model::ModelRef,
    policy::Policy,
    storage::{NewSession, SessionQuery, SessionRow, Store},
    verify::Finding,
};

use crate::{
    Extension, Opener, Registry, SessionReader, World,
    metrics::{Meter, Metrics, Observer},
    registry::Selected,
    task::{AnyTask, Host, RunLimits},
};
pub use agent::{Agent, AgentChange, Choice, Current};
use approval::AnyApprover;
pub use approval::{ApproveAll, Approver};
pub use conversation::ConversationHandle;
pub use event::{Event, EventKind, Events};
use files::Seen;
pub use history::{TurnEnd, TurnRecord, TurnView};
pub use inbox::QueueMode;
pub use input::{Input, TurnOptions, WhenBusy};
pub use letter::{Letter, Sender, Taking};
use limiter::Limiter;
pub use live::{Branch, LiveSession};
pub use models::Models;
pub use submission::{Answer, Submission};
pub use task::{Ended, TaskHandle};
pub use tools::{Todo, TodoItem, TodoStatus, session_tools};
pub(crate) use turn::TurnTask;
pub use view::ConversationView;
pub use worker::{Worker, WorkerSettings};

/// Runs agents: sessions with models, tools and policy.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// use everturn_core::{memory::Memory, storage::Store};
/// use everturn_engine::{Harness, Models, SessionSpec};
///
/// let harness = Harness::builder(Store::new(Memory::new())).models(Models::new()).open().await?;
/// let session = harness.create(SessionSpec::default()).await?;
/// assert_eq!(session.root().id().0, 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Harness(pub(crate) Arc<Shared>);

/// What all sessions of a harness share.
pub(crate) struct Shared {
    pub(crate) opener: Opener,
    pub(crate) models: Models,
    policies: RwLock<Policies>,
    approver: Option<AnyApprover>,
    pub(crate) env: EnvMaker,
    settings: RwLock<Arc<Settings>>,
    strategy: Arc<dyn Strategy>,
    seen: Arc<Seen>,
    limiter: Limiter,
    pub(crate) host: Arc<Host>,
}

/// Policies by name; the one without a name is for agents that name none.
#[derive(Clone, Debug, Default)]
struct Policies {
    default: Arc<Policy>,
    named: BTreeMap<String, Arc<Policy>>,
}

type EnvMaker = Box<dyn Fn(&Agent) -> Result<Env> + Send + Sync>;

/// What the host sets, read live and never stored: but for how much runs at once, which is read when the harness opens.
///
/// ```
/// use everturn_engine::Settings;
/// assert_eq!(Settings::default().flush_ms, 25);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The extensions that a conversation has without a word of its agent; all that are installed, without a list.
    pub extensions: Option<Vec<String>>,
    /// The shortest time between two commits of partial output, in milliseconds.
    pub flush_ms: u64,
    /// After how many steps a turn ends.
    pub steps_max: u32,
    /// How often a request that failed in passing is sent again.
    pub retries_max: u32,
    /// Which models are asked, in order, when the agent's own cannot be.
    pub fallbacks: Vec<ModelRef>,
    /// How many requests may be out at one endpoint at once, from all sessions; read when it is asked first.
    pub requests_max: usize,
    /// How many steers are placed at once.
    pub steers: QueueMode,
    /// How many inputs that waited for the end of a turn begin the next one together.
    pub follow_ups: QueueMode,
    /// Whether the calls of a response run together.
    pub calls: CallOrder,
    /// How long a call may run whose tool does not say so, in milliseconds; for ever, without a word.
    pub call_ms: Option<u64>,
    /// How long an approval may be decided, in milliseconds; for ever, without a word.
    pub approval_ms: Option<u64>,
    /// How many of the newest tokens stay as they are when a context is made shorter.
    pub keep_recent: u64,
    /// From which part of what a request may have a context is made shorter ahead of need, in per cent.
    pub compact_ahead: u32,
    /// Who writes summaries; the agent's own model, without one.
    pub summary_model: Option<ModelRef>,
    /// How much a session may spend.
    pub session_budget: Budget,
    /// How deep sub-agents may start others; the first is 1 deep.
    pub depth_max: u32,
    /// How many sub-agents may work for a conversation at once.
    pub children_max: u32,
    /// How many sub-agents a session may have in all.
    pub children_total_max: u32,
    /// How much of a call's output the model is told, in bytes.
    pub output_max: usize,
    /// How much of it, in lines.
    pub output_lines_max: usize,
    /// How much of an output that is longer is kept for people, in bytes; none of it at 0.
    pub output_quota: usize,
    /// How long code that was told to stop may take to end by itself, in milliseconds.
    pub grace_ms: u64,
    /// How long closing a session may take, in milliseconds.
    pub close_ms: u64,
    /// How many steps of tasks run at once, in all sessions: a process usually has one harness.
    pub running_max: usize,
    /// How many steps of tasks run at once in a session.
    pub session_running_max: usize,
    /// Whether spans say what was asked, answered and given: whoever collects them reads it all then.
    pub trace_content: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            extensions: None,
            flush_ms: 25,
            steps_max: 50,
            retries_max: 3,
            fallbacks: Vec::new(),
            requests_max: 64,
            steers: QueueMode::All,
            follow_ups: QueueMode::One,
            calls: CallOrder::Parallel,
            call_ms: None,
            approval_ms: None,
            keep_recent: 20_000,
            compact_ahead: 80,
            summary_model: None,
            session_budget: Budget::default(),
            depth_max: 3,
            children_max: 8,
            children_total_max: 256,
            output_max: 50 << 10,
            output_lines_max: 2_000,
            output_quota: 16 << 20,
            grace_ms: 2_000,
            close_ms: 10_000,
            running_max: 4_096,
            session_running_max: 64,
            trace_content: false,
        }
    }
}

/// Whether the calls of a response run together.
///
/// ```
/// use everturn_engine::{CallOrder, Settings};
/// assert_eq!(Settings::default().calls, CallOrder::Parallel);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// Together, unless a called tool says that it must not be.
    Parallel,
    /// One after the other.
    Sequential,
}

/// What a new session starts with, as data.
///
/// ```
/// use everturn_engine::SessionSpec;
/// let spec = SessionSpec { title: Some("pears".into()), ..SessionSpec::default() };
/// assert!(spec.agent.model.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionSpec {
    /// The creator's own id of the creation: creating again with it opens the same session.
    pub request: Option<String>,
    /// What lists show; the first input, without one.
    pub title: Option<String>,
    /// The application's own words about it.
    pub labels: std::collections::BTreeMap<String, String>,
    /// What the root conversation runs with.
    pub agent: Agent,
}

impl SessionSpec {
    /// A session whose root runs with a model, and else with what is usual.
    ///
    /// ```
    /// use everturn_engine::{Agent, SessionSpec};
    /// let spec = SessionSpec { title: Some("pears".into()), ..SessionSpec::model("demo".parse().unwrap()) };
    /// assert_eq!(spec.agent, Agent { model: Some("demo".parse().unwrap()), ..Agent::default() });
    /// ```
    pub fn model(model: ModelRef) -> Self {
        let agent = Agent { model: Some(model), ..Agent::default() };
        Self { agent, ..Self::default() }
    }
}

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

impl Harness {
    /// Begins to put a harness together over a store.
    pub fn builder(store: Store) -> Builder {
        Builder {
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

    /// Creates a session. What the spec says of the root lands in the creating commit.
    ///
    /// Promise: repeating `spec.request` opens the session that it created, and ignores the rest of the spec.
    /// Errors: `NotFound` when no provider of the agent's model is installed; `Invalid` when the agent's directory
    /// cannot be used; what storage says.
    pub async fn create(&self, spec: SessionSpec) -> Result<LiveSession> {
        if let Some(request) = &spec.request {
            let query = SessionQuery { request: Some(request.clone()), ..SessionQuery::default() };
            if let Some(first) = self.sessions(query).await?.first() {
                return self.open_session(first.id).await;
            }
        }
        self.0.check_agent(&Agent::default(), &spec.agent)?;
        let SessionSpec { request, title, labels, agent } = spec;
        let new = NewSession { request, title, labels, parent: None };
        let session = crate::Session::create_and(&self.0.opener, new, |stage| agent.stage(stage)).await?;
        Ok(LiveSession::new(session, self.0.clone()))
    }

    /// Opens a session by its id alone: agent, history, queue and live work come back with it. Nothing runs until
    /// it is asked to.
    ///
    /// Errors: `NotFound`; `Owned` while someone else has it open.
    pub async fn open_session(&self, id: SessionId) -> Result<LiveSession> {
        let session = crate::Session::open(&self.0.opener, id).await?;
        Ok(LiveSession::new(session, self.0.clone()))
    }

    /// Reads a session without taking it.
    ///
    /// Errors: `NotFound`.
    pub async fn reader(&self, id: SessionId) -> Result<SessionReader> {
        SessionReader::open(self.0.opener.store.clone(), id).await
    }

    /// What its sessions are opened by: the kernel below, for what is no agent's business.
    pub fn opener(&self) -> &Opener {
        &self.0.opener
    }

    /// Reads everything that a session has stored again, and proves that it agrees with itself, the account of each
    /// turn with the ledger included. Gives all that is wrong; changes nothing.
    ///
    /// Errors: `NotFound`; what keeps the store from being read at all.
    pub async fn verify(&self, id: SessionId) -> Result<Vec<Finding>> {
        let reader = self.reader(id).await?;
        let mut findings = reader.verify().await?;
        if findings.is_empty() {
            findings.extend(history::accounts(&reader).await?);
        }
        Ok(findings)
    }

    /// Sessions, newest first, a page at a time.
    pub async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        self.0.opener.store.sessions(query).await
    }

    /// Installs an extension; one of the same name is replaced in place. Work under way keeps what it took.
    ///
    /// Errors: as [`Registry::install`].
    pub fn install(&self, extension: Extension) -> Result<()> {
        self.batch(|registry| registry.install(extension))
    }

    /// Changes what is installed, all at once or not at all: nobody ever sees a part of it.
    ///
    /// Errors: what `change` gives; nothing is changed then.
    pub fn batch(&self, change: impl FnOnce(&mut Registry) -> Result<()>) -> Result<()> {
        self.0.host.install(|registry| {
            let mut changed = registry.clone();
            change(&mut changed).map(|()| changed)
        })
    }

    /// Sets what calls are judged by, where an agent names this policy (or none). Calls that are asked about are judged again by
    /// [`LiveSession::judge_again`].
    pub fn set_policy(&self, name: Option<&str>, policy: Policy) {
        let mut policies = self.0.policies.write().unwrap_or_else(PoisonError::into_inner);
        match name {
            None => policies.default = Arc::new(policy),
            Some(name) => _ = policies.named.insert(name.into(), Arc::new(policy)),
        }
    }

    /// What is installed now: a snapshot.
    pub fn registry(&self) -> Arc<Registry> {
        self.0.host.registry()
    }

    /// What it has counted since it was opened: a snapshot.
    pub fn metrics(&self) -> Metrics {
        self.0.opener.meter.read()
    }

    /// What the host sets, as it is now.
    pub fn settings(&self) -> Settings {
        Settings::clone(&self.0.settings())
    }

    /// Sets what the host sets. What is under way goes by it from its next decision on.
    ///
    /// Errors: `Invalid` when the settings contradict themselves.
    pub fn set(&self, settings: Settings) -> Result<()> {
        settings.check("set the settings of a harness")?;
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        Ok(())
    }
}

impl Settings {
    fn check(&self, attempted: &str) -> Result<()> {
        let problem = match self {
            Self { steps_max: 0, .. } => "steps_max is 0, a turn takes at least one step",
            Self { requests_max: 0, .. } => "requests_max is 0, no model could ever be asked",
            Self { running_max: 0, .. } | Self { session_running_max: 0, .. } => {
                "running_max or session_running_max is 0, nothing would ever run"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("{attempted}: {problem}")))
    }
}

impl Shared {
    /// What the host sets now.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The policy of an agent; none where nobody has given a policy the name that it has: then nothing is allowed.
    pub(crate) fn policy(&self, name: Option<&str>) -> Option<Arc<Policy>> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        match name {
            None => Some(policies.default.clone()),
            Some(name) => policies.named.get(name).cloned(),
        }
    }

    /// What a conversation with this agent works with now.
    pub(crate) fn select(&self, agent: &Agent) -> Selected {
        self.host.registry().select(agent, self.settings().extensions.as_deref())
    }

    /// A model that nobody can answer for is refused when it is chosen, not when it is asked.
    pub(crate) fn check_model(&self, model: Option<&ModelRef>) -> Result<()> {
        model.map_or(Ok(()), |model| self.models.resolve(model).map(drop))
    }
}

impl Builder {
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

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness").field("registry", &self.0.host.registry()).finish_non_exhaustive()
    }
}
