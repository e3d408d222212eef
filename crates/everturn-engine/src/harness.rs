//! The harness: models, tools and an agent over the kernel.

mod agent;
mod approval;
mod budget;
mod builder;
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
mod settings;
mod settle;
mod signal;
mod submission;
mod task;
mod tools;
mod turn;
mod undo;
mod verbs;
pub mod view;
mod within;
mod worker;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use everturn_core::{
    Result,
    compaction::Strategy,
    env::Env,
    id::SessionId,
    model::ModelRef,
    policy::Policy,
    storage::{NewSession, SessionQuery, SessionRow, Store},
    verify::Finding,
};

use crate::{Extension, Opener, Registry, SessionReader, metrics::Metrics, registry::Selected, task::Host};
pub use agent::{Agent, AgentChange, Choice, Current};
use approval::AnyApprover;
pub use approval::{ApproveAll, Approver};
pub use builder::Builder;
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
pub use settings::{CallOrder, Settings};
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

impl Harness {
    /// Begins to put a harness together over a store.
    pub fn builder(store: Store) -> Builder {
        Builder::over(store)
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

    /// Sets what calls are judged by, where an agent names this policy (or none). In the sessions that run here, calls that are
    /// asked about are judged again: those that it allows go on, and those that it denies end.
    pub fn set_policy(&self, name: Option<&str>, policy: Policy) {
        let mut policies = self.0.policies.write().unwrap_or_else(PoisonError::into_inner);
        match name {
            None => policies.default = Arc::new(policy),
            Some(name) => _ = policies.named.insert(name.into(), Arc::new(policy)),
        }
        drop(policies);
        self.0.host.rules_changed();
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

    /// Sets what the host sets. What is under way goes by it from its next decision on; what waits for room in a session's budget
    /// that is another now looks again.
    ///
    /// Errors: `Invalid` when the settings contradict themselves.
    pub fn set(&self, settings: Settings) -> Result<()> {
        settings.check("set the settings of a harness")?;
        let new = Arc::new(settings);
        let budget = new.session_budget;
        let old =
            std::mem::replace(&mut *self.0.settings.write().unwrap_or_else(PoisonError::into_inner), new);
        if old.session_budget != budget {
            self.0.host.rules_changed();
        }
        Ok(())
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

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness").field("registry", &self.0.host.registry()).finish_non_exhaustive()
    }
}
