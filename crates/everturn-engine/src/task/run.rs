//! One run of a task's code: from the record to the commit of what came of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    BoxFuture, CancelToken, Result,
    id::TaskId,
    task::{Blocked, Next, TaskFailure, TaskOutcome, TaskRecord, TaskState, Woken},
};
use tracing::Instrument;

use super::{
    Runner, TaskContext, TaskError,
    code::{Loaded, Unloaded},
    scheduler::{ATTEMPTS_MAX, STUCK},
    settle::Cut,
    step::Left,
    trouble::{Passing, Trouble, is_loss},
};
use crate::{Registry, Transaction};

/// How long to wait before what storage refused is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// How long the code may take that says what a faulted task leaves.
const FAULT_MAX: Duration = Duration::from_secs(30);

/// How often a run whose move could not be stored for want of a transaction is run again, before it counts as wrong.
const LOSSES_MAX: u32 = 3;

/// How long the end in order of a task may take that names no deadline.
const ABORT_MAX: Duration = Duration::from_secs(300);

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
        let session = self.session.id();
        if self.session.0.check_open().is_err() {
            tracing::debug!(%session, task = %id, %error, "a run ended with its session");
            return None;
        }
        if error.is_passing() || is_loss(&error) {
            tracing::warn!(%session, task = %id, %error, "nothing was stored; trying again");
            return Some(error.retry_after().unwrap_or(RETRY));
        }
        tracing::error!(%session, task = %id, %error, "what comes next for a task cannot be stored");
        Some(STUCK)
    }

    async fn step(self: &Arc<Self>, task: &TaskRecord, token: CancelToken) -> Result<()> {
        let suspected = self.suspect(task, &token).await?;
        if self.is_crash_loop(task).await? {
            return self.crash_loop(task.id).await;
        }
        let (loaded, registry) = match self.load(task) {
            Ok(loaded) => loaded,
            Err(unloaded) => return self.unloaded(task, unloaded).await,
        };
        let (cx, deadline) = (TaskContext::new(self, task, registry, token), loaded.deadline());
        let code = self.supervise(&cx, loaded.step(cx.clone()), deadline, |moved| moved.tx.as_ref());
        let trouble = match suspected.watch(code).await {
            Ok(moved) => match self.commit_move(task.id, moved).await {
                Ok(()) => return Ok(()),
                Err(error) => Trouble::Refused(error),
            },
            Err(trouble) => trouble,
        };
        self.escaped(task.id, trouble).await
    }

    async fn abort(self: &Arc<Self>, task: &TaskRecord, token: CancelToken) -> Result<()> {
        let reason = task.abort.clone().unwrap_or_default();
        let suspected = self.suspect(task, &token).await?;
        if self.is_crash_loop(task).await? {
            return self.crash_loop(task.id).await;
        }
        let (loaded, registry) = match self.load(task) {
            Ok(loaded) => loaded,
            Err(Unloaded::Blocked(blocked)) => return self.orphan(task.id, &reason, &blocked).await,
            Err(unloaded) => return self.unloaded(task, unloaded).await,
        };
        let deadline = Some(loaded.deadline().unwrap_or(ABORT_MAX));
        let cx = TaskContext::new(self, task, registry, token);
        let code = self.supervise(&cx, loaded.abort(cx.clone()), deadline, |left| left.tx.as_ref());
        let trouble = match suspected.watch(code).await {
            Ok(left) => match self.commit_end(task.id, Cut::Aborted(reason), Some(left)).await {
                Ok(()) => return Ok(()),
                Err(error) => Trouble::Refused(error),
            },
            Err(trouble) => trouble,
        };
        self.failed(task.id, trouble).await
    }

    /// What follows when the code of a task could not begin.
    async fn unloaded(self: &Arc<Self>, task: &TaskRecord, unloaded: Unloaded) -> Result<()> {
        match unloaded {
            Unloaded::Blocked(blocked) => self.block(task, blocked).await,
            Unloaded::Panicked(message) => self.failed(task.id, Trouble::Panicked(message)).await,
        }
    }

    /// Whether a task's step has ended its process too often. Who was not counted when this owner first looked (a suspect;
    /// one whose code came later) is counted here, before it runs.
    async fn is_crash_loop(&self, task: &TaskRecord) -> Result<bool> {
        let was_left_with_it = self.is_carried(task.id) && self.session.was_left_behind();
        if !was_left_with_it || self.is_counted(task.id) {
            return Ok(task.attempts >= ATTEMPTS_MAX);
        }
        let mut tx = self.session.begin_last().await?;
        let Some(task) = tx.task(task.id).filter(|now| now.moves == task.moves) else { return Ok(false) };
        let attempts = task.attempts + 1;
        tx.put_task(TaskRecord { attempts, ..TaskRecord::clone(&task) });
        tx.commit_until(self.closing.clone()).await?;
        self.counted([task.id]);
        Ok(attempts >= ATTEMPTS_MAX)
    }

    /// Ends a task whose step ends its process, again and again. Where saying what it leaves did so too, it leaves nothing.
    async fn crash_loop(self: &Arc<Self>, id: TaskId) -> Result<()> {
        let message =
            format!("its step was begun {ATTEMPTS_MAX} times, and each time the process ended with it");
        let failure = TaskFailure::new("crash_loop", message);
        match self.record(id).is_some_and(|task| task.attempts > ATTEMPTS_MAX) {
            true => self.leave_nothing(id, Cut::Faulted(failure)).await,
            false => self.fault(id, failure).await,
        }
    }

    /// The time of a wait for a signal is up: committed, so that whoever runs the step next is told the same.
    async fn time_out(&self, id: TaskId) -> Result<()> {
        let mut tx = self.session.begin_last().await?;
        let Some(task) = tx.task(id) else { return Ok(()) };
        let TaskState::Listening { until: Some(until), .. } = &task.state else { return Ok(()) };
        if *until > tx.time() || task.abort.is_some() {
            return Ok(());
        }
        let mut task = TaskRecord::clone(&task);
        task.wake(Woken::TimedOut);
        tx.put_task(task);
        tx.commit_until(self.closing.clone()).await.map(drop)
    }

    /// What follows when a step gave no move, or one that could not be stored.
    async fn escaped(self: &Arc<Self>, id: TaskId, trouble: Trouble) -> Result<()> {
        let is_aborted = self.record(id).is_none_or(|task| task.abort.is_some());
        match trouble.passes() {
            Some(Passing::Refusal(_)) => self.failed(id, trouble).await,
            // Its end in order is next.
            _ if is_aborted => Ok(()),
            _ => self.failed(id, trouble).await,
        }
    }

    /// What follows when a task's code failed: where its storage or its session did, only this run is over.
    async fn failed(self: &Arc<Self>, id: TaskId, trouble: Trouble) -> Result<()> {
        if self.is_closing() || self.session.0.check_open().is_err() {
            return Ok(());
        }
        match trouble.passes() {
            Some(Passing::Refusal(error)) => Err(error),
            Some(Passing::Loss(error)) if self.lost(id) < LOSSES_MAX => Err(error),
            _ => self.fault(id, trouble.failure()).await,
        }
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
                Ok(None) => self.leave_nothing(id, Cut::Faulted(failure.clone())).await,
                Ok(left) => self.commit_end(id, Cut::Faulted(failure.clone()), left).await,
                Err(error) => Err(error),
            };
            let trouble = match ended {
                Ok(()) => return Ok(()),
                Err(error) if self.is_closing() || self.session.0.check_open().is_err() => return Err(error),
                Err(error) => Trouble::Refused(error),
            };
            match trouble.passes() {
                Some(Passing::Refusal(error)) => self.pause(error.retry_after().unwrap_or(RETRY)).await,
                Some(Passing::Loss(_)) if self.lost(id) < LOSSES_MAX => self.pause(RETRY).await,
                // What its code wanted to leave cannot be stored.
                _ => {
                    let error = trouble.failure();
                    tracing::warn!(session = %self.session.id(), task = %id, %error, "a faulted task leaves nothing");
                    return self.leave_nothing(id, Cut::Faulted(failure)).await;
                }
            }
        }
    }

    /// Ends a task that leaves nothing. What waited for more than its end is looked after.
    async fn leave_nothing(self: &Arc<Self>, id: TaskId, cut: Cut) -> Result<()> {
        self.commit_end(id, cut, None).await?;
        self.pick_up().await;
        Ok(())
    }

    /// Looks after what waits while nothing runs that it could wait for.
    pub(super) async fn pick_up(&self) {
        while let Err(error) = self.try_pick_up().await {
            let session = self.session.id();
            if !(error.is_passing() || is_loss(&error)) || self.session.0.check_open().is_err() {
                tracing::warn!(%session, %error, "what waits for nothing is left to whoever opens the session next");
                return;
            }
            self.pause(error.retry_after().unwrap_or(RETRY)).await;
            if self.is_closing() {
                return;
            }
        }
    }

    async fn try_pick_up(&self) -> Result<()> {
        let mut tx = self.session.begin_last().await?;
        self.host.postman.pick_up(&mut tx).await?;
        tx.commit_until(self.closing.clone()).await.map(drop)
    }

    /// What a faulted task leaves; nothing where that code is broken too.
    async fn remains(
        self: &Arc<Self>,
        task: &TaskRecord,
        (loaded, registry): (Box<dyn Loaded>, Arc<Registry>),
        failure: TaskFailure,
    ) -> Result<Option<Left>> {
        let cx = TaskContext::new(self, task, registry, CancelToken::new());
        let code = loaded.fault(cx.clone(), failure);
        match self.supervise(&cx, code, Some(FAULT_MAX), |left| left.tx.as_ref()).await {
            Ok(left) => Ok(Some(left)),
            Err(trouble) => match trouble.passes() {
                Some(Passing::Refusal(error)) => Err(error),
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
        let mut code = tokio::spawn(code.in_current_span());
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

    /// The code of a record, with what it reads of it, from one snapshot of what is installed.
    ///
    /// Errors: why it cannot be run.
    pub(super) fn load(&self, task: &TaskRecord) -> Result<(Box<dyn Loaded>, Arc<Registry>), Unloaded> {
        let registry = self.host.registry();
        let code = self.host.code(&registry, task).map_err(Unloaded::Blocked);
        match code.and_then(|code| code.load(task)) {
            Ok(loaded) => Ok((loaded, registry)),
            Err(Unloaded::Blocked(blocked)) => {
                self.note_blocked(task.id, blocked.clone(), registry);
                Err(Unloaded::Blocked(blocked))
            }
            Err(unloaded) => Err(unloaded),
        }
    }

    /// Notes in a task's record that it waits for its code, where that is news.
    async fn block(&self, task: &TaskRecord, blocked: Blocked) -> Result<()> {
        if task.blocked.as_ref() == Some(&blocked) {
            return Ok(());
        }
        let mut tx = self.session.begin_last().await?;
        if let Some(task) = tx.task(task.id).filter(|task| task.outcome().is_none()) {
            tracing::info!(session = %self.session.id(), task = %task.id, %blocked, "a task waits for its code");
            tx.put_task(TaskRecord { blocked: Some(blocked), ..TaskRecord::clone(&task) });
            tx.commit_until(self.closing.clone()).await?;
        }
        Ok(())
    }

    /// Ends a task that was told to stop and has no code to stop it in order.
    async fn orphan(&self, id: TaskId, reason: &str, blocked: &Blocked) -> Result<()> {
        let mut tx = self.session.begin_last().await?;
        tx.end_task(id, TaskOutcome::Orphaned { reason: format!("{reason}; {blocked}") });
        tx.commit_until(self.closing.clone()).await?;
        self.pick_up().await;
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
