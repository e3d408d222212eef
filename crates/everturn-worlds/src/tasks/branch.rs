//! A tree of tasks that rest until they are told to stop.

use std::sync::Arc;

use everturn::{
    ErrorKind, Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction,
    conversation::Ownership,
    json::RawJson,
    task::{Aborted, Remains, Signal, tree::Reach},
};
use serde::{Deserialize, Serialize};

use super::{Ledger, Life, Line, ROOT, Scenario};

/// The signal that lets a task end by itself.
const ENOUGH: &str = "enough";

/// A tree three deep, with a branch in a conversation of its own and one in the background. Its root is told to stop as soon as the session has so many commits.
#[derive(Clone, Debug)]
pub struct Tree {
    /// How many.
    pub commits: u64,
    /// How far that goes.
    pub reach: Reach,
}

/// A task with tasks below it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Branch {
    name: String,
    #[serde(default)]
    is_background: bool,
    /// Whether it hangs on the one above by a conversation of its own.
    #[serde(default)]
    is_apart: bool,
    #[serde(default)]
    below: Vec<Branch>,
}

/// The code of a branch.
struct Grow(Arc<Ledger>);

impl Branch {
    fn new(name: &str, below: Vec<Branch>) -> Self {
        Self { name: name.into(), is_background: false, is_apart: false, below }
    }

    fn tree() -> Self {
        let leaf = |name| Self::new(name, Vec::new());
        let middle = |name, first, second| Self::new(name, vec![leaf(first), leaf(second)]);
        let watch = Self { is_background: true, ..Self::new("watch", vec![leaf("watch/a")]) };
        let apart = Self { is_apart: true, ..Self::new("c", vec![leaf("c/a")]) };
        Self::new("root", vec![middle("a", "a/a", "a/b"), middle("b", "b/a", "b/b"), apart, watch])
    }
}

impl Scenario for Tree {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("woods").task(Grow(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<Grow>(ROOT, &Branch::tree())?).map(drop)
    }

    async fn attend(&self, life: &Life) -> Result<()> {
        let session = &life.session;
        let tasks = life.tasks().await?;
        let Some(root) = tasks.iter().find(|task| task.owner.is_none()) else { return Ok(()) };
        life.until(|_| session.head().0 >= self.commits).await?;
        session.abort_task(root.id, "enough of it", self.reach).await?;
        life.until(|live| live.iter().all(|task| task.abort.is_none())).await?;
        // What is left lives by itself, and goes on until it is told that it is enough.
        session.quiescent().await?;
        for task in session.inspect().await?.tasks {
            let signal = Signal { name: ENOUGH.into(), payload: RawJson::empty() };
            match session.signal(task.record.id, signal).await {
                // One that was told so in an earlier life has ended.
                Err(error) if matches!(error.kind(), ErrorKind::Conflict) => {}
                told => told?,
            }
        }
        life.until(|live| live.is_empty()).await
    }
}

/// Where a branch stands.
#[derive(Debug, Serialize, Deserialize)]
enum State {
    Bud,
    Rests,
}

impl Task for Grow {
    const NAME: &'static str = "worlds.branch";
    type Input = Branch;
    type State = State;
    type Output = String;

    fn start(&self, _: &Branch) -> State {
        State::Bud
    }

    async fn step(&self, cx: &TaskContext, branch: &Branch, state: State) -> Result<Step<Self>, TaskError> {
        if matches!(state, State::Rests) {
            return Ok(Step::done(branch.name.clone()));
        }
        let mut tx = cx.begin().await?;
        for below in &branch.below {
            let mut child = NewTask { background: below.is_background, ..cx.child::<Self>(below)? };
            if below.is_apart {
                child.conversation = tx.create_conversation(Ownership::Task(cx.id()));
                child.owner = None;
            }
            tx.create_task(child)?;
        }
        Ok(Step::wait_signal(ENOUGH, State::Rests).with(tx))
    }

    async fn abort(&self, _: &TaskContext, branch: &Branch, _: State) -> Result<Aborted<Self>, TaskError> {
        self.0.write(Line::Did(branch.name.clone()));
        Ok(Remains::output(branch.name.clone()))
    }
}
