//! Durable tasks: state machines whose state is committed after every step.
//!
//! A [`Task`] says where it starts and what each step leads to; everything else (running it again after a crash, waiting,
//! waking, stopping, ending in order) follows from its record. Turns and calls are tasks too.

mod code;
mod context;
mod error;
mod gate;
mod graph;
mod hold;
mod host;
mod mailbox;
mod marks;
mod opening;
mod rules;
mod run;
mod scheduler;
mod settle;
mod step;
mod suspect;
mod table;
mod trouble;

use std::time::Duration;

use everturn_core::{Error, Result as Done, id::ConversationId, json::RawJson, task::TaskFailure};
use serde::{Serialize, de::DeserializeOwned};

use crate::NewTask;

pub use code::AnyTask;
pub use context::{Report, TaskContext};
pub use error::TaskError;
pub(crate) use gate::Gate;
pub use graph::{GraphWatch, Status, TaskGraph, TaskView};
pub use hold::StepHold;
pub(crate) use host::{Host, RunLimits};
pub(crate) use mailbox::{Postman, SignalBody};
pub(crate) use run::panic_text;
pub(crate) use scheduler::Runner;
pub use step::{Aborted, Remains, Step};

/// A kind of durable task.
///
/// Promise: a step runs from its checkpoint until its move is committed: it runs again when it was cut off. What must not
/// run again sits behind a [memo](TaskContext::memo), or uses a [key](TaskContext::key).
///
/// ```
/// use everturn_engine::task::{Step, Task, TaskContext, TaskError};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum State { Prepare, Charge { key: String } }
///
/// struct Payment;
/// impl Task for Payment {
///     const NAME: &'static str = "example.payment";
///     type Input = u32;
///     type State = State;
///     type Output = String;
///
///     fn start(&self, _: &u32) -> State { State::Prepare }
///
///     async fn step(&self, cx: &TaskContext, amount: &u32, state: State) -> Result<Step<Self>, TaskError> {
///         match state {
///             State::Prepare => Ok(Step::go(State::Charge { key: cx.key("charge") })),
///             State::Charge { key } => Ok(Step::done(format!("{amount} under {key}"))),
///         }
///     }
/// }
/// ```
pub trait Task: Sized + Send + Sync + 'static {
    /// The name of the code, as records have it.
    const NAME: &'static str;

    /// Its version: one more whenever it cannot read what the one before wrote.
    const VERSION: u32 = 1;

    /// What it is given, committed once.
    type Input: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The checkpoint: usually an enum, one variant per phase.
    type State: Serialize + DeserializeOwned + Send + 'static;

    /// What comes out.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Where it begins. Pure.
    fn start(&self, input: &Self::Input) -> Self::State;

    /// Does what is next, and says what comes then.
    fn step(
        &self,
        cx: &TaskContext,
        input: &Self::Input,
        state: Self::State,
    ) -> impl Future<Output = Result<Step<Self>, TaskError>> + Send;

    /// Ends in order after it was told to stop: the step that ran has ended, and so has the work below.
    ///
    /// Errors: one that escapes faults the task.
    fn abort(
        &self,
        cx: &TaskContext,
        input: &Self::Input,
        state: Self::State,
    ) -> impl Future<Output = Result<Aborted<Self>, TaskError>> + Send {
        let _ = (cx, input, state);
        async { Ok(Remains::default()) }
    }

    /// What it leaves when a panic or an error has escaped its code; the end itself is settled.
    ///
    /// Errors: one that escapes is told to the log, and the task ends without what it would have left.
    fn fault(
        &self,
        cx: &TaskContext,
        input: &Self::Input,
        state: Self::State,
        why: &TaskFailure,
    ) -> impl Future<Output = Result<Remains<Self>, TaskError>> + Send {
        let _ = (cx, input, state, why);
        async { Ok(Remains::default()) }
    }

    /// Makes of input and checkpoint that an older version wrote what this one reads. Pure; the checkpoint is none before
    /// the first step.
    ///
    /// Errors: what is wrong with them. The task stays, and waits for code that can.
    fn migrate(
        &self,
        input: RawJson,
        checkpoint: Option<RawJson>,
        from: u32,
    ) -> Result<(RawJson, Option<RawJson>), TaskError> {
        let _ = (input, checkpoint);
        Err(Error::invalid(format!("there is no migration from version {from}")).into())
    }

    /// How long a step, or the end in order, may take. Past it the token fires; code that has not ended a grace later is given
    /// up, and the task faulted. Without one a step may take for ever, and an end in order five minutes.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

impl NewTask {
    /// A task of a type, for a conversation.
    ///
    /// Errors: `Invalid` when the input has no JSON form.
    pub fn of<T: Task>(conversation: ConversationId, input: &T::Input) -> Done<Self> {
        Self::new(conversation, T::NAME, T::VERSION).input(input)
    }
}
