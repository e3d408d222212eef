//! Tasks in a transaction: how they hang together in it, what it does to them, and when the session runs next by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use everturn_core::{
    Error, ErrorKind, Result,
    approval::{ApprovalRecord, ApprovalState},
    id::{ApprovalId, ConversationId, TaskId},
    storage::{Due, TaskQuery, Write},
    submission::{End, SubmissionRecord, SubmissionState},
    task::{
        Next, Signal, TaskOutcome, TaskRecord, TaskState, Woken,
        tree::{self, Aborting, Above, Forest, Reach},
    },
};

use super::Transaction;
use crate::session::live::timeless;

/// How many signals a task keeps that it has not waited for.
const SIGNALS_MAX: usize = 1_000;

/// How long the reason of an abort may be, in bytes.
const REASON_MAX: usize = 4 << 10;

impl Transaction {
    /// Tells a task to stop, and all below it: marked in this commit, they stop once it is stored.
    ///
    /// Promise: doing so again changes nothing; the first reason stays.
    /// Errors: `NotFound` when there is no such task; `TooLarge` when the reason is: it is written to each of them.
    pub async fn abort_task(&mut self, id: TaskId, reason: &str, reach: Reach) -> Result<Aborting> {
        self.hold.place()?;
        self.limits().check("the reason of an abort", reason.len(), REASON_MAX)?;
        self.known_task(id, "abort").await?;
        Ok(tree::abort(self, id, reason, reach))
    }

    /// Tells a task that something happened. It may come before the task waits for it: then it is kept, in order.
    ///
    /// Errors: `NotFound` when there is no such task; `Conflict` when it has ended; `TooLarge` when the payload is, or all
    /// that wait already are, together or by their number.
    pub async fn signal(&mut self, id: TaskId, signal: Signal) -> Result<()> {
        self.hold.place()?;
        let what = format!("signal {} of task {id}", signal.name);
        self.limits().check_name("the name of a signal", &signal.name)?;
        self.limits().check(&what, signal.payload.get().len(), self.limits().entry)?;
        self.limits().check_depth(&what, signal.payload.get())?;
        self.known_task(id, "signal").await?;
        let ended = || Error::conflict(format!("signal task {id}: it has ended"));
        let mut task = (*self.task(id).filter(|task| task.outcome().is_none()).ok_or_else(ended)?).clone();
        match &task.state {
            TaskState::Listening { signal: name, .. } if *name == signal.name => {
                task.wake(Woken::Signal(signal));
            }
            _ if task.signals.len() == SIGNALS_MAX => {
                return Err(Error::too_large(format!(
                    "write {what}: {SIGNALS_MAX} wait for the task already"
                )));
            }
            _ => {
                task.signals.push(signal);
                let kept = task.signals.iter().map(|kept| kept.payload.get().len()).sum();
                self.limits().check(
                    &format!("the signals that task {id} keeps"),
                    kept,
                    self.limits().entry,
                )?;
            }
        }
        self.put_task(task);
        Ok(())
    }

    /// Tells a task that something happened, if it still lives.
    pub(crate) async fn wake(&mut self, id: TaskId, signal: Signal) -> Result<()> {
        match self.signal(id, signal).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(()),
            woken => woken,
        }
    }

    /// Proves that a task is there, live or not.
    async fn known_task(&self, id: TaskId, attempted: &str) -> Result<()> {
        let session = self.session.id();
        let ended = TaskQuery::one(session, id);
        if self.task(id).is_none() && self.session.store().tasks(ended).await?.is_empty() {
            let message = format!("{attempted} task {id}: session {session} has no such task");
            return Err(Error::not_found(message));
        }
        Ok(())
    }

    /// Whether new work may begin in a conversation.
    pub(crate) fn takes_work(&self, conversation: ConversationId) -> bool {
        let owner = self.owner(conversation);
        owner.is_none_or(|owner| Forest::task(self, owner).is_some_and(|task| task.takes_work()))
    }

    /// Tells all work of a conversation to stop; with the reach, also background work whose owner has ended.
    pub(crate) fn abort_work(&mut self, conversation: ConversationId, reason: &str, reach: Reach) {
        tree::abort_all(self, conversation, reason, reach);
        if reach == Reach::Background {
            let left: Vec<TaskId> = {
                let state = self.session.0.state();
                let is_its = |task: &&Arc<TaskRecord>| task.conversation == conversation && task.background;
                state.live.tasks().filter(is_its).map(|task| task.id).collect()
            };
            for id in left {
                tree::abort(self, id, reason, reach);
            }
        }
    }

    /// Ends a task; while work below it lives, only how it ends is settled.
    pub(crate) fn end_task(&mut self, id: TaskId, outcome: TaskOutcome) {
        let now = self.time;
        tree::end(self, id, outcome, now);
    }

    /// How a task ended, in this transaction or before it; none while it lives.
    ///
    /// Errors: `NotFound` when there is no such task.
    pub async fn outcome(&self, id: TaskId) -> Result<Option<TaskOutcome>> {
        self.hold.place()?;
        Ok(self.outcomes(&[id]).await?.remove(&id))
    }

    /// The outcomes of tasks that have ended, or whose end is settled in this transaction; in the order of the ids.
    ///
    /// Errors: `NotFound` when there is no such task.
    pub(crate) async fn outcomes(&self, ids: &[TaskId]) -> Result<BTreeMap<TaskId, TaskOutcome>> {
        let (live, ended): (Vec<TaskId>, Vec<TaskId>) = ids.iter().partition(|id| self.task(**id).is_some());
        let mut found: BTreeMap<TaskId, TaskRecord> = BTreeMap::new();
        if !ended.is_empty() {
            let session = self.session.id();
            let query = TaskQuery { session, live: false, ids: Some(ended.clone()), owner: None };
            found.extend(self.session.store().tasks(query).await?.into_iter().map(|task| (task.id, task)));
        }
        if let Some(unknown) = ended.iter().find(|id| !found.contains_key(id)) {
            return Err(Error::not_found(format!("look for task {unknown}: there is no such task")));
        }
        let staged = live.into_iter().filter_map(|id| self.task(id)).filter(|task| !task.is_live());
        found.extend(staged.map(|task| (task.id, TaskRecord::clone(&task))));
        let outcome = |task: TaskRecord| task.outcome().cloned().map(|outcome| (task.id, outcome));
        Ok(found.into_values().filter_map(outcome).collect())
    }

    /// The tasks of this transaction that have ended in it.
    pub(crate) fn ended_tasks(&self) -> Vec<TaskId> {
        self.staged_tasks().filter(|task| !task.is_live()).map(|task| task.id).collect()
    }

    fn staged_tasks(&self) -> impl Iterator<Item = &TaskRecord> {
        self.writes.iter().filter_map(|write| match write {
            Write::Task(task) => Some(task),
            _ => None,
        })
    }

    /// What was placed in a task ends with it, as it does, where nobody has said how.
    pub(super) fn settle_submissions(&mut self) {
        let ended: Vec<TaskRecord> = self.staged_tasks().filter(|task| !task.is_live()).cloned().collect();
        for task in ended {
            let Some(outcome) = task.outcome() else { continue };
            for submission in self.placed_in(task.id) {
                let SubmissionState::Placed(place) = submission.state else { continue };
                let state = SubmissionState::Settled { end: end_of(outcome), place: Some(place) };
                self.put_submission(SubmissionRecord { state, ..submission });
            }
        }
    }

    /// Nobody waits any more for what a task asked, once how it ends is settled.
    pub(super) fn void_approvals(&mut self) {
        let over =
            self.staged_tasks().filter_map(|task| task.outcome().map(|outcome| (task.id, outcome.word())));
        let over: Vec<(TaskId, &str)> = over.collect();
        for (call, word) in over {
            for approval in self.open_approvals(Some(call)) {
                self.void(&approval, &format!("its call has {word}"));
            }
        }
    }

    /// Stages that a question is no longer open, though nobody has decided it.
    pub(crate) fn void(&mut self, approval: &ApprovalRecord, reason: &str) {
        let state = ApprovalState::Void { reason: reason.into(), time: self.time };
        self.put_approval(ApprovalRecord { state, ..approval.clone() });
    }

    /// The approvals that are open in this transaction, oldest first; only those of a call, where one is named.
    pub(crate) fn open_approvals(&self, call: Option<TaskId>) -> Vec<Arc<ApprovalRecord>> {
        let mut ids: BTreeSet<ApprovalId> = {
            let state = self.session.0.state();
            match call {
                Some(call) => state.live.asked_by(call).collect(),
                None => state.live.approvals().map(|one| one.id).collect(),
            }
        };
        ids.extend(self.writes.iter().filter_map(|write| match write {
            Write::Approval(one) => Some(one.id),
            _ => None,
        }));
        let found = ids.into_iter().filter_map(|id| self.approval(id));
        found.filter(|one| one.is_open() && call.is_none_or(|call| one.call == call)).collect()
    }

    /// The submissions that are placed in a task, as they stand in this transaction.
    fn placed_in(&self, turn: TaskId) -> Vec<SubmissionRecord> {
        let live: Vec<_> = self.session.0.state().live.placed_in(turn).map(|one| one.id).collect();
        let live = live.into_iter().filter_map(|id| self.submission(id));
        let mut found: BTreeMap<_, _> = live.map(|one| (one.id, SubmissionRecord::clone(&one))).collect();
        for write in &self.writes {
            if let Write::Submission(one) = write {
                found.insert(one.id, one.clone());
            }
        }
        let is_placed = |one: &SubmissionRecord| match one.state {
            SubmissionState::Placed(place) => place.turn == turn,
            _ => false,
        };
        found.into_values().filter(is_placed).collect()
    }

    /// When the session wants to run next, as it will be after this commit.
    pub(super) fn due(&self) -> Due {
        let changed: BTreeSet<TaskId> = self.staged_tasks().map(|task| task.id).collect();
        let ended = self.staged_tasks().filter(|task| !task.is_live());
        let affected: BTreeSet<TaskId> = ended
            .flat_map(|task| self.waiters(task.id).into_iter().chain(tree::above(self, task)))
            .chain(changed)
            .collect();
        let now = affected.iter().filter_map(|id| Forest::task(self, *id)).map(|task| self.due_of(&task));
        let soonest = now.min().unwrap_or(Due::None);
        let state = self.session.0.state();
        let can_go_on =
            |id: &TaskId| !affected.contains(id) && state.live.task(*id).is_some_and(|task| !is_stuck(task));
        if state.live.able(TaskId(0)).any(|id| can_go_on(&id)) {
            return Due::Now;
        }
        let timer = state.live.timers().find(|(_, id)| can_go_on(id)).map(|(at, _)| Due::At(at));
        soonest.min(timer.unwrap_or(Due::None))
    }

    fn due_of(&self, task: &TaskRecord) -> Due {
        match timeless(self, task) {
            _ if is_stuck(task) => Due::None,
            Next::At(at) => Due::At(at),
            Next::Rest => Due::None,
            Next::Step | Next::Abort | Next::TimeOut => Due::Now,
        }
    }
}

/// Whether a task waits for code and not for its turn.
fn is_stuck(task: &TaskRecord) -> bool {
    task.blocked.is_some() && task.abort.is_none()
}

/// How what was placed in a task ends with it.
fn end_of(outcome: &TaskOutcome) -> End {
    match outcome {
        TaskOutcome::Completed { .. } => End::Answered,
        TaskOutcome::Aborted { .. } => End::Cancelled,
        TaskOutcome::Failed { error, .. } => End::Failed { reason: error.kind.clone() },
        ended => End::Failed { reason: ended.word().into() },
    }
}

/// Tasks as they stand in the transaction.
impl Forest for Transaction {
    fn task(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        Transaction::task(self, id).filter(|task| task.is_live())
    }

    fn below(&self, above: Above) -> Vec<TaskId> {
        let mut found = self.session.0.state().live.below(above);
        found.retain(|id| Forest::task(self, *id).is_some());
        self.add_staged(&mut found, |task| Above::of(task) == above);
        found
    }

    fn any_below(&self, above: Above, wanted: &dyn Fn(&TaskRecord) -> bool) -> bool {
        let stands = |committed: &TaskRecord| match self.staged(committed.id.0) {
            Some(Write::Task(task)) => task.is_live() && wanted(task),
            _ => wanted(committed),
        };
        self.session.0.state().live.any_below(above, &stands)
            || self.new_work().any(|task| Above::of(task) == above && wanted(task))
    }

    fn owned(&self, task: TaskId) -> Vec<ConversationId> {
        let mut found = self.session.0.state().live.owned(task);
        for staged in self.new_work() {
            let is_its = self.owner(staged.conversation) == Some(task);
            if is_its && !found.contains(&staged.conversation) {
                found.push(staged.conversation);
            }
        }
        found
    }

    fn owner(&self, conversation: ConversationId) -> Option<TaskId> {
        match self.staged_conversation(conversation) {
            Some(staged) => staged.owner,
            None => self.session.0.state().conversations.get(&conversation).and_then(|found| found.owner),
        }
    }

    fn waiters(&self, on: TaskId) -> Vec<TaskId> {
        let waits = |task: &TaskRecord| task.members().contains(&on);
        let mut found = self.session.0.state().live.waiters(on);
        found.retain(|id| Forest::task(self, *id).is_some_and(|task| waits(&task)));
        self.add_staged(&mut found, waits);
        found
    }

    fn put(&mut self, task: TaskRecord) {
        self.put_task(task);
    }
}

impl Transaction {
    /// Adds the live tasks that are wanted, that this transaction has created or has set to wait.
    fn add_staged(&self, found: &mut Vec<TaskId>, wanted: impl Fn(&TaskRecord) -> bool) {
        for staged in self.new_work().filter(|staged| wanted(staged)) {
            if !found.contains(&staged.id) {
                found.push(staged.id);
            }
        }
    }

    /// The tasks of a kind whose end is not settled, as they stand in this transaction.
    pub(crate) fn at_work(&self, kind: &str) -> Vec<Arc<TaskRecord>> {
        let mut found = self.session.0.state().live.of_kind(kind);
        self.add_staged(&mut found, |task| task.kind == kind);
        let found = found.into_iter().filter_map(|id| Transaction::task(self, id));
        found.filter(|task| task.outcome().is_none()).collect()
    }

    fn new_work(&self) -> impl Iterator<Item = &TaskRecord> {
        let staged = self.new_work.iter().filter_map(|id| match self.staged(id.0) {
            Some(Write::Task(task)) => Some(task),
            _ => None,
        });
        staged.filter(|task| task.is_live())
    }

    /// Creates a task, or replaces its state.
    pub(crate) fn put_task(&mut self, task: TaskRecord) {
        let is_linked_anew = match self.session.0.state().live.task(task.id) {
            Some(before) => before.members() != task.members(),
            None => true,
        };
        if is_linked_anew && !self.new_work.contains(&task.id) {
            self.new_work.push(task.id);
        }
        self.stage(task.id.0, Write::Task(task));
    }
}
