//! What runs the tasks of a session: one loop over what its records say comes next. There is no recovery: opening reads
//! the records, and the same loop does what they say.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everturn_core::{BoxFuture, CancelToken, Result, clock::Timestamp, id::TaskId};
use futures_util::FutureExt;
use tokio::sync::{Notify, watch as latest};
use tracing::Instrument;

use super::{Host, StepHold, gate::Pass, mailbox, opening, rules, table::Table};
use crate::Session;

/// How often the step of a task may be begun while owners of its session die.
pub(super) const ATTEMPTS_MAX: u32 = 10;

/// How long a task rests whose end cannot be stored.
pub(super) const STUCK: Duration = Duration::from_secs(60);

/// How long the loop relies on the clock: a machine that was suspended, or whose clock was set, finds out then.
const TIMER_MAX: Duration = Duration::from_secs(60);

/// Runs the tasks of one session.
pub(crate) struct Runner {
    pub(crate) session: Session,
    pub(super) host: Arc<Host>,
    table: Mutex<Table>,
    is_started: AtomicBool,
    /// Fires when nothing more is started.
    pub(super) closing: CancelToken,
    /// Counts what happened that is no commit: a run began or ended, the loop looked.
    beat: latest::Sender<u64>,
}

/// What the loop waits for after a look, beside commits.
#[derive(Default)]
struct Wait {
    /// When the next task goes on by itself.
    timer: Option<Timestamp>,
    /// Whether a task could run and the process is busy.
    wants_pass: bool,
}

impl Runner {
    pub(crate) fn new(session: Session, host: Arc<Host>) -> Arc<Self> {
        let table = Mutex::new(Table::of(&session.0.state().live));
        Arc::new(Self {
            session,
            host,
            table,
            is_started: AtomicBool::new(false),
            closing: CancelToken::new(),
            beat: latest::Sender::new(0),
        })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the loop, the first time; from then on it looks at the records whenever something happened to them.
    pub(crate) fn start(self: &Arc<Self>) {
        if !self.is_started.swap(true, Ordering::AcqRel) {
            tokio::spawn(drive(Arc::downgrade(self), self.session.0.attention.clone()));
            tokio::spawn(mailbox::empty(Arc::downgrade(self)));
            tokio::spawn(rules::follow(Arc::downgrade(self)));
        }
    }

    /// Keeps steps from beginning.
    pub(crate) fn hold(self: &Arc<Self>) -> StepHold {
        StepHold::new(self)
    }

    pub(super) fn is_held(&self) -> bool {
        self.table().holds > 0
    }

    /// One more holds the session.
    pub(super) fn hold_begins(&self) {
        self.table().holds += 1;
        self.beat();
    }

    /// One less holds the session.
    pub(super) fn hold_ends(&self) {
        self.table().holds -= 1;
        self.beat();
        self.wake();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Has the loop look again.
    pub(super) fn wake(&self) {
        self.session.0.attention.notify_one();
    }

    fn beat(&self) {
        self.beat.send_modify(|beat| *beat += 1);
    }

    /// Told of every beat.
    pub(super) fn beats(&self) -> latest::Receiver<u64> {
        self.beat.subscribe()
    }

    /// Starts nothing more, and tells everything that runs to stop.
    pub(crate) fn stop(&self) {
        // First, so that whoever is told to stop knows why.
        self.closing.cancel();
        let mut table = self.table();
        table.is_closing = true;
        table.running.values().for_each(|running| running.token.cancel());
        drop(table);
        self.wake();
    }

    /// Waits until nothing runs.
    pub(crate) async fn stopped(&self) {
        let _ = self.beats().wait_for(|_| self.table().running.is_empty()).await;
    }

    /// Returns when nothing runs and nothing could: all that lives waits for a moment, a signal, a task or its code, or the
    /// session is held.
    ///
    /// Errors: why the session was shut.
    pub(crate) async fn quiescent(&self) -> Result<()> {
        let (mut beats, mut head) = (self.beats(), self.session.0.head.subscribe());
        loop {
            beats.borrow_and_update();
            head.borrow_and_update();
            self.session.0.check_open()?;
            if self.is_quiescent() {
                return Ok(());
            }
            // The runner and its session own the senders; a session that is shut tells its head.
            tokio::select! {
                _ = beats.changed() => {}
                _ = head.changed() => {}
            }
        }
    }

    /// Whether nothing runs and nothing could now.
    pub(crate) fn is_quiescent(&self) -> bool {
        let (now, registry) = (self.now(), self.host.registry());
        let (state, table) = (self.session.0.state(), self.table());
        let goes_by_all = table.goes_by == Some(self.host.rules());
        let has_looked = table.is_open && table.is_mail_read && goes_by_all;
        let is_at_rest = has_looked && !table.could_begin(&state.live, &registry, now);
        table.running.is_empty() && (table.holds > 0 || is_at_rest)
    }

    pub(super) fn opened(&self) {
        self.table().is_open = true;
    }

    pub(super) fn mail_read(&self) {
        if !std::mem::replace(&mut self.table().is_mail_read, true) {
            self.beat();
        }
    }

    /// After how many changes of what the host goes by who waits because of it was woken; none before that was done at all.
    pub(super) fn went_by(&self) -> Option<u64> {
        self.table().goes_by
    }

    pub(super) fn goes_by(&self, changes: u64) {
        self.table().goes_by = Some(changes);
        self.beat();
    }

    pub(super) fn now(&self) -> Timestamp {
        self.session.0.opener.world.clock.now()
    }

    /// One look: stops what was told to, and starts what can go on, as far as there is room.
    fn pass(self: &Arc<Self>, spare: &mut Option<Pass>) -> Wait {
        self.stop_aborted();
        // One moment for all of the look: what is not due by it is waited for.
        let (now, mut wait) = (self.now(), Wait::default());
        while let Some(id) = self.candidate(now) {
            let Some(pass) = spare.take().or_else(|| self.host.gate().try_enter()) else {
                wait.wants_pass = true;
                break;
            };
            self.run_next(id, pass);
        }
        let (state, mut table) = (self.session.0.state(), self.table());
        table.sweep(&state.live);
        let timer = state.live.timers().map(|(at, _)| at).find(|at| *at > now);
        wait.timer = timer.into_iter().chain(table.rested_at(now)).min();
        wait
    }

    /// A task that can go on and does not run, and for which the session has room.
    fn candidate(&self, now: Timestamp) -> Option<TaskId> {
        let (registry, running_max) = (self.host.registry(), self.host.limits.session_running_max);
        let (state, table) = (self.session.0.state(), self.table());
        table.candidate(&state.live, (&registry, running_max), now)
    }

    /// Tells running tasks to stop whose records say so.
    fn stop_aborted(&self) {
        let (state, table) = (self.session.0.state(), self.table());
        for (id, running) in table.running.iter().filter(|(_, running)| !running.is_end) {
            if state.live.task(*id).is_some_and(|task| task.abort.is_some()) {
                running.token.cancel();
            }
        }
    }

    fn run_next(self: &Arc<Self>, id: TaskId, pass: Pass) {
        let Some(reserved) = Reserved::take(self, id) else { return };
        tokio::spawn(async move {
            let runner = reserved.runner.clone();
            let span = runner.session.0.span_of_step(id);
            // What panics here is ours and no task's: it is tried again, and not at once.
            let run = AssertUnwindSafe(runner.run(id, reserved.token.clone()).instrument(span))
                .catch_unwind()
                .await;
            if let Some(pause) = run.unwrap_or(Some(STUCK)) {
                runner.rest(id, pause);
            }
            drop((pass, reserved));
        });
    }
}

/// A task that is run by one and no other, until this is dropped.
struct Reserved {
    runner: Arc<Runner>,
    id: TaskId,
    token: CancelToken,
}

impl Reserved {
    fn take(runner: &Arc<Runner>, id: TaskId) -> Option<Self> {
        let task = runner.record(id)?;
        let token = runner.table().reserve(&task)?;
        runner.beat();
        Some(Self { runner: runner.clone(), id, token })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let moves = self.runner.record(self.id).map(|task| task.moves);
        self.runner.table().release(self.id, moves);
        self.runner.beat();
        self.runner.wake();
    }
}

/// The loop. It does not keep the session alive.
async fn drive(weak: Weak<Runner>, attention: Arc<Notify>) {
    let Some(runner) = weak.upgrade() else { return };
    let (clock, gate) = (runner.session.0.opener.world.clock.clone(), runner.host.gate().clone());
    let mut registry = runner.host.changes();
    opening::open(&runner).await;
    drop(runner);
    let (mut spare, mut waiting): (Option<Pass>, Option<BoxFuture<'static, Pass>>) = (None, None);
    while let Some(runner) = weak.upgrade() {
        if runner.session.0.check_open().is_err() {
            // Whoever owns the session now may do the same work: what runs here stops.
            runner.stop();
        }
        if runner.is_closing() {
            return;
        }
        let wait = runner.pass(&mut spare);
        // Nothing is there for it to run: others may.
        spare = None;
        waiting = if wait.wants_pass { waiting.or_else(|| Some(gate.enter())) } else { None };
        runner.beat();
        let timer = wait.timer.map(|at| at.since(clock.now()).min(TIMER_MAX));
        drop(runner);
        tokio::select! {
            () = attention.notified() => {}
            pass = async { waiting.as_mut().expect("it was asked for").await }, if waiting.is_some() => {
                (spare, waiting) = (Some(pass), None);
            }
            () = async { clock.sleep(timer.expect("there is one")).await }, if timer.is_some() => {}
            // What waits for code is looked at anew.
            changed = registry.changed() => if changed.is_err() { return },
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // The loop wakes, finds the session gone, and ends.
        self.wake();
    }
}
