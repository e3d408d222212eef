//! A ticker: it ticks five times, sleeps in between, and keeps what each tick gave.

use std::{sync::Arc, time::Duration};

use everturn::{Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction};

use super::{Ledger, Line, ROOT, Scenario};

/// A ticker that sleeps for so long between two ticks.
#[derive(Clone, Debug)]
pub struct Ticker(pub Duration);

impl Ticker {
    /// How often it ticks.
    pub const TICKS: u64 = 5;
}

impl Scenario for Ticker {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("clocks").task(Tick(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        tx.create_task(NewTask::of::<Tick>(ROOT, &ms)?).map(drop)
    }
}

/// The code of a ticker.
pub struct Tick(pub Arc<Ledger>);

impl Task for Tick {
    const NAME: &'static str = "worlds.tick";
    /// The milliseconds between two ticks.
    type Input = u64;
    /// How often it has ticked.
    type State = u64;
    type Output = u64;

    fn start(&self, _: &u64) -> u64 {
        0
    }

    async fn step(&self, cx: &TaskContext, pause_ms: &u64, ticked: u64) -> Result<Step<Self>, TaskError> {
        let what = cx.key(&format!("tick {ticked}"));
        let tick = || async {
            self.0.write(Line::Did(what.clone()));
            let times = self.0.did().iter().filter(|did| **did == what).count();
            Ok::<u64, TaskError>(times as u64)
        };
        let value = cx.memo(&format!("tick {ticked}"), tick).await?;
        self.0.write(Line::Kept(what, value));
        Ok(match ticked + 1 {
            Ticker::TICKS => Step::done(Ticker::TICKS),
            next => Step::sleep(cx.now() + Duration::from_millis(*pause_ms), next),
        })
    }
}
