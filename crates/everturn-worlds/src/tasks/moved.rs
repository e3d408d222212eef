//! A task whose code is replaced while it is under way.

use std::{marker::PhantomData, sync::Arc};

use everturn::{Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction, json::RawJson};
use serde::{Deserialize, Serialize};

use super::{Ledger, Line, ROOT, Scenario};

/// How many steps the work has.
const STEPS: u64 = 4;

/// The work, by the code of a version.
#[derive(Debug)]
pub struct Moved<C>(PhantomData<fn() -> C>);

impl<C> Moved<C> {
    /// The work, by this code.
    pub const BY: Self = Self(PhantomData);
}

impl Scenario for Moved<OldCode> {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("work").task(OldCode(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<OldCode>(ROOT, &"ada".into())?).map(drop)
    }
}

impl Scenario for Moved<NewCode> {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("work").task(NewCode(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<NewCode>(ROOT, &Work { by: "ada".into() })?).map(drop)
    }
}

/// The first version: it is given a name, and counts.
pub struct OldCode(Arc<Ledger>);

/// The second one: it is given more, and its checkpoint has a name.
pub struct NewCode(Arc<Ledger>);

/// What the second version is given.
#[derive(Debug, Serialize, Deserialize)]
pub struct Work {
    /// Whose work it is.
    pub by: String,
}

/// Where the second version stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct Steps {
    done: u64,
}

/// One step: done once it is kept.
async fn work(ledger: &Ledger, cx: &TaskContext, step: u64) -> Result<(), TaskError> {
    let doing = || async {
        ledger.write(Line::Did(format!("step {step}")));
        Ok::<u64, TaskError>(step)
    };
    let kept = cx.memo(&format!("step {step}"), doing).await?;
    ledger.write(Line::Kept(format!("step {step}"), kept));
    Ok(())
}

impl Task for OldCode {
    const NAME: &'static str = "worlds.work";
    type Input = String;
    type State = u64;
    type Output = String;

    fn start(&self, _: &String) -> u64 {
        0
    }

    async fn step(&self, cx: &TaskContext, by: &String, done: u64) -> Result<Step<Self>, TaskError> {
        if done == STEPS {
            return Ok(Step::done(format!("{done} by {by}")));
        }
        work(&self.0, cx, done).await?;
        Ok(Step::go(done + 1))
    }
}

impl Task for NewCode {
    const NAME: &'static str = "worlds.work";
    const VERSION: u32 = 2;
    type Input = Work;
    type State = Steps;
    type Output = String;

    fn start(&self, _: &Work) -> Steps {
        Steps { done: 0 }
    }

    async fn step(&self, cx: &TaskContext, input: &Work, state: Steps) -> Result<Step<Self>, TaskError> {
        let done = state.done;
        if done == STEPS {
            return Ok(Step::done(format!("{done} by {}", input.by)));
        }
        work(&self.0, cx, done).await?;
        Ok(Step::go(Steps { done: done + 1 }))
    }

    fn migrate(
        &self,
        input: RawJson,
        checkpoint: Option<RawJson>,
        from: u32,
    ) -> Result<(RawJson, Option<RawJson>), TaskError> {
        if from != 1 {
            return Err(TaskError::new("unknown", format!("version {from}")));
        }
        let input = RawJson::of(&Work { by: input.read()? })?;
        let checkpoint = checkpoint.map(|done| RawJson::of(&Steps { done: done.read()? })).transpose()?;
        Ok((input, checkpoint))
    }
}
