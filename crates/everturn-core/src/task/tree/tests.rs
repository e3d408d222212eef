//! The rules over a small forest.

use std::collections::BTreeMap;

use super::*;
use crate::{json::RawJson, task::TaskFailure};

const ROOT: ConversationId = ConversationId::ROOT;
const NOW: Timestamp = Timestamp(9);

#[derive(Default)]
struct Wood {
    tasks: BTreeMap<TaskId, TaskRecord>,
    owners: BTreeMap<ConversationId, TaskId>,
}

impl Forest for Wood {
    fn task(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        self.tasks.get(&id).filter(|task| task.is_live()).cloned().map(Arc::new)
    }

    fn below(&self, above: Above) -> Vec<TaskId> {
        let live = self.tasks.values().filter(|task| task.is_live());
        live.filter(|task| Above::of(task) == above).map(|task| task.id).collect()
    }

    fn owned(&self, task: TaskId) -> Vec<ConversationId> {
        self.owners.iter().filter(|(_, owner)| **owner == task).map(|(id, _)| *id).collect()
    }

    fn owner(&self, conversation: ConversationId) -> Option<TaskId> {
        self.owners.get(&conversation).copied()
    }

    fn waiters(&self, on: TaskId) -> Vec<TaskId> {
        let waits = |task: &&TaskRecord| match &task.state {
            TaskState::Waiting { on: members, .. } => members.contains(&on),
            _ => false,
        };
        self.tasks.values().filter(waits).map(|task| task.id).collect()
    }

    fn put(&mut self, task: TaskRecord) {
        self.tasks.insert(task.id, task);
    }
}

impl Wood {
    /// Tasks of the root, each with its owner: 0 is none.
    fn of(tasks: &[(u64, u64)]) -> Self {
        let mut wood = Self::default();
        for (id, owner) in tasks {
            let task = TaskRecord::new(TaskId(*id), ROOT, "app.work", Timestamp(0));
            wood.put(TaskRecord { owner: Some(TaskId(*owner)).filter(|owner| owner.0 != 0), ..task });
        }
        wood
    }

    fn with(mut self, id: u64, change: impl FnOnce(&mut TaskRecord)) -> Self {
        change(self.tasks.get_mut(&TaskId(id)).unwrap());
        self
    }

    fn waiting(self, id: u64, on: &[u64], policy: WaitPolicy) -> Self {
        let (checkpoint, on) = (RawJson::empty(), on.iter().map(|id| TaskId(*id)).collect());
        self.with(id, |task| task.state = TaskState::Waiting { checkpoint, on, policy, joined: false })
    }

    fn end(&mut self, id: u64, outcome: TaskOutcome) {
        end(self, TaskId(id), outcome, NOW);
    }

    fn marked(&self) -> Vec<u64> {
        self.tasks.values().filter(|task| task.abort.is_some()).map(|task| task.id.0).collect()
    }

    fn live(&self) -> Vec<u64> {
        self.tasks.values().filter(|task| task.is_live()).map(|task| task.id.0).collect()
    }

    fn outcome(&self, id: u64) -> &TaskOutcome {
        self.tasks[&TaskId(id)].outcome().expect("it is settled")
    }
}

fn completed() -> TaskOutcome {
    TaskOutcome::Completed { output: RawJson::empty() }
}

fn failed() -> TaskOutcome {
    TaskOutcome::Failed { error: TaskFailure::new("declined", "no"), output: None }
}

fn background(task: &mut TaskRecord) {
    task.background = true;
}

#[test]
fn an_abort_goes_down_and_stops_before_background_work() {
    let wood = || Wood::of(&[(5, 0), (6, 5), (7, 6), (8, 5), (9, 8), (10, 0)]).with(8, background);
    let mut shallow = wood();
    assert_eq!(abort(&mut shallow, TaskId(5), "enough", Reach::Ordinary), Aborting::Marked);
    assert_eq!(shallow.marked(), [5, 6, 7]);
    let mut deep = wood();
    abort(&mut deep, TaskId(5), "enough", Reach::Background);
    assert_eq!(deep.marked(), [5, 6, 7, 8, 9]);
    assert_eq!(abort(&mut deep, TaskId(99), "enough", Reach::Ordinary), Aborting::AlreadyEnded);
}

#[test]
fn aborting_again_keeps_the_first_reason_and_reaches_further() {
    let mut wood = Wood::of(&[(5, 0), (6, 5)]).with(6, background);
    abort(&mut wood, TaskId(5), "first", Reach::Ordinary);
    abort(&mut wood, TaskId(5), "second", Reach::Background);
    assert_eq!(wood.tasks[&TaskId(5)].abort.as_deref(), Some("first"));
    assert_eq!(wood.tasks[&TaskId(6)].abort.as_deref(), Some("second"));
}

#[test]
fn an_abort_goes_down_through_conversations_that_are_owned() {
    let mut wood = Wood::of(&[(5, 0), (6, 0)]).with(6, |task| task.conversation = ConversationId(20));
    wood.owners.insert(ConversationId(20), TaskId(5));
    assert_eq!(ancestors(&wood, &wood.tasks[&TaskId(6)]), [TaskId(5)]);
    abort(&mut wood, TaskId(5), "enough", Reach::Ordinary);
    assert_eq!(wood.marked(), [5, 6]);
}

#[test]
fn a_conversation_is_aborted_with_all_ordinary_work_in_it() {
    let mut wood = Wood::of(&[(5, 0), (6, 5), (7, 0)]).with(7, background);
    abort_all(&mut wood, ROOT, "enough", Reach::Ordinary);
    assert_eq!(wood.marked(), [5, 6]);
}

#[test]
fn a_task_that_ends_before_its_work_is_completing() {
    let mut wood = Wood::of(&[(5, 0), (6, 5), (7, 6)]);
    wood.end(6, completed());
    wood.end(5, completed());
    assert_eq!(wood.live(), [5, 6, 7], "how they end is settled, that they have ended is not");
    assert_eq!(wood.tasks[&TaskId(5)].ended, None);
    wood.end(7, completed());
    assert_eq!(wood.live(), Vec::<u64>::new(), "the last one takes all with it");
    assert_eq!(wood.tasks[&TaskId(5)].ended, Some(NOW));
    assert_eq!(wood.marked(), Vec::<u64>::new());
}

#[test]
fn an_end_that_is_no_completion_aborts_the_work_below_first() {
    let mut wood = Wood::of(&[(5, 0), (6, 5), (7, 5)]).with(7, background);
    wood.end(5, failed());
    assert_eq!(wood.marked(), [6]);
    assert_eq!(*wood.outcome(5), failed());
    wood.end(6, TaskOutcome::Aborted { reason: "above".into(), output: None });
    assert_eq!(wood.live(), [7], "background work goes on below what has ended");
}

#[test]
fn background_work_keeps_nobody_from_ending_unless_it_is_told_to_stop() {
    let mut wood = Wood::of(&[(5, 0), (6, 5)]).with(6, background);
    assert!(!is_busy_below(&wood, TaskId(5)));
    abort(&mut wood, TaskId(5), "enough", Reach::Background);
    assert!(is_busy_below(&wood, TaskId(5)));
    assert!(is_busy(&wood, ROOT));
    assert!(!is_busy(&wood, ConversationId(20)));
}

#[test]
fn who_fails_fast_aborts_the_others() {
    let tasks = [(5, 0), (6, 5), (7, 5), (8, 5)];
    let mut wood = Wood::of(&tasks).waiting(5, &[6, 7, 8], WaitPolicy::FailFast);
    wood.end(6, completed());
    assert_eq!(wood.marked(), Vec::<u64>::new());
    wood.end(7, failed());
    assert_eq!(wood.marked(), [8]);
    let mut wood = Wood::of(&tasks).waiting(5, &[6, 7, 8], WaitPolicy::AllSettled);
    wood.end(7, failed());
    assert_eq!(wood.marked(), Vec::<u64>::new());
}
