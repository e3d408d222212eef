//! One loop over ready tasks. There is no recovery: what a session's records say is ready is run.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    CancelToken, Error, ErrorKind, Result,
    id::TaskId,
    task::{TaskRecord, TaskState},
};
use futures_util::FutureExt;
use tokio::sync::Notify;

use super::{
    call,
    live::{LiveInner, LiveSession},
    turn,
};

/// How long a task waits before it is tried again after storage refused.
const RETRY: Duration = Duration::from_millis(500);

/// Runs the ready tasks of one session.
#[derive(Default)]
pub(crate) struct Scheduler {
    running: Mutex<HashMap<TaskId, CancelToken>>,
    wake: Arc<Notify>,
    idle: Notify,
    is_started: AtomicBool,
    is_closing: AtomicBool,
}

impl Scheduler {
    fn running(&self) -> MutexGuard<'_, HashMap<TaskId, CancelToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the scheduler look at the records again; the first time starts it.
    pub(crate) fn wake(live: &LiveSession) {
        let scheduler = &live.0.scheduler;
        if !scheduler.is_started.swap(true, Ordering::AcqRel) {
            tokio::spawn(drive(Arc::downgrade(&live.0), scheduler.wake.clone()));
        }
        scheduler.wake.notify_one();
    }

    /// Tells running tasks to stop.
    pub(crate) fn cancel(&self, ids: &[TaskId]) {
        let running = self.running();
        ids.iter().filter_map(|id| running.get(id)).for_each(CancelToken::cancel);
    }

    /// Starts nothing more, tells everything that runs to stop, and waits until it has.
    pub(crate) async fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wake.notify_one();
        loop {
            let ended = self.idle.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            {
                let running = self.running();
                if running.is_empty() {
                    return;
                }
                running.values().for_each(CancelToken::cancel);
            }
            ended.await;
        }
    }
}

/// The loop: starts what is ready and not running, then waits until something has changed. It does not keep the
/// session alive.
async fn drive(weak: Weak<LiveInner>, wake: Arc<Notify>) {
    while let Some(live) = weak.upgrade().map(LiveSession) {
        if live.is_closing() || live.check_open().is_err() {
            return;
        }
        for id in live.ready() {
            start(&live, id);
        }
        drop(live);
        wake.notified().await;
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // The loop wakes, finds the session gone, and ends.
        self.wake.notify_one();
    }
}

fn start(live: &LiveSession, id: TaskId) {
    let token = CancelToken::new();
    if live.0.scheduler.running().insert(id, token.clone()).is_some() {
        return;
    }
    let live = live.clone();
    tokio::spawn(async move {
        let stepped = AssertUnwindSafe(step(&live, id, token)).catch_unwind().await;
        if let Some(error) = escaped(stepped) {
            live.task_failed(id, &error).await;
        }
        live.0.scheduler.running().remove(&id);
        live.0.scheduler.wake.notify_one();
        live.0.scheduler.idle.notify_waiters();
    });
}

async fn step(live: &LiveSession, id: TaskId, token: CancelToken) -> Result<()> {
    match live.task(id) {
        Some(task) if task.kind == turn::KIND => turn::step(live, id, token).await,
        Some(task) if task.kind == call::KIND => call::step(live, id, token).await,
        // A task whose code is not installed stays live, and waits for its code.
        _ => Ok(()),
    }
}

fn escaped(stepped: std::result::Result<Result<()>, Box<dyn std::any::Any + Send>>) -> Option<Error> {
    match stepped {
        Ok(result) => result.err(),
        Err(panic) => Some(Error::invalid(format!("a step panicked: {}", call::panic_text(&*panic)))),
    }
}

impl LiveSession {
    /// Whether the session is closing: nothing more is started, and what was cut off leaves its record as it is.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.scheduler.is_closing.load(Ordering::Acquire)
    }

    /// The tasks that can go on: ready, or waiting for tasks that have all ended; not those that run.
    fn ready(&self) -> Vec<TaskId> {
        let state = self.session().0.state();
        let running = self.0.scheduler.running();
        let can_go_on = |task: &TaskRecord| match &task.state {
            TaskState::Ready { .. } => true,
            TaskState::Waiting { on, .. } => on.iter().all(|id| !state.live.tasks.contains_key(id)),
            _ => false,
        };
        let is_ours = |task: &TaskRecord| task.kind == turn::KIND || task.kind == call::KIND;
        let tasks = state.live.tasks.values();
        tasks
            .filter(|task| is_ours(task) && can_go_on(task) && !running.contains_key(&task.id))
            .map(|task| task.id)
            .collect()
    }

    /// An error escaped a step. Storage that refuses for now is waited for; what no retry can mend ends the task.
    async fn task_failed(&self, id: TaskId, error: &Error) {
        tracing::warn!(session = %self.id(), task = %id, %error, "a step ended in an error");
        match error.kind() {
            ErrorKind::Unavailable { retry_after } => {
                self.shared().opener.world.clock.sleep(retry_after.unwrap_or(RETRY)).await;
            }
            ErrorKind::Closed { .. }
            | ErrorKind::Fenced
            | ErrorKind::Corrupt { .. }
            | ErrorKind::Newer { .. } => {}
            _ => {
                if let Err(again) = self.fault(id, error).await {
                    tracing::error!(session = %self.id(), task = %id, error = %again, "the task cannot be ended");
                }
            }
        }
    }

    /// Commits, and tries again while storage refuses for now: what happened is not forgotten, and not done again.
    pub(crate) async fn insist<F, Out, T>(&self, commit: F) -> Result<()>
    where
        F: Fn() -> Out,
        Out: Future<Output = Result<T>>,
    {
        loop {
            match commit().await {
                Ok(_) => return Ok(()),
                Err(error) => match error.kind() {
                    ErrorKind::Unavailable { retry_after } if !self.is_closing() => {
                        tracing::warn!(session = %self.id(), %error, "storage refused; trying again");
                        self.shared().opener.world.clock.sleep(retry_after.unwrap_or(RETRY)).await;
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}
