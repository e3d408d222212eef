//! Durable tasks, as programs that can be stopped anywhere and run again: what they come to is always the same, and what
//! they do to the world outside of the store is done as often as was promised.

mod alarm;
mod branch;
mod checkout;
mod ledger;
mod listener;
mod moved;
mod payment;
mod ticker;

use std::sync::Arc;

use everturn::{
    Error, Extension, Harness, LiveSession, Result, SessionSpec, Transaction, World,
    id::ConversationId,
    storage::{Batch, Committed, Layer, Layered, Store, TaskQuery},
    task::{TaskOutcome, TaskRecord},
};
use serde::{Deserialize, Serialize};

pub use alarm::Alarm;
pub use branch::Tree;
pub use checkout::{Cancelled, Checkout};
pub use ledger::{Ledger, Line};
pub use listener::{Listen, MAIL, Stranger};
pub use moved::{Moved, NewCode, OldCode};
pub use payment::{Order, Pay, Payment};
pub use ticker::{Tick, Ticker};

const ROOT: ConversationId = ConversationId::ROOT;

/// Tasks that do something together.
pub trait Scenario: Send + Sync + 'static {
    /// Their code.
    fn code(&self, ledger: &Arc<Ledger>) -> Extension;

    /// Creates those that are there from the beginning.
    fn begin(&self, tx: &mut Transaction) -> Result<()>;

    /// What whoever has the session does until all is over: waits, unless the scenario says otherwise. It is done anew
    /// in each life.
    fn attend(&self, life: &Life) -> impl Future<Output = Result<()>> + Send {
        async { life.until(|tasks| tasks.is_empty()).await }
    }
}

/// What a life takes place in.
#[derive(Clone)]
pub struct Place {
    /// The store.
    pub store: Store,
    /// Time and randomness.
    pub world: World,
    /// What survives, whatever happens to the process.
    pub ledger: Arc<Ledger>,
}

/// One life of a process: it has the session open.
pub struct Life {
    /// What it takes place in.
    pub place: Place,
    /// The harness.
    pub harness: Harness,
    /// The session.
    pub session: LiveSession,
}

/// What a life came to, as far as it does not depend on ids and times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The tasks, and how they ended.
    pub tasks: Vec<String>,
    /// What is wrong with what is stored.
    pub findings: Vec<String>,
}

/// Runs a scenario to its end, from wherever it stands.
///
/// Promise: calling it again, in any process, changes nothing.
/// Errors: what the store says; `Invalid` when it breaks a promise.
pub async fn live(scenario: &impl Scenario, place: Place) -> Result<Outcome> {
    let life = Life::open(scenario, place).await?;
    scenario.attend(&life).await?;
    let outcome = life.outcome().await?;
    life.session.close().await?;
    Ok(outcome)
}

impl Life {
    /// Opens the session, creates what is there from the beginning, and lets nothing run.
    pub async fn open(scenario: &impl Scenario, place: Place) -> Result<Self> {
        let store = Store::new(Layered(Acknowledging(place.store.clone(), place.ledger.clone())));
        let builder = Harness::builder(store).world(place.world.clone());
        let harness = builder.install(scenario.code(&place.ledger))?.open().await?;
        let spec = SessionSpec { request: Some("the-session".into()), ..SessionSpec::default() };
        let session = harness.create(spec).await?;
        let (acknowledged, head) = (place.ledger.acknowledged(), session.head());
        if acknowledged > head {
            let message = format!("seq {acknowledged} was acknowledged, and the head is {head}");
            return Err(Error::invalid(message));
        }
        let life = Self { place, harness, session };
        if life.tasks().await?.is_empty() {
            let mut tx = life.session.begin().await?;
            scenario.begin(&mut tx)?;
            tx.commit().await?;
        }
        Ok(life)
    }

    /// Lets the tasks run until the live ones are as wanted.
    pub async fn until(&self, wanted: impl Fn(&[Arc<TaskRecord>]) -> bool) -> Result<()> {
        self.session.resume();
        let mut graphs = self.session.task_graph();
        loop {
            let live: Vec<_> = graphs.next().await?.tasks.into_iter().map(|task| task.record).collect();
            if wanted(&live) {
                return Ok(());
            }
        }
    }

    /// All tasks, ended ones included, oldest first.
    pub async fn tasks(&self) -> Result<Vec<TaskRecord>> {
        let query = TaskQuery { session: self.session.id(), live: false, ids: None, owner: None };
        self.place.store.tasks(query).await
    }

    /// What it has come to by now.
    pub async fn outcome(&self) -> Result<Outcome> {
        let mut tasks: Vec<String> = self.tasks().await?.iter().map(told).collect();
        tasks.sort();
        let findings = self.harness.verify(self.session.id()).await?;
        Ok(Outcome { tasks, findings: findings.iter().map(ToString::to_string).collect() })
    }
}

/// A task in a line.
fn told(task: &TaskRecord) -> String {
    let error = match task.outcome() {
        Some(TaskOutcome::Failed { error, .. } | TaskOutcome::Faulted { error, .. }) => format!(" {error}"),
        _ => String::new(),
    };
    let (word, output) = match task.outcome() {
        Some(outcome) => (outcome.word(), outcome.output().map_or("nothing", |output| output.get())),
        None => ("live", "nothing"),
    };
    format!("{} {}: {word}{error} with {output}", task.kind, task.input.get())
}

/// A store whose commits are noted once it has acknowledged them.
pub(crate) struct Acknowledging(pub(crate) Store, pub(crate) Arc<Ledger>);

impl Layer for Acknowledging {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let seq = batch.seq;
        let committed = self.0.commit(batch).await?;
        if committed != Committed::Unknown {
            self.1.write(Line::Acknowledged(seq));
        }
        Ok(committed)
    }
}

/// The code of payments and tickers, for who works on many sessions.
pub fn workshop(ledger: &Arc<Ledger>) -> Extension {
    Extension::new("workshop").task(Pay(ledger.clone())).task(Tick(ledger.clone()))
}
