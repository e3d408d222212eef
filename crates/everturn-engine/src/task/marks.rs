//! What a runner is asked and told of one task.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use everturn_core::{
    CancelToken,
    id::TaskId,
    task::{Blocked, Next, TaskRecord},
};

use super::{Runner, table::Table};
use crate::{Registry, session::facts};

impl Runner {
    /// A live task as it was committed.
    pub(super) fn record(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        self.session.0.state().live.task(id).cloned()
    }

    /// A live task, and what comes next for it.
    pub(super) fn look(&self, id: TaskId) -> Option<(Arc<TaskRecord>, Next)> {
        let now = self.now();
        let state = self.session.0.state();
        let task = state.live.task(id)?.clone();
        let next = facts(&state.live, &task, now).next(&task);
        Some((task, next))
    }

    /// Asks the table of a task, and of how often it has moved; no, where it does not live.
    fn ask(&self, id: TaskId, ask: impl Fn(&Table, u64) -> bool) -> bool {
        let moves = self.record(id).map(|task| task.moves);
        moves.is_some_and(|moves| ask(&self.table(), moves))
    }

    /// Whether a live task was so when the session was opened.
    pub(super) fn was_found(&self, id: TaskId) -> bool {
        self.table().was_found(id)
    }

    /// Whether a task stands where it was when the session was opened.
    pub(super) fn is_as_found(&self, id: TaskId) -> bool {
        self.ask(id, |table, moves| table.is_as_found(id, moves))
    }

    /// Whether an earlier owner may have run a task's present step.
    pub(super) fn is_carried(&self, id: TaskId) -> bool {
        self.ask(id, |table, moves| table.is_carried(id, moves))
    }

    /// Notes that a task's effect begins.
    pub(super) fn enter(&self, id: TaskId) {
        if let Some(task) = self.record(id) {
            self.table().enter(id, task.moves);
        }
    }

    /// Whether this owner has begun the effect of a task's present step.
    pub(super) fn was_entered_here(&self, id: TaskId) -> bool {
        self.ask(id, |table, moves| table.was_entered(id, moves))
    }

    /// Whether the effect of a task's present step may have begun before.
    pub(super) fn was_entered(&self, id: TaskId) -> bool {
        self.is_carried(id) || self.was_entered_here(id)
    }

    /// Notes that a task's move could not be stored for want of a transaction, and gives how often by now.
    pub(super) fn lost(&self, id: TaskId) -> u32 {
        let moves = self.record(id).map_or(0, |task| task.moves);
        self.table().lost(id, moves)
    }

    /// Lets a task be for a while: then the same is tried again.
    pub(super) fn rest(&self, id: TaskId, pause: Duration) {
        let is_aborted = self.record(id).is_some_and(|task| task.abort.is_some());
        self.table().rest(id, self.now() + pause, is_aborted);
    }

    /// A suspect has shown that it does not end its process: others may run beside it.
    pub(super) fn clear(&self, id: TaskId) {
        self.table().clear(id);
        self.wake();
    }

    /// The run of a task is its end in order from here on; gives its token.
    pub(super) fn begin_end(&self, id: TaskId) -> CancelToken {
        self.table().begin_end(id)
    }

    /// Notes that tasks' attempts are counted for this owner.
    pub(super) fn counted(&self, ids: impl IntoIterator<Item = TaskId>) {
        self.table().counted.extend(ids);
    }

    pub(super) fn is_counted(&self, id: TaskId) -> bool {
        self.table().counted.contains(&id)
    }

    /// Notes that a task cannot be run by what is, or was just, installed.
    pub(super) fn note_blocked(&self, id: TaskId, blocked: Blocked, by: Arc<Registry>) {
        self.table().blocked.insert(id, (blocked, by));
    }

    /// Why tasks cannot be run by what is installed; none before the first look.
    pub(super) fn blocked(&self) -> Option<HashMap<TaskId, Blocked>> {
        let registry = self.host.registry();
        let (state, table) = (self.session.0.state(), self.table());
        if !table.is_open {
            return None;
        }
        let blocked = table.blocked.iter().filter(|(id, _)| table.is_blocked(&state.live, &registry, **id));
        Some(blocked.map(|(id, (blocked, _))| (*id, blocked.clone())).collect())
    }

    /// The tasks whose code runs at this moment.
    pub(super) fn running(&self) -> HashSet<TaskId> {
        self.table().running.keys().copied().collect()
    }
}
