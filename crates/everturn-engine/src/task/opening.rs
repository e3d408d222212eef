//! The first look of an owner: what an earlier one left is counted before it is run.

use std::sync::Arc;

use everturn_core::{
    Result,
    id::TaskId,
    task::{
        Next, TaskRecord,
        tree::{self, Reach},
    },
};

use super::{Runner, scheduler::ATTEMPTS_MAX};

/// How many tasks are counted in one commit.
const COUNTED_MAX: usize = 256;

/// Why tasks end that are not carried on.
const RESTART: &str = "restart";

/// Counts an attempt for each task that is about to run and that an earlier owner may have run; stops those that are not
/// to be carried on; notes which cannot be run for want of code.
///
/// Promise: nothing of what an earlier owner left is run before that is stored.
pub(super) async fn open(runner: &Arc<Runner>) {
    while let Err(error) = all(runner).await {
        let is_over = runner.is_closing() || runner.session.0.check_open().is_err();
        if is_over {
            return;
        }
        tracing::warn!(session = %runner.session.id(), %error, "what was left cannot be counted yet; trying again");
        runner.pause(std::time::Duration::from_millis(500)).await;
    }
    runner.opened();
}

async fn all(runner: &Arc<Runner>) -> Result<()> {
    abandon(runner).await?;
    let carried = runner.session.0.state().live.tasks().map(|task| task.id).collect::<Vec<_>>();
    let carried: Vec<TaskId> = carried.into_iter().filter(|id| runner.is_carried(*id)).collect();
    let due: Vec<TaskId> = carried.into_iter().filter(|id| is_about_to_run(runner, *id)).collect();
    for some in due.chunks(COUNTED_MAX) {
        count(runner, some).await?;
    }
    Ok(())
}

fn is_about_to_run(runner: &Runner, id: TaskId) -> bool {
    runner.look(id).is_some_and(|(_, next)| matches!(next, Next::Step | Next::Abort))
}

/// Tells those to stop that are not carried on.
async fn abandon(runner: &Runner) -> Result<()> {
    let is_abandoned = |task: &&Arc<TaskRecord>| task.abandon_on_restart && task.abort.is_none();
    let abandoned: Vec<TaskId> = {
        let state = runner.session.0.state();
        let found = state.live.tasks().filter(is_abandoned).map(|task| task.id);
        found.filter(|id| runner.was_found(*id)).collect()
    };
    if abandoned.is_empty() {
        return Ok(());
    }
    let mut tx = runner.session.begin_last().await?;
    for id in abandoned {
        tree::abort(&mut tx, id, RESTART, Reach::Ordinary);
    }
    tx.commit_until(runner.closing.clone()).await.map(drop)
}

async fn count(runner: &Runner, ids: &[TaskId]) -> Result<()> {
    let mut tx = runner.session.begin_last().await?;
    for id in ids {
        // What moved meanwhile is no longer an earlier owner's.
        let Some(task) = tx.task(*id).filter(|_| runner.is_carried(*id)) else { continue };
        if let Some(counted) = counted(runner, &task) {
            tx.put_task(counted);
        }
    }
    tx.commit_until(runner.closing.clone()).await.map(drop)
}

/// The record with one more attempt, or with what blocks it; none where neither is news.
fn counted(runner: &Runner, task: &TaskRecord) -> Option<TaskRecord> {
    match runner.load(task) {
        Ok(_) if task.attempts > ATTEMPTS_MAX => None,
        Ok(_) => Some(TaskRecord { attempts: task.attempts + 1, ..task.clone() }),
        Err(blocked) => {
            runner.note_blocked(task.id, blocked.clone());
            let is_news = task.blocked.as_ref() != Some(&blocked);
            is_news.then(|| TaskRecord { blocked: Some(blocked), ..task.clone() })
        }
    }
}
