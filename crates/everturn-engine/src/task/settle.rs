//! What a step's result becomes in a transaction: the move, what follows from it, and the steps that join its commit.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    CancelToken, Error, ErrorKind, Result,
    id::TaskId,
    json::RawJson,
    task::{
        TaskFailure, TaskOutcome, TaskRecord, TaskState, WaitPolicy, Woken,
        tree::{self, Forest},
    },
};

use super::{
    Runner, TaskContext,
    step::{Left, Migrated, Moved, To},
};
use crate::Transaction;

/// How long a step may take that joins a commit: less than anyone may hold the line.
const JOIN_MAX: Duration = Duration::from_secs(3);

/// How a task ends that does not do its work.
pub(super) enum Cut {
    Aborted(String),
    Faulted(TaskFailure),
}

impl Runner {
    /// Commits a move, with what follows from it. Storage that refuses for now is offered the same again; a move that staged
    /// nothing of its own is staged anew where its transaction was lost.
    pub(super) async fn commit_move(self: &Arc<Self>, id: TaskId, moved: Moved) -> Result<()> {
        let Moved { to, record, tx } = moved;
        let (mut tx, is_ours) = match tx {
            Some(tx) => (tx, false),
            None => (self.session.begin_last().await?, true),
        };
        loop {
            match self.try_move(tx, id, (record.clone(), to.clone())).await {
                Err(error) if is_ours && matches!(error.kind(), ErrorKind::Expired) => {
                    tx = self.session.begin_last().await?;
                }
                committed => return committed,
            }
        }
    }

    async fn try_move(
        self: &Arc<Self>,
        mut tx: Transaction,
        id: TaskId,
        (record, to): (Migrated, To<RawJson, RawJson>),
    ) -> Result<()> {
        self.check_ours(&tx)?;
        stage(&mut tx, id, record, to).await?;
        self.join(tx).await?.commit_until(self.closing.clone()).await.map(drop)
    }

    /// Commits the end of a task that did not do its work.
    pub(super) async fn commit_end(self: &Arc<Self>, id: TaskId, cut: Cut, left: Option<Left>) -> Result<()> {
        let (output, record, tx) = match left {
            Some(Left { output, record, tx }) => (output, Some(record), tx),
            None => (None, None, None),
        };
        let mut tx = match tx {
            Some(tx) => tx,
            None => self.session.begin_last().await?,
        };
        self.check_ours(&tx)?;
        let Some(task) = Forest::task(&tx, id).filter(|task| task.outcome().is_none()) else { return Ok(()) };
        if let Some(record) = record {
            tx.put_task(migrated(&task, record));
        }
        let outcome = match cut {
            Cut::Aborted(reason) => TaskOutcome::Aborted { reason, output },
            Cut::Faulted(error) => TaskOutcome::Faulted { error, output },
        };
        tx.end_task(id, outcome);
        tx.commit_until(self.closing.clone()).await.map(drop)
    }

    /// A transaction of another session would move whatever has the same number there.
    fn check_ours(&self, tx: &Transaction) -> Result<()> {
        match tx.session().is(&self.session) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "move a task of session {}: the transaction is of session {}",
                self.session.id(),
                tx.session().id()
            ))),
        }
    }

    /// Runs the step of a task that waits for what ends in a transaction and joins its commit. A step that does not come
    /// back with it, or with what cannot be stored, is left out of it, and runs by itself.
    async fn join(self: &Arc<Self>, tx: Transaction) -> Result<Transaction> {
        let Some(task) = self.joiner(&tx) else { return Ok(tx) };
        let kept = tx.copy()?;
        tx.begin_anew();
        let Some(joined) = self.step_in(&task, tx).await else {
            kept.begin_anew();
            return Ok(kept);
        };
        match joined.prove().await {
            // Only the store can tell whether these fit, and then it is too late to leave them out.
            Ok(()) if joined.asks_the_store() => Ok(kept),
            Ok(()) => Ok(joined),
            Err(error) => {
                tracing::warn!(session = %self.session.id(), task = %task.id, %error, "a step does not join a commit");
                Ok(kept)
            }
        }
    }

    /// A task whose next step can run in a transaction: it waits for nothing that lives any more. Not one that an earlier
    /// owner may have run: should it end its process, it must not take with it what it waited for.
    fn joiner(&self, tx: &Transaction) -> Option<Arc<TaskRecord>> {
        if self.is_closing() || self.is_held() {
            return None;
        }
        let waiters = tx.ended_tasks().into_iter().flat_map(|ended| tx.waiters(ended));
        let can_join = |task: &Arc<TaskRecord>| match &task.state {
            TaskState::Waiting { on, joined: true, .. } => {
                task.abort.is_none() && on.iter().all(|member| Forest::task(tx, *member).is_none())
            }
            _ => false,
        };
        let waiters = waiters.filter_map(|id| Forest::task(tx, id));
        waiters.filter(|task| !self.is_as_found(task.id)).find(can_join)
    }

    /// Runs a step inside a transaction; none where it did not come back with it.
    async fn step_in(self: &Arc<Self>, task: &TaskRecord, tx: Transaction) -> Option<Transaction> {
        let (loaded, registry) = self.load(task).ok()?;
        let cx = TaskContext::new(self, task, registry, CancelToken::new());
        cx.lend(tx);
        let code = loaded.step(cx.clone());
        let moved = self.supervise(&cx, code, Some(JOIN_MAX), |moved| moved.tx.as_ref()).await.ok()?;
        let Moved { to, record, tx } = moved;
        let mut tx = tx.or_else(|| cx.take_back())?;
        self.check_ours(&tx).ok()?;
        stage(&mut tx, task.id, record, to).await.ok()?;
        Some(tx)
    }
}

/// Stages a move.
async fn stage(tx: &mut Transaction, id: TaskId, record: Migrated, to: To<RawJson, RawJson>) -> Result<()> {
    let task = Forest::task(tx, id).filter(|task| task.outcome().is_none());
    let Some(task) = task else {
        return Err(Error::conflict(format!("move task {id}: it has ended")));
    };
    let mut task = migrated(&task, record);
    let state = match to {
        To::Go(next) => TaskState::Ready { checkpoint: Some(next) },
        To::Sleep(until, checkpoint) => TaskState::Sleeping { checkpoint, until },
        To::WaitSignal(signal, until, checkpoint) => {
            tx.limits().check_name("the name of a signal", &signal)?;
            return listen(tx, task, TaskState::Listening { checkpoint, signal, until });
        }
        To::WaitTasks(on, policy, joined, checkpoint) => {
            return wait(tx, task, TaskState::Waiting { checkpoint, on, policy, joined }).await;
        }
        To::Done(output) => return end(tx, task, TaskOutcome::Completed { output }),
        To::Fail(error, output) => return end(tx, task, TaskOutcome::Failed { error, output }),
    };
    task.go(state);
    tx.put_task(task);
    Ok(())
}

/// The record as its code has made it anew.
fn migrated(task: &TaskRecord, Migrated { version, input }: Migrated) -> TaskRecord {
    let mut task = task.clone();
    task.version = version;
    if let Some(input) = input {
        task.input = input;
    }
    task
}

fn end(tx: &mut Transaction, task: TaskRecord, outcome: TaskOutcome) -> Result<()> {
    let id = task.id;
    tx.put_task(task);
    tx.end_task(id, outcome);
    Ok(())
}

/// Stages a wait for a signal: it is over at once where one has come already.
fn listen(tx: &mut Transaction, mut task: TaskRecord, state: TaskState) -> Result<()> {
    let TaskState::Listening { signal, .. } = &state else { return Ok(()) };
    match task.signals.iter().position(|came| came.name == *signal) {
        Some(at) => {
            let signal = task.signals.remove(at);
            task.state = state;
            task.wake(Woken::Signal(signal));
        }
        None => task.go(state),
    }
    tx.put_task(task);
    Ok(())
}

/// Stages a wait for tasks: those that must not be waited for are refused, and what has ended already counts.
async fn wait(tx: &mut Transaction, mut task: TaskRecord, state: TaskState) -> Result<()> {
    let TaskState::Waiting { on, policy, .. } = &state else { return Ok(()) };
    let (id, on, policy) = (task.id, on.clone(), *policy);
    let above = tree::ancestors(tx, &task);
    for member in &on {
        if *member == id {
            return Err(Error::invalid(format!("task {id} waits for itself")));
        }
        if above.contains(member) {
            return Err(Error::invalid(format!("task {id} waits for task {member}, which is above it")));
        }
    }
    let outcomes = tx.outcomes(&on).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::invalid(format!("task {id} waits: {error}")),
        _ => error,
    })?;
    task.go(state);
    tx.put_task(task.clone());
    let failed = outcomes.into_iter().find(|(_, outcome)| !outcome.is_completed());
    if let (WaitPolicy::FailFast, Some((failed, _))) = (policy, failed) {
        tree::abort_others(tx, &task, failed);
    }
    Ok(())
}
