//! Tasks whose code is a closure.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    BoxFuture,
    clock::Timestamp,
    id::{ConversationId, TaskId},
    json::RawJson,
    storage::Store,
    task::{Signal, TaskFailure, TaskOutcome, TaskState},
};
use everturn_engine::{
    Extension, Harness, LiveSession, NewTask, SessionSpec, Settings, Step, SystemEntropy, Task, TaskContext,
    TaskError, TaskHandle, World,
    task::{Aborted, Remains},
};
use everturn_testkit::manual::ManualClock;
use serde_json::Value;

pub(crate) const ROOT: ConversationId = ConversationId::ROOT;

type Code<T> =
    Arc<dyn Fn(TaskContext, Value, String) -> BoxFuture<'static, Result<T, TaskError>> + Send + Sync>;
type Migration = fn(RawJson, Option<RawJson>) -> Result<(RawJson, Option<RawJson>), TaskError>;

/// A task of the kind `test.KIND` at a version. Its checkpoint is a word, `begin` at first.
pub(crate) struct Probe<const KIND: usize = 0, const V: u32 = 1> {
    step: Code<Step<Self>>,
    abort: Option<Code<Aborted<Self>>>,
    fault: Option<Code<Remains<Self>>>,
    migrate: Option<Migration>,
    deadline: Option<Duration>,
}

const NAMES: [&str; 3] = ["test.0", "test.1", "test.2"];

impl<const KIND: usize, const V: u32> Probe<KIND, V> {
    pub(crate) fn new<F>(step: impl Fn(TaskContext, Value, String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Step<Self>, TaskError>> + Send + 'static,
    {
        let step: Code<Step<Self>> = Arc::new(move |cx, input, state| Box::pin(step(cx, input, state)));
        Self { step, abort: None, fault: None, migrate: None, deadline: None }
    }

    pub(crate) fn abort<F>(
        self,
        abort: impl Fn(TaskContext, Value, String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Aborted<Self>, TaskError>> + Send + 'static,
    {
        let abort: Code<Aborted<Self>> = Arc::new(move |cx, input, state| Box::pin(abort(cx, input, state)));
        Self { abort: Some(abort), ..self }
    }

    pub(crate) fn fault<F>(
        self,
        fault: impl Fn(TaskContext, Value, String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Remains<Self>, TaskError>> + Send + 'static,
    {
        let fault: Code<Remains<Self>> = Arc::new(move |cx, input, state| Box::pin(fault(cx, input, state)));
        Self { fault: Some(fault), ..self }
    }

    pub(crate) fn migrate(self, migrate: Migration) -> Self {
        Self { migrate: Some(migrate), ..self }
    }

    pub(crate) fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

impl<const KIND: usize, const V: u32> Task for Probe<KIND, V> {
    const NAME: &'static str = NAMES[KIND];
    const VERSION: u32 = V;
    type Input = Value;
    type State = String;
    type Output = Value;

    fn start(&self, _: &Value) -> String {
        "begin".into()
    }

    async fn step(&self, cx: &TaskContext, input: &Value, state: String) -> Result<Step<Self>, TaskError> {
        (self.step)(cx.clone(), input.clone(), state).await
    }

    async fn abort(
        &self,
        cx: &TaskContext,
        input: &Value,
        state: String,
    ) -> Result<Aborted<Self>, TaskError> {
        match &self.abort {
            Some(abort) => abort(cx.clone(), input.clone(), state).await,
            None => Ok(Remains::default()),
        }
    }

    async fn fault(
        &self,
        cx: &TaskContext,
        input: &Value,
        state: String,
        _: &TaskFailure,
    ) -> Result<Remains<Self>, TaskError> {
        match &self.fault {
            Some(fault) => fault(cx.clone(), input.clone(), state).await,
            None => Ok(Remains::default()),
        }
    }

    fn migrate(
        &self,
        input: RawJson,
        checkpoint: Option<RawJson>,
        from: u32,
    ) -> Result<(RawJson, Option<RawJson>), TaskError> {
        match self.migrate {
            Some(migrate) => migrate(input, checkpoint),
            None => Err(TaskError::new("no_migration", format!("from {from}"))),
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline
    }
}

/// A harness on a clock that the test moves.
pub(crate) async fn host(store: &Store, clock: &ManualClock, extension: Extension) -> Harness {
    host_with(store, clock, extension, Settings::default()).await
}

pub(crate) async fn host_with(
    store: &Store,
    clock: &ManualClock,
    extension: Extension,
    settings: Settings,
) -> Harness {
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let builder = Harness::builder(store.clone()).world(world).settings(settings);
    builder.install(extension).unwrap().open().await.unwrap()
}

/// A session of a harness over a new store that runs these tasks, on a clock that shows a thousand.
pub(crate) async fn session(extension: Extension) -> (LiveSession, ManualClock, Store) {
    let (store, clock) = (crate::support::store(), ManualClock::at(Timestamp(1_000)));
    let harness = host(&store, &clock, extension).await;
    (harness.create(SessionSpec::default()).await.unwrap(), clock, store)
}

pub(crate) fn install<const KIND: usize, const V: u32>(probe: Probe<KIND, V>) -> Extension {
    Extension::new("test").task(probe)
}

/// Starts a task of the first kind.
pub(crate) async fn start(session: &LiveSession, input: Value) -> TaskHandle<Probe> {
    session.start_task::<Probe>(ROOT, &input).await.unwrap()
}

/// Creates tasks below an owner, in one commit.
pub(crate) async fn below(session: &LiveSession, owner: TaskId, inputs: &[Value]) -> Vec<TaskId> {
    let mut tx = session.begin().await.unwrap();
    let mut ids = Vec::new();
    for input in inputs {
        let task = NewTask { owner: Some(owner), ..NewTask::of::<Probe>(ROOT, input).unwrap() };
        ids.push(tx.create_task(task).unwrap());
    }
    tx.commit().await.unwrap();
    ids
}

/// How a task ended.
pub(crate) async fn outcome(session: &LiveSession, id: TaskId) -> TaskOutcome {
    session.task::<Probe>(id).ended().await.unwrap().outcome().clone()
}

/// Where a task stands.
pub(crate) async fn state(session: &LiveSession, id: TaskId) -> TaskState {
    session.task::<Probe>(id).record().await.unwrap().state.clone()
}

/// A list that tasks write to and a test reads.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<tokio::sync::watch::Sender<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, word: impl Into<String>) {
        self.0.send_modify(|noted| noted.push(word.into()));
    }

    pub(crate) fn read(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Returns when so many words were noted.
    pub(crate) async fn noted(&self, count: usize) {
        self.0.subscribe().wait_for(|noted| noted.len() >= count).await.unwrap();
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        self.read().iter().filter(|noted| *noted == word).count()
    }
}

/// A task that listens until it is told to go on, and then completes.
pub(crate) fn listener() -> Probe {
    Probe::new(|_, _, state| async move {
        Ok(if state == "begin" { Step::wait_signal("go", "on".into()) } else { Step::done(Value::Null) })
    })
}

/// The signal that a [`listener`] waits for.
pub(crate) fn go() -> Signal {
    Signal { name: "go".into(), payload: RawJson::empty() }
}
