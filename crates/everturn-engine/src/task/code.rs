//! Tasks with their types erased, as a registry holds them.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use everturn_core::{
    BoxFuture, Error,
    json::RawJson,
    limits::Limits,
    task::{Blocked, BlockedBy, TaskFailure, TaskRecord},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Remains, Step, Task, TaskContext, TaskError,
    run::panic_text,
    step::{Left, Migrated, Moved, To},
};

/// A task with its types erased.
///
/// ```
/// # use everturn_engine::task::{AnyTask, Step, Task, TaskContext, TaskError};
/// # struct Pay;
/// # impl Task for Pay {
/// #     const NAME: &'static str = "example.pay";
/// #     type Input = u32;
/// #     type State = u32;
/// #     type Output = String;
/// #     fn start(&self, _: &u32) -> u32 { 0 }
/// #     async fn step(&self, _: &TaskContext, _: &u32, _: u32) -> Result<Step<Self>, TaskError> { Ok(Step::go(1)) }
/// # }
/// let task = AnyTask::new(Pay);
/// assert_eq!((task.kind(), task.version()), ("example.pay", 1));
/// ```
#[derive(Clone)]
pub struct AnyTask {
    kind: &'static str,
    version: u32,
    code: Arc<dyn Code>,
}

impl AnyTask {
    /// Erases a task's types.
    pub fn new<T: Task>(task: T) -> Self {
        Self { kind: T::NAME, version: T::VERSION, code: Arc::new(Typed(Arc::new(task))) }
    }

    /// The name of its code.
    pub fn kind(&self) -> &str {
        self.kind
    }

    /// The version of its code.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether it is new enough for a record. Runs nothing of it.
    ///
    /// Errors: that it is too old.
    pub(crate) fn check(&self, record: &TaskRecord) -> Result<(), Blocked> {
        let (Self { kind, version, .. }, needs) = (self, record.version);
        if needs <= *version {
            return Ok(());
        }
        let message = format!("version {needs} of {kind} wrote it, version {version} is installed");
        Err(Blocked { by: BlockedBy::TooOld, needs, message })
    }

    /// Makes of a record what the code reads: runs its `start` or `migrate`.
    ///
    /// Errors: why it cannot be run by this code.
    pub(crate) fn load(&self, record: &TaskRecord) -> Result<Box<dyn Loaded>, Unloaded> {
        self.check(record).map_err(Unloaded::Blocked)?;
        let Self { kind, version, code } = self;
        match catch_unwind(AssertUnwindSafe(|| code.load(record))) {
            Ok(Ok(loaded)) => Ok(loaded),
            Ok(Err(error)) => {
                let from = record.version;
                let message =
                    format!("version {version} of {kind} cannot read what version {from} wrote: {error}");
                let (by, needs) = (BlockedBy::MigrationFailed, version + 1);
                Err(Unloaded::Blocked(Blocked { by, needs, message }))
            }
            Err(panic) => Err(Unloaded::Panicked(panic_text(&*panic).to_owned())),
        }
    }
}

impl fmt::Debug for AnyTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyTask({}, version {})", self.kind, self.version)
    }
}

/// Why a record was not made what its code reads.
pub(crate) enum Unloaded {
    /// It waits for other code.
    Blocked(Blocked),
    /// The code panicked.
    Panicked(String),
}

trait Code: Send + Sync {
    fn load(&self, record: &TaskRecord) -> Result<Box<dyn Loaded>, TaskError>;
}

/// A record with the code that runs it.
pub(crate) trait Loaded: Send {
    fn deadline(&self) -> Option<Duration>;
    fn step(self: Box<Self>, cx: TaskContext) -> BoxFuture<'static, Result<Moved, TaskError>>;
    fn abort(self: Box<Self>, cx: TaskContext) -> BoxFuture<'static, Result<Left, TaskError>>;
    fn fault(
        self: Box<Self>,
        cx: TaskContext,
        why: TaskFailure,
    ) -> BoxFuture<'static, Result<Left, TaskError>>;
}

struct Typed<T>(Arc<T>);

struct Ready<T: Task> {
    task: Arc<T>,
    deadline: Option<Duration>,
    input: T::Input,
    state: T::State,
    record: Migrated,
}

impl<T: Task> Code for Typed<T> {
    fn load(&self, record: &TaskRecord) -> Result<Box<dyn Loaded>, TaskError> {
        let task = self.0.clone();
        let mut migrated = Migrated { version: T::VERSION, input: None };
        let (mut input, mut checkpoint) = (record.input.clone(), record.checkpoint().cloned());
        if record.version < T::VERSION {
            (input, checkpoint) = task.migrate(input, checkpoint, record.version)?;
            migrated.input = Some(input.clone());
        }
        let input: T::Input = read("the input", &input)?;
        let state = match checkpoint {
            Some(checkpoint) => read("the checkpoint", &checkpoint)?,
            None => task.start(&input),
        };
        let deadline = task.deadline();
        Ok(Box::new(Ready { task, deadline, input, state, record: migrated }))
    }
}

fn read<V: DeserializeOwned>(what: &str, json: &RawJson) -> Result<V, Error> {
    json.read().map_err(|error: Error| error.while_(what))
}

impl<T: Task> Loaded for Ready<T> {
    fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    fn step(self: Box<Self>, cx: TaskContext) -> BoxFuture<'static, Result<Moved, TaskError>> {
        Box::pin(async move {
            let Self { task, input, state, record, .. } = *self;
            let limits = *cx.limits();
            let Step { to, tx } = task.step(&cx, &input, state).await?;
            let state = |state: &T::State| write(&limits, T::NAME, "the checkpoint", state);
            let output = |output: &T::Output| write(&limits, T::NAME, "the output", output);
            let to = match to {
                To::Go(next) => To::Go(state(&next)?),
                To::Done(last) => To::Done(output(&last)?),
                To::Fail(error, partial) => To::Fail(error, partial.as_ref().map(output).transpose()?),
                To::Sleep(until, then) => To::Sleep(until, state(&then)?),
                To::WaitTasks(on, policy, joined, then) => To::WaitTasks(on, policy, joined, state(&then)?),
                To::WaitSignal(name, until, then) => To::WaitSignal(name, until, state(&then)?),
            };
            Ok(Moved { to, record, tx })
        })
    }

    fn abort(self: Box<Self>, cx: TaskContext) -> BoxFuture<'static, Result<Left, TaskError>> {
        Box::pin(async move {
            let Self { task, input, state, record, .. } = *self;
            let limits = *cx.limits();
            left(&limits, task.abort(&cx, &input, state).await?, record)
        })
    }

    fn fault(
        self: Box<Self>,
        cx: TaskContext,
        why: TaskFailure,
    ) -> BoxFuture<'static, Result<Left, TaskError>> {
        Box::pin(async move {
            let Self { task, input, state, record, .. } = *self;
            let limits = *cx.limits();
            left(&limits, task.fault(&cx, &input, state, &why).await?, record)
        })
    }
}

fn left<T: Task>(limits: &Limits, remains: Remains<T>, record: Migrated) -> Result<Left, TaskError> {
    let output = remains.output.map(|output| write(limits, T::NAME, "the output", &output)).transpose()?;
    Ok(Left { output, record, tx: remains.tx })
}

fn write(limits: &Limits, kind: &str, what: &str, value: &impl Serialize) -> Result<RawJson, Error> {
    RawJson::checked(&format!("{what} of a task {kind}"), value, limits)
}
