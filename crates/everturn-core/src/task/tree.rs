//! How tasks hang together: tasks own tasks and conversations, conversations own tasks. What ends or is told to stop, and
//! what follows from that for what is above and below.
//!
//! The rules are written over a [`Forest`], what lives as someone sees it, and change it through [`Forest::put`]: whoever
//! commits puts what they give into the same commit.

#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use super::{TaskOutcome, TaskRecord, TaskState, WaitPolicy};
use crate::{
    clock::Timestamp,
    id::{ConversationId, TaskId},
};

/// What a task hangs on: its owner, or without one the conversation it works for.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, task::{TaskRecord, tree::Above}};
/// let task = TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0));
/// assert_eq!(Above::of(&task), Above::Conversation(ConversationId::ROOT));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Above {
    /// A task.
    Task(TaskId),
    /// A conversation.
    Conversation(ConversationId),
}

impl Above {
    /// What a task hangs on.
    pub fn of(task: &TaskRecord) -> Self {
        task.owner.map_or(Self::Conversation(task.conversation), Self::Task)
    }
}

/// The live tasks of a session, as someone sees them.
pub trait Forest {
    /// A live task.
    fn task(&self, id: TaskId) -> Option<Arc<TaskRecord>>;

    /// The live tasks that hang on this.
    fn below(&self, above: Above) -> Vec<TaskId>;

    /// Whether any of the live tasks that hang on this is wanted.
    fn any_below(&self, above: Above, wanted: &dyn Fn(&TaskRecord) -> bool) -> bool {
        self.below(above).into_iter().filter_map(|id| self.task(id)).any(|task| wanted(&task))
    }

    /// The conversations that a task owns and in which something lives.
    fn owned(&self, task: TaskId) -> Vec<ConversationId>;

    /// The task whose work a conversation is.
    fn owner(&self, conversation: ConversationId) -> Option<TaskId>;

    /// The live tasks that wait for this one.
    fn waiters(&self, on: TaskId) -> Vec<TaskId>;

    /// Takes what became of a task.
    fn put(&mut self, task: TaskRecord);
}

/// What came of telling a task to stop.
///
/// ```
/// use everturn_core::task::tree::Aborting;
/// assert_ne!(Aborting::Marked, Aborting::AlreadyEnded);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborting {
    /// It knows, now or since before.
    Marked,
    /// It had ended.
    AlreadyEnded,
}

/// How far an abort goes.
///
/// ```
/// use everturn_core::task::tree::Reach;
/// assert_eq!(Reach::default(), Reach::Ordinary);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The task and all below it, but not into background tasks.
    #[default]
    Ordinary,
    /// Into background tasks too.
    Background,
}

/// The task above a task: its owner, or the owner of its conversation.
pub fn above(forest: &impl Forest, task: &TaskRecord) -> Option<TaskId> {
    task.owner.or_else(|| forest.owner(task.conversation))
}

/// All tasks above a task, the nearest first, as far as they live.
pub fn ancestors(forest: &impl Forest, task: &TaskRecord) -> Vec<TaskId> {
    let mut found = Vec::new();
    let mut next = above(forest, task);
    while let Some(id) = next.filter(|id| !found.contains(id)) {
        found.push(id);
        next = forest.task(id).and_then(|task| above(forest, &task));
    }
    found
}

/// The live tasks directly below a task, those in conversations that it owns included.
pub fn children(forest: &impl Forest, id: TaskId) -> Vec<Arc<TaskRecord>> {
    let own = forest.below(Above::Task(id)).into_iter();
    let owned = forest.owned(id).into_iter();
    let in_owned = owned.flat_map(|conversation| forest.below(Above::Conversation(conversation)));
    own.chain(in_owned).filter_map(|child| forest.task(child)).collect()
}

/// Whether work below a task keeps it from ending: ordinary work, and background work that was told to stop.
pub fn is_busy_below(forest: &impl Forest, id: TaskId) -> bool {
    let holds = |task: &TaskRecord| !task.background || task.abort.is_some();
    let any = |above| forest.any_below(above, &holds);
    any(Above::Task(id)) || forest.owned(id).into_iter().any(|owned| any(Above::Conversation(owned)))
}

/// Whether ordinary work of a conversation has not ended.
pub fn is_busy(forest: &impl Forest, conversation: ConversationId) -> bool {
    forest.any_below(Above::Conversation(conversation), &|task| !task.background)
}

/// Tells a task to stop, and all below it. Doing so again changes nothing; its first reason stays.
pub fn abort(forest: &mut impl Forest, id: TaskId, reason: &str, reach: Reach) -> Aborting {
    if forest.task(id).is_none() {
        return Aborting::AlreadyEnded;
    }
    let (mut left, mut seen) = (vec![id], HashSet::new());
    while let Some(id) = left.pop() {
        let Some(task) = forest.task(id).filter(|_| seen.insert(id)) else { continue };
        if task.abort.is_none() {
            forest.put(TaskRecord { abort: Some(reason.into()), ..(*task).clone() });
        }
        let below = children(forest, id).into_iter();
        left.extend(below.filter(|task| reach == Reach::Background || !task.background).map(|task| task.id));
    }
    Aborting::Marked
}

/// Tells all ordinary work of a conversation to stop; with the reach, its background work too.
pub fn abort_all(forest: &mut impl Forest, conversation: ConversationId, reason: &str, reach: Reach) {
    for id in forest.below(Above::Conversation(conversation)) {
        if reach == Reach::Background || forest.task(id).is_some_and(|task| !task.background) {
            abort(forest, id, reason, reach);
        }
    }
}

/// Ends a task: at once, or, while work below keeps it from that, when the last of it has ended. What does not complete
/// aborts that work first. Whoever is above and waited for that ends too; whoever waits for it and fails fast aborts the
/// others.
pub fn end(forest: &mut impl Forest, id: TaskId, outcome: TaskOutcome, now: Timestamp) {
    let Some(task) = forest.task(id) else { return };
    if !outcome.is_completed() {
        let reason = format!("task {id}, above it, {}", outcome.word());
        for child in children(forest, id).into_iter().filter(|child| !child.background) {
            abort(forest, child.id, &reason, Reach::Ordinary);
        }
    }
    let mut task = (*task).clone();
    if is_busy_below(forest, id) {
        task.go(TaskState::Completing { outcome });
        return forest.put(task);
    }
    task.end(outcome, now);
    forest.put(task.clone());
    ended(forest, task, now);
}

/// What follows from a task's end, all the way up.
fn ended(forest: &mut impl Forest, task: TaskRecord, now: Timestamp) {
    let mut last = Some(task);
    while let Some(task) = last.take() {
        if task.outcome().is_some_and(|outcome| !outcome.is_completed()) {
            fail_fast(forest, task.id);
        }
        let above = above(forest, &task).and_then(|id| forest.task(id));
        if let Some(above) = above
            && let TaskState::Completing { outcome } = &above.state
            && !is_busy_below(forest, above.id)
        {
            let (outcome, mut above) = (outcome.clone(), TaskRecord::clone(&above));
            above.end(outcome, now);
            forest.put(above.clone());
            last = Some(above);
        }
    }
}

/// Aborts what tasks that fail fast wait for beside a task that did not complete.
fn fail_fast(forest: &mut impl Forest, member: TaskId) {
    for waiter in forest.waiters(member) {
        let Some(task) = forest.task(waiter) else { continue };
        if matches!(task.state, TaskState::Waiting { policy: WaitPolicy::FailFast, .. }) {
            abort_others(forest, &task, member);
        }
    }
}

/// Aborts what a task waits for beside one that did not complete.
pub fn abort_others(forest: &mut impl Forest, waiter: &TaskRecord, member: TaskId) {
    let reason = format!("task {member}, which task {} waits for too, did not complete", waiter.id);
    for other in waiter.members().iter().filter(|other| **other != member) {
        abort(forest, *other, &reason, Reach::Ordinary);
    }
}
