//! An alarm: it sleeps for ten minutes, rings, and sleeps again.

use std::{sync::Arc, time::Duration};

use everturn::{Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction};

use super::{Ledger, Line, ROOT, Scenario};

/// An alarm that rings twice.
#[derive(Clone, Debug)]
pub struct Alarm;

impl Alarm {
    /// How long it sleeps before it rings.
    pub const SLEEP: Duration = Duration::from_secs(600);
}

/// The code of an alarm.
struct Ring(Arc<Ledger>);

impl Scenario for Alarm {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("clocks").task(Ring(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<Ring>(ROOT, &())?).map(drop)
    }
}

impl Task for Ring {
    const NAME: &'static str = "worlds.ring";
    type Input = ();
    /// How often it has slept.
    type State = u64;
    /// How often it rang.
    type Output = u64;

    fn start(&self, (): &()) -> u64 {
        0
    }

    async fn step(&self, cx: &TaskContext, (): &(), slept: u64) -> Result<Step<Self>, TaskError> {
        if slept > 0 {
            let ring = || async {
                self.0.write(Line::Did(format!("ring {slept}")));
                Ok::<(), TaskError>(())
            };
            cx.memo(&format!("ring {slept}"), ring).await?;
        }
        Ok(match slept {
            2 => Step::done(slept),
            slept => Step::sleep(cx.now() + Alarm::SLEEP, slept + 1),
        })
    }
}
