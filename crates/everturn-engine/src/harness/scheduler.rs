//! One loop over ready tasks. There is no recovery: what a session's records say is ready is run.

use std::{
    collections::{HashMap, HashSet},
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
use crate::session::is_final;

/// How long a task waits before it is tried again after storage refused.
const RETRY: Duration = Duration::from_millis(500);

/// Runs the ready tasks of one session.
#[derive(Default)]
pub(crate) struct Scheduler {
    running: Mutex<Running>,
    /// Told when a task has stopped running.
    idle: Notify,
    is_started: AtomicBool,
    /// Fires when nothing more is started.
    closing: CancelToken,
}

#[derive(Default)]
struct Running {
    tokens: HashMap<TaskId, CancelToken>,
    /// Tasks whose effect was begun by this owner: a request was sent, a tool was entered. What ends in an error after
    /// that goes by the replay contract, as after a crash.
    entered: HashSet<TaskId>,
    /// Whether nothing more is started. Here, so that closing and starting cannot miss each other.
    is_closing: bool,
}

impl Scheduler {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the loop, the first time; from then on it looks at the records whenever a commit moved a task.
    pub(crate) fn start(live: &LiveSession) {
        if !live.0.scheduler.is_started.swap(true, Ordering::AcqRel) {
            tokio::spawn(drive(Arc::downgrade(&live.0), live.session().0.attention.clone()));
        }
    }

    /// Notes that a task's effect begins now.
    pub(crate) fn enter(&self, id: TaskId) {
        self.running().entered.insert(id);
    }

    /// Notes that what came of a task's effect is stored.
    pub(crate) fn settled(&self, id: TaskId) {
        self.running().entered.remove(&id);
    }

    /// Whether a task's effect was begun by this owner, and what came of it is not stored.
    pub(crate) fn was_entered(&self, id: TaskId) -> bool {
        self.running().entered.contains(&id)
    }

    /// Starts nothing more, and tells everything that runs to stop.
    pub(crate) fn stop(&self) {
        let mut running = self.running();
        running.is_closing = true;
        running.tokens.values().for_each(CancelToken::cancel);
        drop(running);
        self.closing.cancel();
    }

    /// Waits until nothing runs.
    pub(crate) async fn stopped(&self) {
        loop {
            let mut ended = std::pin::pin!(self.idle.notified());
            ended.as_mut().enable();
            if self.running().tokens.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

/// The loop: starts what is ready and not running, and stops what was told to, whenever a commit moved a task. It does
/// not keep the session alive.
async fn drive(weak: Weak<LiveInner>, attention: Arc<Notify>) {
    while let Some(live) = weak.upgrade().map(LiveSession::of) {
        if live.check_open().is_err() {
            // Whoever owns the session now may do the same work: what runs here stops.
            live.0.scheduler.stop();
        }
        if live.is_closing() {
            return;
        }
        live.cancel_aborted();
        for id in live.ready() {
            start(&live, id);
        }
        drop(live);
        attention.notified().await;
    }
}

impl Drop for LiveInner {
    fn drop(&mut self) {
        // The loop wakes, finds the session gone, and ends.
        self.session().0.attention.notify_one();
    }
}

fn start(live: &LiveSession, id: TaskId) {
    let token = CancelToken::new();
    {
        let mut running = live.0.scheduler.running();
        if running.is_closing || running.tokens.contains_key(&id) {
            return;
        }
        running.tokens.insert(id, token.clone());
    }
    let live = live.clone();
    tokio::spawn(async move {
        let stepped = AssertUnwindSafe(step(&live, id, token)).catch_unwind().await;
        if let Some(error) = escaped(stepped) {
            live.task_failed(id, &error).await;
        }
        live.0.scheduler.running().tokens.remove(&id);
        live.0.scheduler.idle.notify_waiters();
        live.session().0.attention.notify_one();
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

/// How long to wait before the same change is tried again; none where trying again cannot help. A transaction that
/// expired (a process that was stopped in the middle of it) stored nothing either.
fn pause_after(error: &Error) -> Option<Duration> {
    match error.kind() {
        ErrorKind::Unavailable { retry_after } => Some(retry_after.unwrap_or(RETRY)),
        ErrorKind::Expired => Some(RETRY),
        _ => None,
    }
}

impl LiveSession {
    /// Whether the session is closing: nothing more is started, and what was cut off leaves its record as it is.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.scheduler.closing.is_cancelled()
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
            .filter(|task| is_ours(task) && can_go_on(task) && !running.tokens.contains_key(&task.id))
            .map(|task| task.id)
            .collect()
    }

    /// Tells running tasks to stop whose records say so.
    fn cancel_aborted(&self) {
        let state = self.session().0.state();
        for (id, token) in &self.0.scheduler.running().tokens {
            if state.live.tasks.get(id).is_some_and(|task| task.abort.is_some()) {
                token.cancel();
            }
        }
    }

    /// An error escaped a step. Storage that refuses for now is waited for; what no retry can mend ends the task; where
    /// not even that can be stored, the session is given up with the reason.
    async fn task_failed(&self, id: TaskId, error: &Error) {
        if let Some(pause) = pause_after(error) {
            tracing::warn!(session = %self.id(), task = %id, %error, "nothing was stored; trying again");
            self.pause(pause).await;
        } else if is_final(error) {
            tracing::debug!(session = %self.id(), task = %id, %error, "a step ended with its session");
            self.session().0.shut(error.clone());
        } else if let Err(again) = self.insist(|| self.fault(id, error)).await {
            tracing::error!(session = %self.id(), task = %id, error = %again, "the task cannot be ended");
            self.session().0.shut(again);
        }
    }

    /// Waits before storage is asked again; not when the session closes.
    async fn pause(&self, duration: Duration) {
        let clock = &self.shared().opener.world.clock;
        tokio::select! {
            () = clock.sleep(duration) => {}
            () = self.0.scheduler.closing.cancelled() => {}
        }
    }

    /// Commits, and tries again while storage refuses for now: what happened is not forgotten, and not done again.
    pub(crate) async fn insist<F, Out, T>(&self, commit: F) -> Result<()>
    where
        F: Fn() -> Out,
        Out: Future<Output = Result<T>>,
    {
        for refused in 0_u64.. {
            match commit().await {
                Ok(_) => break,
                Err(error) => match pause_after(&error).filter(|_| !self.is_closing()) {
                    Some(pause) => {
                        // Told once, and again every minute or so.
                        if refused.is_multiple_of(120) {
                            tracing::warn!(session = %self.id(), %error, "nothing was stored; trying until it is");
                        }
                        self.pause(pause).await;
                    }
                    None => return Err(error),
                },
            }
        }
        Ok(())
    }
}
