//! One run of a task's code: from the record to the commit of what came of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    BoxFuture, CancelToken, Error, ErrorKind, Result,
    id::TaskId,
    task::{Blocked, BlockedBy, Next, TaskFailure, TaskOutcome, TaskRecord, TaskState, Woken},
};

use super::{Runner, TaskContext, TaskError, code::Loaded, scheduler::ATTEMPTS_MAX, settle::Cut};
use crate::{Transaction, session::is_final};

/// How long a task waits before it is tried again after storage refused.
const RETRY: Duration = Duration::from_millis(500);

/// How long the code may take that says what a faulted task leaves.
const FAULT_MAX: Duration = Duration::from_secs(30);

/// How much is kept of what escaped, in bytes.
const FAILURE_MAX: usize = 16 << 10;

/// How often a move that collides with what others committed is decided anew, before it counts as wrong.
const COLLISIONS_MAX: u32 = 3;

/// What kept a run from giving what it was to give.
pub(super) enum Trouble {
    /// An error escaped.
    Escaped(TaskError),
    /// It panicked.
    Panicked(String),
    /// Its deadline passed.
    TimedOut(Duration),
    /// It was told to stop, and did not.
    GivenUp,
}

impl Trouble {
    /// What a record says of it.
    fn failure(&self) -> TaskFailure {
        match self {
            Self::Escaped(error) => within_limit(error.failure()),
            Self::Panicked(message) => within_limit(&TaskFailure::new("panic", message)),
            Self::TimedOut(after) => {
                TaskFailure::new("timed_out", format!("its step had not ended after {after:?}"))
            }
            Self::GivenUp => TaskFailure::new("given_up", "it was told to stop and did not"),
        }
    }

    fn engine(&self) -> Option<&Error> {
        match self {
            Self::Escaped(error) => error.engine(),
            _ => None,
        }
    }
}

/// A failure that can be kept, whatever its code put into it.
fn within_limit(failure: &TaskFailure) -> TaskFailure {
    let cut = |text: &str, limit: usize| text[..text.floor_char_boundary(limit)].to_owned();
    let detail = failure.detail.clone().filter(|detail| detail.get().len() <= FAILURE_MAX);
    TaskFailure { kind: cut(&failure.kind, 256), message: cut(&failure.message, FAILURE_MAX), detail }
}

/// How long to wait before the same is tried again; none where trying again cannot help. A transaction that expired (a
/// process that was stopped in the middle of it) stored nothing either.
fn pause_after(error: &Error) -> Option<Duration> {
    match error.kind() {
        ErrorKind::Unavailable { retry_after } => Some(retry_after.unwrap_or(RETRY)),
        ErrorKind::Expired => Some(RETRY),
        _ => None,
    }
}

impl Runner {
    /// Does what is next for a task; gives how long to wait before the same is tried again.
    pub(super) async fn run(self: &Arc<Self>, id: TaskId, token: CancelToken) -> Option<Duration> {
        let (task, next) = self.look(id)?;
        let done = match next {
            Next::Step => self.step(&task, token).await,
            Next::Abort => self.abort(&task, self.begin_end(id)).await,
            Next::TimeOut => self.time_out(id).await,
            Next::At(_) | Next::Rest => Ok(()),
        };
        let error = done.err()?;
        let is_collision = matches!(error.kind(), ErrorKind::Conflict);
        let pause = pause_after(&error).or(is_collision.then_some(RETRY));
        match pause {
            Some(_) => {
                tracing::warn!(session = %self.session.id(), task = %id, %error, "nothing was stored; trying again");
            }
            None if is_final(&error) => {
                tracing::debug!(session = %self.session.id(), task = %id, %error, "a step ended with its session");
                self.session.0.shut(error);
            }
            None => {
                tracing::error!(session = %self.session.id(), task = %id, %error, "the task cannot be ended");
                self.session.0.shut(error);
            }
        }
        pause
    }

    async fn step(self: &Arc<Self>, task: &TaskRecord, token: CancelToken) -> Result<()> {
        let loaded = match self.load(task) {
            Ok(loaded) => loaded,
            Err(blocked) => return self.block(task, blocked).await,
        };
        if task.attempts > ATTEMPTS_MAX {
            let message =
                format!("its step was begun {ATTEMPTS_MAX} times, and each time the process ended with it");
            return self.fault(task.id, TaskFailure::new("crash_loop", message)).await;
        }
        let (cx, deadline) = (TaskContext::new(self, task, token), loaded.deadline());
        match self.supervise(&cx, loaded.step(cx.clone()), deadline, |moved| moved.tx.as_ref()).await {
            Ok(moved) => match self.commit_move(task.id, moved).await {
                Ok(()) => Ok(()),
                Err(error) => self.escaped(task.id, Trouble::Escaped(error.into())).await,
            },
            Err(trouble) => self.escaped(task.id, trouble).await,
        }
    }

    async fn abort(self: &Arc<Self>, task: &TaskRecord, token: CancelToken) -> Result<()> {
        let reason = task.abort.clone().unwrap_or_default();
        let loaded = match self.load(task) {
            Ok(loaded) => loaded,
            Err(blocked) => return self.orphan(task.id, &reason, &blocked).await,
        };
        let (cx, deadline) = (TaskContext::new(self, task, token), loaded.deadline());
        let left = self.supervise(&cx, loaded.abort(cx.clone()), deadline, |left| left.tx.as_ref()).await;
        let trouble = match left {
            Ok(left) => match self.commit_end(task.id, Cut::Aborted(reason), Some(left)).await {
                Ok(()) => return Ok(()),
                Err(error) => Trouble::Escaped(error.into()),
            },
            Err(trouble) => trouble,
        };
        self.failed(task.id, trouble).await
    }

    /// The time of a wait for a signal is up: committed, so that whoever runs the step next is told the same.
    async fn time_out(&self, id: TaskId) -> Result<()> {
        let mut tx = self.session.begin_last().await?;
        let Some(task) = tx.task(id) else { return Ok(()) };
        let TaskState::Listening { checkpoint, until: Some(until), .. } = &task.state else { return Ok(()) };
        if *until > tx.time() || task.abort.is_some() {
            return Ok(());
        }
        let (checkpoint, mut task) = (Some(checkpoint.clone()), TaskRecord::clone(&task));
        task.go(TaskState::Ready { checkpoint });
        task.woken = Some(Woken::TimedOut);
        tx.put_task(task);
        tx.commit_until(self.closing.clone()).await.map(drop)
    }

    /// What follows when a step gave no move, or one that could not be stored.
    async fn escaped(self: &Arc<Self>, id: TaskId, trouble: Trouble) -> Result<()> {
        let is_aborted = self.record(id).is_none_or(|task| task.abort.is_some());
        if is_aborted
            && !trouble.engine().is_some_and(|error| pause_after(error).is_some() || is_final(error))
        {
            // Its end in order is next.
            return Ok(());
        }
        self.failed(id, trouble).await
    }

    /// What follows when a task's code failed: where storage or the session did, only this run is over.
    async fn failed(self: &Arc<Self>, id: TaskId, trouble: Trouble) -> Result<()> {
        if self.is_closing() {
            return Ok(());
        }
        match trouble.engine() {
            Some(error) if pause_after(error).is_some() || is_final(error) => return Err(error.clone()),
            Some(error)
                if matches!(error.kind(), ErrorKind::Conflict) && self.collided(id) < COLLISIONS_MAX =>
            {
                return Ok(());
            }
            _ => {}
        }
        self.fault(id, trouble.failure()).await
    }

    /// Ends a task whose code is broken.
    async fn fault(self: &Arc<Self>, id: TaskId, failure: TaskFailure) -> Result<()> {
        tracing::warn!(session = %self.session.id(), task = %id, error = %failure, "a task is faulted");
        loop {
            let Some(task) = self.record(id).filter(|task| task.outcome().is_none()) else { return Ok(()) };
            let left = match self.load(&task) {
                Ok(loaded) => self.remains(&task, loaded, failure.clone()).await,
                Err(_) => Ok(None),
            };
            let ended = match left {
                Ok(left) => self.commit_end(id, Cut::Faulted(failure.clone()), left).await,
                Err(error) => Err(error),
            };
            match ended {
                Err(error) if pause_after(&error).is_some() && !self.is_closing() => {
                    self.pause(pause_after(&error).unwrap_or(RETRY)).await;
                }
                // What its code wanted to leave cannot be stored.
                Err(error) if !is_final(&error) && !self.is_closing() => {
                    tracing::warn!(session = %self.session.id(), task = %id, %error, "a faulted task leaves nothing");
                    return self.commit_end(id, Cut::Faulted(failure), None).await;
                }
                ended => return ended,
            }
        }
    }

    /// What a faulted task leaves; nothing where that code is broken too.
    async fn remains(
        self: &Arc<Self>,
        task: &TaskRecord,
        loaded: Box<dyn Loaded>,
        failure: TaskFailure,
    ) -> Result<Option<super::step::Left>> {
        let cx = TaskContext::new(self, task, CancelToken::new());
        let code = loaded.fault(cx.clone(), failure);
        match self.supervise(&cx, code, Some(FAULT_MAX), |left| left.tx.as_ref()).await {
            Ok(left) => Ok(Some(left)),
            Err(trouble) => match trouble.engine() {
                Some(error) if pause_after(error).is_some() || is_final(error) => Err(error.clone()),
                _ => {
                    let error = trouble.failure();
                    tracing::warn!(session = %self.session.id(), task = %task.id, %error, "a faulted task leaves nothing");
                    Ok(None)
                }
            },
        }
    }

    /// Runs code in a task of its own, so that it can be given up: once its token has fired (past its deadline at the
    /// latest) it has a grace to end by itself. The context ends with it.
    pub(super) async fn supervise<T: Send + 'static>(
        &self,
        cx: &TaskContext,
        code: BoxFuture<'static, Result<T, TaskError>>,
        deadline: Option<Duration>,
        tx: impl Fn(&T) -> Option<&Transaction>,
    ) -> Result<T, Trouble> {
        let (clock, token, grace) = (&self.session.0.opener.world.clock, cx.cancel(), self.host.limits.grace);
        let mut code = tokio::spawn(code);
        let is_late = AtomicBool::new(false);
        let given_up = async {
            token.cancelled().await;
            clock.sleep(grace).await;
        };
        let late = async {
            match deadline {
                Some(deadline) => clock.sleep(deadline).await,
                None => std::future::pending().await,
            }
            is_late.store(true, Ordering::SeqCst);
            token.cancel();
            std::future::pending::<()>().await;
        };
        let came = tokio::select! {
            biased;
            came = &mut code => Some(came),
            () = given_up => None,
            () = late => None,
        };
        let late = deadline.filter(|_| is_late.load(Ordering::SeqCst)).map(Trouble::TimedOut);
        let came = match came {
            Some(Ok(Ok(value))) => Ok(value),
            Some(Ok(Err(error))) => Err(late.unwrap_or(Trouble::Escaped(error))),
            Some(Err(fault)) => Err(match fault.try_into_panic() {
                Ok(panic) => Trouble::Panicked(panic_text(&*panic).to_owned()),
                Err(_) => Trouble::GivenUp,
            }),
            None => {
                code.abort();
                Err(late.unwrap_or(Trouble::GivenUp))
            }
        };
        cx.end(came.as_ref().ok().and_then(tx));
        came
    }

    /// The code of a record, with what it reads of it.
    ///
    /// Errors: why it cannot be run.
    pub(super) fn load(&self, task: &TaskRecord) -> Result<Box<dyn Loaded>, Blocked> {
        let kind = &task.kind;
        match self.host.task(kind) {
            Some(code) => code.load(task),
            None => Err(Blocked {
                by: BlockedBy::Missing,
                needs: task.version,
                message: format!("no code of kind {kind} is installed"),
            }),
        }
    }

    /// Notes that a task waits for its code, in memory and, where that is news, in its record.
    async fn block(&self, task: &TaskRecord, blocked: Blocked) -> Result<()> {
        self.note_blocked(task.id, blocked.clone());
        if task.blocked.as_ref() == Some(&blocked) {
            return Ok(());
        }
        let mut tx = self.session.begin_last().await?;
        if let Some(task) = tx.task(task.id).filter(|task| task.outcome().is_none()) {
            tracing::info!(session = %self.session.id(), task = %task.id, %blocked, "a task waits for its code");
            tx.put_task(TaskRecord { blocked: Some(blocked), ..TaskRecord::clone(&task) });
            tx.commit().await?;
        }
        Ok(())
    }

    /// Ends a task that was told to stop and has no code to stop it in order.
    async fn orphan(&self, id: TaskId, reason: &str, blocked: &Blocked) -> Result<()> {
        let mut tx = self.session.begin_last().await?;
        tx.end_task(id, TaskOutcome::Orphaned { reason: format!("{reason}; {blocked}") });
        tx.commit_until(self.closing.clone()).await?;
        self.settled(&[id]);
        Ok(())
    }

    /// Waits before storage is asked again; not when the session closes.
    pub(super) async fn pause(&self, duration: Duration) {
        // Whoever says that it may be tried again at once must not keep the thread.
        tokio::task::yield_now().await;
        tokio::select! {
            () = self.session.0.opener.world.clock.sleep(duration) => {}
            () = self.closing.cancelled() => {}
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}
