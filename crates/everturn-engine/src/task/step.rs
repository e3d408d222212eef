//! What a step returns: what comes next, and what is committed with it.

use everturn_core::{
    clock::Timestamp,
    id::TaskId,
    json::RawJson,
    task::{TaskFailure, WaitPolicy},
};

use super::Task;
use crate::Transaction;

/// What comes next for a task. Nothing else moves one.
///
/// ```
/// use everturn_core::{id::TaskId, task::WaitPolicy};
/// # use everturn_engine::task::{Step, Task, TaskContext, TaskError};
/// # struct Pay;
/// # impl Task for Pay {
/// #     const NAME: &'static str = "example.pay";
/// #     type Input = u32;
/// #     type State = u32;
/// #     type Output = String;
/// #     fn start(&self, _: &u32) -> u32 { 0 }
/// #     async fn step(&self, _: &TaskContext, _: &u32, _: u32) -> Result<Step<Self>, TaskError> { Ok(Step::go(1)) }
/// # }
/// let step: Step<Pay> = Step::wait_tasks([TaskId(7)], WaitPolicy::FailFast, 1);
/// let step: Step<Pay> = Step::done("paid".into());
/// ```
pub struct Step<T: Task> {
    pub(super) to: To<T::State, T::Output>,
    pub(super) tx: Option<Transaction>,
}

/// Where a step leads.
#[derive(Clone)]
pub(crate) enum To<S, O> {
    Go(S),
    Done(O),
    Fail(TaskFailure, Option<O>),
    Sleep(Timestamp, S),
    WaitTasks(Vec<TaskId>, WaitPolicy, bool, S),
    WaitSignal(String, Option<Timestamp>, S),
}

impl<T: Task> Step<T> {
    fn to(to: To<T::State, T::Output>) -> Self {
        Self { to, tx: None }
    }

    /// The next step goes on from a checkpoint.
    pub fn go(next: T::State) -> Self {
        Self::to(To::Go(next))
    }

    /// The task has done its work.
    pub fn done(output: T::Output) -> Self {
        Self::to(To::Done(output))
    }

    /// The task cannot do its work.
    pub fn fail(error: TaskFailure) -> Self {
        Self::to(To::Fail(error, None))
    }

    /// The next step goes on from a checkpoint at a moment, also when nobody has the session open until then.
    pub fn sleep(until: Timestamp, then: T::State) -> Self {
        Self::to(To::Sleep(until, then))
    }

    /// The next step goes on from a checkpoint when tasks have ended; at once, where all have. What they came to is read
    /// by [`outcome`](super::TaskContext::outcome).
    ///
    /// Errors: a wait on the task itself, on a task above it or on one that is not there is `invalid`, and faults it.
    pub fn wait_tasks(on: impl IntoIterator<Item = TaskId>, policy: WaitPolicy, then: T::State) -> Self {
        Self::to(To::WaitTasks(on.into_iter().collect(), policy, false, then))
    }

    /// The next step goes on from a checkpoint when a signal has come; at once, where one waits. The step finds it in
    /// [`woken_by`](super::TaskContext::woken_by).
    pub fn wait_signal(name: impl Into<String>, then: T::State) -> Self {
        Self::to(To::WaitSignal(name.into(), None, then))
    }

    /// With a wait for a signal: no longer than until a moment. The step finds in
    /// [`woken_by`](super::TaskContext::woken_by) that the time was up.
    #[must_use]
    pub fn until(mut self, moment: Timestamp) -> Self {
        if let To::WaitSignal(_, until, _) = &mut self.to {
            *until = Some(moment);
        }
        self
    }

    /// With a wait for tasks: the next step runs in the commit that ends the last of them. It gets that commit's
    /// transaction from [`begin`](super::TaskContext::begin), returns with it, and does nothing else meanwhile: the
    /// session's line is held. Where that fails the step runs after the commit, as any other.
    #[must_use]
    pub fn joined(mut self) -> Self {
        if let To::WaitTasks(_, _, joined, _) = &mut self.to {
            *joined = true;
        }
        self
    }

    /// With a failure: what came out before it.
    #[must_use]
    pub fn output(mut self, partial: T::Output) -> Self {
        if let To::Fail(_, output) = &mut self.to {
            *output = Some(partial);
        }
        self
    }

    /// What a transaction holds is stored in the commit of the move, or not at all.
    #[must_use]
    pub fn with(mut self, tx: Transaction) -> Self {
        self.tx = Some(tx);
        self
    }
}

/// What a task leaves that ends before its work is done.
///
/// ```
/// # use everturn_engine::task::{Remains, Step, Task, TaskContext, TaskError};
/// # struct Pay;
/// # impl Task for Pay {
/// #     const NAME: &'static str = "example.pay";
/// #     type Input = u32;
/// #     type State = u32;
/// #     type Output = String;
/// #     fn start(&self, _: &u32) -> u32 { 0 }
/// #     async fn step(&self, _: &TaskContext, _: &u32, _: u32) -> Result<Step<Self>, TaskError> { Ok(Step::go(1)) }
/// # }
/// let nothing: Remains<Pay> = Remains::default();
/// let refunded: Remains<Pay> = Remains::output("refunded".into());
/// ```
pub struct Remains<T: Task> {
    pub(super) output: Option<T::Output>,
    pub(super) tx: Option<Transaction>,
}

/// What an aborted task leaves.
pub type Aborted<T> = Remains<T>;

impl<T: Task> Default for Remains<T> {
    fn default() -> Self {
        Self { output: None, tx: None }
    }
}

impl<T: Task> Remains<T> {
    /// What came out.
    pub fn output(output: T::Output) -> Self {
        Self { output: Some(output), tx: None }
    }

    /// What a transaction holds is stored in the commit of the end, or not at all.
    #[must_use]
    pub fn with(mut self, tx: Transaction) -> Self {
        self.tx = Some(tx);
        self
    }
}

/// A step's result with its types erased.
pub(crate) struct Moved {
    pub(crate) to: To<RawJson, RawJson>,
    pub(crate) record: Migrated,
    pub(crate) tx: Option<Transaction>,
}

/// What an end's handler left, with its types erased.
pub(crate) struct Left {
    pub(crate) output: Option<RawJson>,
    pub(crate) record: Migrated,
    pub(crate) tx: Option<Transaction>,
}

/// What of a record its code has made anew: stored with the next move.
#[derive(Clone)]
pub(crate) struct Migrated {
    pub(crate) version: u32,
    /// None where it is as it was.
    pub(crate) input: Option<RawJson>,
}
