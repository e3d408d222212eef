//! What the runner of a session knows beside the records: what runs, what may, and what was begun of what.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use everturn_core::{
    CancelToken,
    clock::Timestamp,
    id::TaskId,
    task::{Blocked, TaskRecord, TaskState},
};

use crate::{Registry, session::Live};

/// After how many attempts a task is suspected to end its process: it runs beside no other that is, and is counted for
/// itself.
const SUSPECTED: u32 = 3;

/// Whether a task is suspected to end its process.
pub(super) fn is_suspect(task: &TaskRecord) -> bool {
    task.attempts >= SUSPECTED
}

/// What a runner knows beside the records. Marks of a task hold until it moves: they name after how many moves they were
/// made.
#[derive(Default)]
pub(super) struct Table {
    pub(super) running: HashMap<TaskId, Running>,
    /// Tasks that were live when the session was opened.
    found: HashMap<TaskId, Found>,
    /// Tasks whose effect was begun by this owner.
    entered: HashMap<TaskId, u64>,
    /// Tasks whose attempt is counted for this owner.
    pub(super) counted: HashSet<TaskId>,
    /// Tasks that cannot be run, by what was installed then.
    pub(super) blocked: HashMap<TaskId, (Blocked, Arc<Registry>)>,
    /// How often a task's move could not be stored for want of a transaction.
    losses: HashMap<TaskId, (u64, u32)>,
    /// Tasks that are left alone until a moment, and whether they had been told to stop when that began.
    rests: HashMap<TaskId, (Timestamp, bool)>,
    /// How many hold the session.
    pub(super) holds: usize,
    /// The task that was started last: the others come first. And whether its moment had come.
    last: TaskId,
    was_due: bool,
    /// Whether this owner has looked at what it found, and at the mail.
    pub(super) is_open: bool,
    pub(super) is_mail_read: bool,
    /// After how many changes of what the host goes by this owner has woken who waits because of it.
    pub(super) goes_by: Option<u64>,
    /// Whether nothing more is started. Here, so that closing and starting cannot miss each other.
    pub(super) is_closing: bool,
}

/// A run under way.
pub(super) struct Running {
    pub(super) token: CancelToken,
    /// Whether it is the end in order of a task that was told to stop: that mark does not stop it.
    pub(super) is_end: bool,
    is_suspect: bool,
}

/// A task that was live when the session was opened.
struct Found {
    moves: u64,
    /// Whether an earlier owner may have run the step that is next.
    may_have_run: bool,
}

impl Table {
    /// The table of an owner that finds what lives.
    pub(super) fn of(live: &Live) -> Self {
        let found = live.tasks().map(|task| {
            // What waits for others to end was not run since it began to: they have not ended.
            let may_have_run = task.members().iter().all(|member| live.task(*member).is_none());
            (task.id, Found { moves: task.moves, may_have_run })
        });
        Self { found: found.collect(), ..Self::default() }
    }

    /// A task that can go on and does not run, and for which the session has room.
    pub(super) fn candidate(
        &self,
        live: &Live,
        (registry, running_max): (&Arc<Registry>, usize),
        now: Timestamp,
    ) -> Option<TaskId> {
        if self.is_closing || self.holds > 0 || self.running.len() >= running_max {
            return None;
        }
        let a_suspect_runs = self.running.values().any(|running| running.is_suspect);
        let can_run = |id: &TaskId| {
            let must_wait =
                |task: &Arc<TaskRecord>| (a_suspect_runs && is_suspect(task)) || self.is_resting(task, now);
            !self.running.contains_key(id)
                && !self.is_blocked(live, registry, *id)
                && !live.task(*id).is_some_and(must_wait)
        };
        let due = || live.due(now).find(can_run);
        let able = || live.able(self.last).find(can_run);
        // In turns: neither those whose moment has come nor those that are ready keep the others waiting.
        if self.was_due { able().or_else(due) } else { due().or_else(able) }
    }

    /// Whether something that is not under way could begin.
    pub(super) fn could_begin(&self, live: &Live, registry: &Arc<Registry>, now: Timestamp) -> bool {
        live.able(TaskId(0)).chain(live.due(now)).any(|id| !self.is_blocked(live, registry, id))
    }

    /// Whether a task waits for code; one that was told to stop no longer does.
    pub(super) fn is_blocked(&self, live: &Live, registry: &Arc<Registry>, id: TaskId) -> bool {
        let judged = self.blocked.get(&id);
        judged.is_some_and(|(_, by)| Arc::ptr_eq(by, registry))
            && live.task(id).is_some_and(|task| task.abort.is_none())
    }

    /// Takes a task to be run by one and no other; gives what tells that run to stop. None where it may not begin.
    pub(super) fn reserve(&mut self, task: &TaskRecord) -> Option<CancelToken> {
        if self.is_closing || self.holds > 0 || self.running.contains_key(&task.id) {
            return None;
        }
        let (token, is_suspect) = (CancelToken::new(), is_suspect(task));
        self.running.insert(task.id, Running { token: token.clone(), is_end: false, is_suspect });
        self.last = task.id;
        self.was_due = matches!(task.state, TaskState::Sleeping { .. } | TaskState::Listening { .. });
        Some(token)
    }

    /// The run of a task is its end in order from here on; gives what tells that to stop.
    pub(super) fn begin_end(&mut self, id: TaskId) -> CancelToken {
        let token = CancelToken::new();
        if self.is_closing {
            token.cancel();
        }
        if let Some(running) = self.running.get_mut(&id) {
            (running.token, running.is_end) = (token.clone(), true);
        }
        token
    }

    /// Whether a task was live when the session was opened.
    pub(super) fn was_found(&self, id: TaskId) -> bool {
        self.found.contains_key(&id)
    }

    /// Whether a task stands where it was found.
    pub(super) fn is_as_found(&self, id: TaskId, moves: u64) -> bool {
        self.found.get(&id).is_some_and(|found| found.moves == moves)
    }

    /// Whether an earlier owner may have run a task's present step.
    pub(super) fn is_carried(&self, id: TaskId, moves: u64) -> bool {
        self.found.get(&id).is_some_and(|found| found.may_have_run && found.moves == moves)
    }

    /// Notes that a task's effect begins.
    pub(super) fn enter(&mut self, id: TaskId, moves: u64) {
        self.entered.insert(id, moves);
    }

    /// Whether this owner has begun the effect of a task's present step.
    pub(super) fn was_entered(&self, id: TaskId, moves: u64) -> bool {
        self.entered.get(&id) == Some(&moves)
    }

    /// Notes that a task's move could not be stored for want of a transaction, and gives how often by now.
    pub(super) fn lost(&mut self, id: TaskId, moves: u64) -> u32 {
        let lost = self.losses.entry(id).or_insert((moves, 0));
        *lost = if lost.0 == moves { (moves, lost.1 + 1) } else { (moves, 1) };
        lost.1
    }

    /// Leaves a task alone until a moment.
    pub(super) fn rest(&mut self, id: TaskId, until: Timestamp, is_aborted: bool) {
        self.rests.insert(id, (until, is_aborted));
    }

    /// Whether a task is left alone; one that was told to stop since is not.
    fn is_resting(&self, task: &TaskRecord, now: Timestamp) -> bool {
        let is_its =
            |(until, was_aborted): &(Timestamp, bool)| *until > now && (*was_aborted || task.abort.is_none());
        self.rests.get(&task.id).is_some_and(is_its)
    }

    /// When the next task has rested.
    pub(super) fn rested_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.rests.retain(|_, (until, _)| *until > now);
        self.rests.values().map(|(until, _)| *until).min()
    }

    /// A suspect is one no longer.
    pub(super) fn clear(&mut self, id: TaskId) {
        if let Some(running) = self.running.get_mut(&id) {
            running.is_suspect = false;
        }
    }

    /// Forgets tasks that have ended without a run of their own.
    pub(super) fn sweep(&mut self, live: &Live) {
        let marks = self.found.len() + self.entered.len() + self.counted.len() + self.blocked.len();
        if marks > 64 + 8 * live.len() {
            let lives = |id: &TaskId| live.task(*id).is_some();
            self.found.retain(|id, _| lives(id));
            self.entered.retain(|id, _| lives(id));
            self.counted.retain(lives);
            self.blocked.retain(|id, _| lives(id));
            self.losses.retain(|id, _| lives(id));
        }
    }

    /// A run is over. Forgets what is known of a task that has moved on, or has ended.
    pub(super) fn release(&mut self, id: TaskId, moves: Option<u64>) {
        self.running.remove(&id);
        if self.entered.get(&id).is_some_and(|entered| Some(*entered) != moves) {
            self.entered.remove(&id);
        }
        if self.found.get(&id).is_some_and(|found| Some(found.moves) != moves) {
            self.counted.remove(&id);
        }
        if moves.is_none() {
            self.found.remove(&id);
            self.blocked.remove(&id);
            self.losses.remove(&id);
            self.rests.remove(&id);
        }
    }
}
