//! The first look of an owner: what an earlier one left is counted before it is run.

use std::sync::Arc;

use everturn_core::{
    Result,
    id::TaskId,
    storage::weight_of_task,
    task::{
        Next, TaskRecord,
        tree::{self, Reach},
    },
};

use super::{Runner, run::RETRY, table::is_suspect};

/// How many tasks are counted in one commit at most, and after how many bytes it is full.
const COUNTED_MAX: usize = 256;
const BYTES_MAX: u64 = 1 << 20;

/// Why tasks end that are not carried on.
const RESTART: &str = "restart";

/// Counts an attempt for each task that is about to run and that an earlier owner may have died with; stops those that are
/// not to be carried on; notes which cannot be run for want of code; looks after what waits for nothing that lives. Runs none
/// of their code.
///
/// Promise: nothing of what an earlier owner left is run before that is stored.
pub(super) async fn open(runner: &Arc<Runner>) {
    while let Err(error) = all(runner).await {
        if runner.is_closing() || runner.session.0.check_open().is_err() {
            return;
        }
        tracing::warn!(session = %runner.session.id(), %error, "what was left cannot be counted yet; trying again");
        runner.pause(RETRY).await;
    }
    runner.opened();
}

async fn all(runner: &Arc<Runner>) -> Result<()> {
    for some in chunks(runner, &abandoned(runner)) {
        abandon(runner, some).await?;
    }
    let found: Vec<TaskId> = {
        let state = runner.session.0.state();
        state.live.tasks().map(|task| task.id).collect()
    };
    let found: Vec<TaskId> = found.into_iter().filter(|id| is_about_to_run(runner, *id)).collect();
    for some in chunks(runner, &found) {
        count(runner, some).await?;
    }
    runner.pick_up().await;
    Ok(())
}

/// Parts that fit into a commit each.
fn chunks<'a>(runner: &Runner, ids: &'a [TaskId]) -> Vec<&'a [TaskId]> {
    let weight = |id: &TaskId| runner.record(*id).map_or(0, |task| weight_of_task(&task));
    let (mut chunks, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, id) in ids.iter().enumerate() {
        bytes += weight(id);
        if bytes >= BYTES_MAX || at + 1 - begin == COUNTED_MAX {
            chunks.push(&ids[begin..=at]);
            (begin, bytes) = (at + 1, 0);
        }
    }
    chunks.push(&ids[begin..]);
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

fn is_about_to_run(runner: &Runner, id: TaskId) -> bool {
    runner.is_carried(id)
        && !runner.is_counted(id)
        && runner.look(id).is_some_and(|(_, next)| matches!(next, Next::Step | Next::Abort))
}

/// Those that are not carried on.
fn abandoned(runner: &Runner) -> Vec<TaskId> {
    let is_abandoned = |task: &&Arc<TaskRecord>| task.abandon_on_restart && task.abort.is_none();
    let state = runner.session.0.state();
    let found = state.live.tasks().filter(is_abandoned).map(|task| task.id);
    found.filter(|id| runner.was_found(*id)).collect()
}

async fn abandon(runner: &Runner, ids: &[TaskId]) -> Result<()> {
    let mut tx = runner.session.begin_last().await?;
    for id in ids {
        tree::abort(&mut tx, *id, RESTART, Reach::Ordinary);
    }
    tx.commit_until(runner.closing.clone()).await.map(drop)
}

async fn count(runner: &Runner, ids: &[TaskId]) -> Result<()> {
    let (mut tx, mut news) = (runner.session.begin_last().await?, Vec::new());
    for id in ids {
        // What moved meanwhile is no longer an earlier owner's.
        let Some(task) = tx.task(*id).filter(|_| runner.is_carried(*id)) else { continue };
        if let Some(counted) = counted(runner, &task) {
            news.extend((counted.attempts > task.attempts).then_some(*id));
            tx.put_task(counted);
        }
    }
    tx.commit_until(runner.closing.clone()).await?;
    runner.counted(news);
    Ok(())
}

/// The record with one more attempt, or with what blocks it; none where neither is news.
fn counted(runner: &Runner, task: &TaskRecord) -> Option<TaskRecord> {
    let registry = runner.host.registry();
    match runner.host.code(&registry, task) {
        // An owner that gave the session up in order did not die with it. Suspects are counted when they run.
        Ok(_) if !runner.session.was_left_behind() || is_suspect(task) => None,
        Ok(_) => Some(TaskRecord { attempts: task.attempts + 1, ..task.clone() }),
        Err(blocked) => {
            runner.note_blocked(task.id, blocked.clone(), registry);
            let is_news = task.blocked.as_ref() != Some(&blocked);
            is_news.then(|| TaskRecord { blocked: Some(blocked), ..task.clone() })
        }
    }
}
