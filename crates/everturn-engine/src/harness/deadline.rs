//! The deadline of a turn: a timer below it, which survives whoever runs the turn.

use everturn_core::{
    Error, Result,
    clock::Timestamp,
    id::TaskId,
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

/// Deadlines as tasks: each belongs to a turn, and keeps nobody busy.
pub(super) struct DeadlineTask;

impl Task for DeadlineTask {
    const NAME: &'static str = "et.deadline";
    type Input = Timestamp;
    type State = ();
    type Output = ();

    fn start(&self, _: &Timestamp) {}

    async fn step(&self, cx: &TaskContext, _: &Timestamp, (): ()) -> Result<Step<Self>, TaskError> {
        let mut tx = cx.begin().await?;
        let own = tx.task(cx.id()).ok_or_else(|| Error::conflict("its turn has ended"))?;
        if let Some(turn) = own.owner.filter(|turn| tx.task(*turn).is_some()) {
            tx.abort_task(turn, REASON, Reach::Ordinary).await?;
        }
        Ok(Step::done(()).with(tx))
    }
}

impl Transaction {
    /// Stages the timer of a turn.
    pub(super) fn set_deadline(&mut self, turn: &TaskRecord, until: Timestamp) -> Result<()> {
        let new = NewTask::of::<DeadlineTask>(turn.conversation, &until)?;
        let id = TaskId(self.mint());
        let task = self.record_of_task(id, NewTask { owner: Some(turn.id), background: true, ..new })?;
        let state = TaskState::Sleeping { checkpoint: RawJson::of(&())?, until };
        self.put_task(TaskRecord { state, ..task });
        Ok(())
    }

    /// Ends the timer of a turn that is over.
    pub(super) fn clear_deadline(&mut self, turn: TaskId) {
        for below in self.below(Above::Task(turn)) {
            let is_timer = |task: &TaskRecord| task.kind == DeadlineTask::NAME && task.abort.is_none();
            if Forest::task(self, below).is_some_and(|task| is_timer(&task)) {
                self.end_task(
                    below,
                    TaskOutcome::Aborted { reason: "its turn is over".into(), output: None },
                );
            }
        }
    }
}
