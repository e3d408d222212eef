//! The deadline of a turn, and of an input that waits for one: a timer, which survives whoever runs the session.

use std::sync::Arc;

use everturn_core::{
    Error, Result,
    clock::Timestamp,
    id::{ConversationId, TaskId},
    json::RawJson,
    task::{
        TaskOutcome, TaskRecord, TaskState,
        tree::{Above, Forest, Reach},
    },
};

use crate::{
    NewTask, Transaction,
    task::{Step, Task, TaskContext, TaskError},
};

/// Why a turn is cancelled whose deadline has passed.
const REASON: &str = "its deadline has passed";

/// Deadlines as tasks: each belongs to a turn, or, before there is one, to the queue of its conversation; and keeps nobody
/// busy.
pub(super) struct DeadlineTask;

impl Task for DeadlineTask {
    const NAME: &'static str = "et.deadline";
    type Input = Timestamp;
    type State = ();
    type Output = ();

    fn start(&self, _: &Timestamp) {}

    async fn step(&self, cx: &TaskContext, until: &Timestamp, (): ()) -> Result<Step<Self>, TaskError> {
        let mut tx = cx.begin().await?;
        let own = tx.task(cx.id()).ok_or_else(|| Error::conflict("its turn has ended"))?;
        match own.owner {
            Some(turn) if tx.task(turn).is_some() => {
                tx.abort_task(turn, REASON, Reach::Ordinary).await?;
            }
            Some(_) => {}
            // The clock was set back meanwhile.
            None if tx.time() < *until => return Ok(Step::sleep(*until, ())),
            None => tx.end_overdue(own.conversation),
        }
        Ok(Step::done(()).with(tx))
    }
}

impl Transaction {
    /// Stages the timer of a turn.
    pub(super) fn set_deadline(&mut self, turn: &TaskRecord, until: Timestamp) -> Result<()> {
        self.set_timer(turn.conversation, Some(turn.id), until)
    }

    /// Stages the timer of an input that waits in a conversation.
    pub(super) fn set_queue_deadline(
        &mut self,
        conversation: ConversationId,
        until: Timestamp,
    ) -> Result<()> {
        self.set_timer(conversation, None, until)
    }

    fn set_timer(
        &mut self,
        conversation: ConversationId,
        owner: Option<TaskId>,
        until: Timestamp,
    ) -> Result<()> {
        let new = NewTask::of::<DeadlineTask>(conversation, &until)?;
        let id = TaskId(self.mint());
        let task = self.record_of_task(id, NewTask { owner, background: true, ..new })?;
        let state = TaskState::Sleeping { checkpoint: RawJson::of(&())?, until };
        self.put_task(TaskRecord { state, ..task });
        Ok(())
    }

    /// Ends the timer of a turn that is over.
    pub(super) fn clear_deadline(&mut self, turn: TaskId) {
        for timer in self.timers(Above::Task(turn)) {
            self.end_timer(timer.id, "its turn is over");
        }
    }

    /// Ends the timer of an input that no longer waits. Where several wait for the same moment, there are as many timers.
    pub(super) fn clear_queue_deadline(&mut self, conversation: ConversationId, until: Timestamp) {
        let is_its = |task: &Arc<TaskRecord>| task.input.read().is_ok_and(|at: Timestamp| at == until);
        let timer = self.timers(Above::Conversation(conversation)).into_iter().find(is_its);
        timer.into_iter().for_each(|timer| self.end_timer(timer.id, "its input no longer waits"));
    }

    fn timers(&self, above: Above) -> Vec<Arc<TaskRecord>> {
        let below = self.below(above).into_iter().filter_map(|id| Forest::task(self, id));
        below.filter(|task| task.kind == DeadlineTask::NAME && task.abort.is_none()).collect()
    }

    fn end_timer(&mut self, timer: TaskId, reason: &str) {
        self.end_task(timer, TaskOutcome::Aborted { reason: reason.into(), output: None });
    }
}
