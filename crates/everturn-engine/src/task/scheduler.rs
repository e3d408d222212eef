//! What runs the tasks of a session: one loop over what its records say comes next. There is no recovery: opening reads
//! the records, and the same loop does what they say.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    BoxFuture, CancelToken, Result,
    clock::Timestamp,
    id::TaskId,
    task::{Blocked, Next, TaskRecord, TaskState},
};
use tokio::sync::{Notify, watch as latest};

use super::{Host, StepHold, gate::Pass, mailbox, opening};
use crate::{
    Registry, Session,
    session::{Live, facts, timeless},
};

/// How often the step of a task may be begun while owners of its session die.
pub(super) const ATTEMPTS_MAX: u32 = 10;

/// After how many such attempts a task is suspected: it runs beside no other that is, and what it does to its process is
/// counted for it alone.
pub(super) const SUSPECTED: u32 = 3;

/// How long the loop relies on the clock: a machine that was suspended, or whose clock was set, finds out then.
const TIMER_MAX: Duration = Duration::from_secs(60);

/// Runs the tasks of one session.
pub(crate) struct Runner {
    pub(crate) session: Session,
    pub(super) host: Arc<Host>,
    /// The newest task that was live when the session was opened.
    found_max: TaskId,
    table: Mutex<Table>,
    is_started: AtomicBool,
    /// Fires when nothing more is started.
    pub(super) closing: CancelToken,
    /// Counts what happened that is no commit: a run began or ended, the loop looked.
    beat: latest::Sender<u64>,
}

#[derive(Default)]
struct Table {
    running: HashMap<TaskId, Running>,
    /// Tasks whose effect was begun by this owner, and after how many moves.
    entered: HashMap<TaskId, u64>,
    /// Tasks that an earlier owner may have run, and after how many moves: until they move again.
    carried: HashMap<TaskId, u64>,
    /// Tasks whose attempt was counted when this owner first looked.
    counted: HashSet<TaskId>,
    /// Tasks that cannot be run, by what was installed then.
    blocked: HashMap<TaskId, (Blocked, Arc<Registry>)>,
    /// How often a task's move could not be stored for want of a transaction.
    losses: HashMap<TaskId, u32>,
    /// How many hold the session.
    holds: usize,
    /// The task that was started last: the others come first. And whether its moment had come.
    last: TaskId,
    was_due: bool,
    /// Whether the first look of this owner is done, at the tasks and at the mail.
    is_open: bool,
    is_mail_read: bool,
    /// Whether nothing more is started. Here, so that closing and starting cannot miss each other.
    is_closing: bool,
}

impl Table {
    /// Whether a task waits for code; one that was told to stop no longer does.
    fn is_blocked(&self, live: &Live, registry: &Arc<Registry>, id: TaskId) -> bool {
        let judged = self.blocked.get(&id);
        judged.is_some_and(|(_, by)| Arc::ptr_eq(by, registry))
            && live.task(id).is_some_and(|task| task.abort.is_none())
    }
}

/// A run under way.
struct Running {
    token: CancelToken,
    /// Whether it is the end in order of a task that was told to stop: that mark does not stop it.
    is_end: bool,
    /// Whether it is suspected to end its process.
    is_suspect: bool,
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
        let (found_max, carried) = {
            let state = session.0.state();
            let found_max = state.live.tasks().last().map_or(TaskId(0), |task| task.id);
            // What waits for others to end was not run since it began to: they have not ended.
            let may_have_run = |task: &&Arc<TaskRecord>| {
                !matches!(task.state, TaskState::Waiting { .. }) || timeless(&state.live, task) != Next::Rest
            };
            let carried = state.live.tasks().filter(may_have_run).map(|task| (task.id, task.moves));
            (found_max, carried.collect())
        };
        Arc::new(Self {
            session,
            host,
            found_max,
            table: Mutex::new(Table { carried, ..Table::default() }),
            is_started: AtomicBool::new(false),
            closing: CancelToken::new(),
            beat: latest::Sender::new(0),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the loop, the first time; from then on it looks at the records whenever something happened to them.
    pub(crate) fn start(self: &Arc<Self>) {
        if !self.is_started.swap(true, Ordering::AcqRel) {
            tokio::spawn(drive(Arc::downgrade(self), self.session.0.attention.clone()));
            tokio::spawn(mailbox::empty(Arc::downgrade(self)));
        }
    }

    /// Keeps steps from beginning.
    pub(crate) fn hold(self: &Arc<Self>) -> StepHold {
        StepHold::new(self)
    }

    pub(super) fn is_held(&self) -> bool {
        self.table().holds > 0
    }

    /// One more, or one less, that holds the session.
    pub(super) fn held(&self, more: bool) {
        let mut table = self.table();
        table.holds = if more { table.holds + 1 } else { table.holds - 1 };
        drop(table);
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
        let mut table = self.table();
        table.is_closing = true;
        table.running.values().for_each(|running| running.token.cancel());
        drop(table);
        self.closing.cancel();
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
        let mut beats = self.beats();
        loop {
            beats.borrow_and_update();
            self.session.0.check_open()?;
            if self.is_quiescent() {
                return Ok(());
            }
            // The runner owns the sender.
            let _ = beats.changed().await;
        }
    }

    /// Whether nothing runs and nothing could now.
    pub(crate) fn is_quiescent(&self) -> bool {
        let (now, registry) = (self.now(), self.host.registry());
        let (state, table) = (self.session.0.state(), self.table());
        let could = |id: TaskId| !table.is_blocked(&state.live, &registry, id);
        let is_able = || state.live.able(TaskId(0)).chain(state.live.due(now)).any(could);
        table.running.is_empty() && (table.holds > 0 || (table.is_open && table.is_mail_read && !is_able()))
    }

    /// The ids of tasks whose code runs at this moment.
    pub(super) fn running(&self) -> HashSet<TaskId> {
        self.table().running.keys().copied().collect()
    }

    /// Why tasks cannot be run by what is installed.
    pub(super) fn blocked(&self) -> HashMap<TaskId, Blocked> {
        let registry = self.host.registry();
        let (state, table) = (self.session.0.state(), self.table());
        let blocked = table.blocked.iter().filter(|(id, _)| table.is_blocked(&state.live, &registry, **id));
        blocked.map(|(id, (blocked, _))| (*id, blocked.clone())).collect()
    }

    /// Notes that a task cannot be run by what is, or was just, installed.
    pub(super) fn note_blocked(&self, id: TaskId, blocked: Blocked, by: Arc<Registry>) {
        self.table().blocked.insert(id, (blocked, by));
    }

    /// Notes that a task's effect begins.
    pub(super) fn enter(&self, id: TaskId) {
        if let Some(task) = self.record(id) {
            self.table().entered.insert(id, task.moves);
        }
    }

    /// Whether the effect of a task's present step may have begun before.
    pub(super) fn was_entered(&self, id: TaskId) -> bool {
        self.is_carried(id) || self.was_entered_here(id)
    }

    /// Whether this owner has begun the effect of a task's present step.
    pub(super) fn was_entered_here(&self, id: TaskId) -> bool {
        self.has_not_moved(id, |table| &table.entered)
    }

    /// Whether an earlier owner may have run a task's present step.
    pub(super) fn is_carried(&self, id: TaskId) -> bool {
        self.has_not_moved(id, |table| &table.carried)
    }

    fn has_not_moved(&self, id: TaskId, marks: impl Fn(&Table) -> &HashMap<TaskId, u64>) -> bool {
        let moves = self.record(id).map(|task| task.moves);
        moves.is_some() && marks(&self.table()).get(&id).copied() == moves
    }

    /// Whether a task that is live was so when the session was opened.
    pub(super) fn was_found(&self, id: TaskId) -> bool {
        id <= self.found_max
    }

    /// Notes that a task's move could not be stored for want of a transaction, and gives how often by now.
    pub(super) fn lost(&self, id: TaskId) -> u32 {
        let mut table = self.table();
        let count = table.losses.entry(id).or_default();
        *count += 1;
        *count
    }

    /// Forgets what is known of a task's run, where it has moved on.
    fn forget(&self, id: TaskId) {
        let moves = self.record(id).map(|task| task.moves);
        let mut table = self.table();
        let is_old = |marked: Option<&u64>| marked.is_some_and(|marked| Some(*marked) != moves);
        if is_old(table.entered.get(&id)) {
            table.entered.remove(&id);
            table.losses.remove(&id);
        }
        if is_old(table.carried.get(&id)) {
            table.carried.remove(&id);
        }
        if moves.is_none() {
            table.counted.remove(&id);
            table.blocked.remove(&id);
            table.losses.remove(&id);
        }
    }

    /// The run of a task is its end in order from here on; gives its token.
    pub(super) fn begin_end(&self, id: TaskId) -> CancelToken {
        let mut table = self.table();
        let token = CancelToken::new();
        if table.is_closing {
            token.cancel();
        }
        let is_suspect = table.running.get(&id).is_some_and(|running| running.is_suspect);
        table.running.insert(id, Running { token: token.clone(), is_end: true, is_suspect });
        token
    }

    /// Notes that tasks' attempts are counted for this owner.
    pub(super) fn counted(&self, ids: impl IntoIterator<Item = TaskId>) {
        self.table().counted.extend(ids);
    }

    pub(super) fn is_counted(&self, id: TaskId) -> bool {
        self.table().counted.contains(&id)
    }

    pub(super) fn opened(&self) {
        self.table().is_open = true;
    }

    pub(super) fn mail_read(&self) {
        if !std::mem::replace(&mut self.table().is_mail_read, true) {
            self.beat();
        }
    }

    /// A live task as it was committed.
    pub(super) fn record(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        self.session.0.state().live.task(id).cloned()
    }

    fn now(&self) -> Timestamp {
        self.session.0.opener.world.clock.now()
    }

    /// A live task, and what comes next for it.
    pub(super) fn look(&self, id: TaskId) -> Option<(Arc<TaskRecord>, Next)> {
        let now = self.now();
        let state = self.session.0.state();
        let task = state.live.task(id)?.clone();
        let next = facts(&state.live, &task, now).next(&task);
        Some((task, next))
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
        wait.timer = self.session.0.state().live.timers().map(|(at, _)| at).find(|at| *at > now);
        wait
    }

    /// A task that can go on and does not run, and for which the session has room.
    fn candidate(&self, now: Timestamp) -> Option<TaskId> {
        let registry = self.host.registry();
        let (state, table) = (self.session.0.state(), self.table());
        let is_full = table.running.len() >= self.host.limits.session_running_max;
        if table.is_closing || table.holds > 0 || is_full {
            return None;
        }
        let is_taken = table.running.values().any(|running| running.is_suspect);
        let must_wait = |id: &TaskId| is_taken && state.live.task(*id).is_some_and(|task| is_suspect(task));
        let can_run = |id: &TaskId| {
            !table.running.contains_key(id)
                && !table.is_blocked(&state.live, &registry, *id)
                && !must_wait(id)
        };
        let due = || state.live.due(now).find(can_run);
        let able = || state.live.able(table.last).find(can_run);
        // In turns: neither those whose moment has come nor those that are ready keep the others waiting.
        if table.was_due { able().or_else(due) } else { due().or_else(able) }
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
            let pause = runner.run(id, reserved.token.clone()).await;
            drop(pass);
            if let Some(pause) = pause {
                // Whoever is told to stop meanwhile does not wait for that.
                tokio::select! {
                    () = runner.pause(pause) => {}
                    () = reserved.token.cancelled() => {}
                }
            }
            drop(reserved);
        });
    }
}

/// Whether a task is suspected to end its process.
pub(super) fn is_suspect(task: &TaskRecord) -> bool {
    task.attempts >= SUSPECTED
}

/// A task that is run by one and no other, until this is dropped.
struct Reserved {
    runner: Arc<Runner>,
    id: TaskId,
    token: CancelToken,
}

impl Reserved {
    fn take(runner: &Arc<Runner>, id: TaskId) -> Option<Self> {
        let token = CancelToken::new();
        let task = runner.record(id)?;
        let is_timed = matches!(task.state, TaskState::Sleeping { .. } | TaskState::Listening { .. });
        let is_suspect = is_suspect(&task);
        let mut table = runner.table();
        if table.is_closing || table.holds > 0 || table.running.contains_key(&id) {
            return None;
        }
        table.running.insert(id, Running { token: token.clone(), is_end: false, is_suspect });
        (table.last, table.was_due) = (id, is_timed);
        drop(table);
        runner.beat();
        Some(Self { runner: runner.clone(), id, token })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.runner.forget(self.id);
        self.runner.table().running.remove(&self.id);
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
