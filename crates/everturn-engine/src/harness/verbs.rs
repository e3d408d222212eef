//! What can be asked of a conversation, as it is staged: by whoever owns the session, and by mail.

use everturn_core::{
    Error, Result,
    compaction::Trigger,
    conversation::Ownership,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    storage::{SubmissionFilter, SubmissionQuery, TaskQuery},
    submission::{End, Queued, SubmissionState},
    task::{TaskRecord, tree::Reach},
};

use super::{
    Shared,
    agent::{Agent, AgentChange},
    compact::CompactInput,
    settle::reset_entry,
    turn::TurnTask,
};
use crate::{Session, Transaction, task::Task};

impl Transaction {
    /// Stages what is handed to a conversation; a request id that it knows gives the first submission.
    pub(super) async fn submit(
        &mut self,
        shared: &Shared,
        (conversation, request, actor): (ConversationId, Option<String>, &str),
        (queued, rejects): (Queued, bool),
    ) -> Result<SubmissionId> {
        if let Some(request) = &request {
            let only = SubmissionFilter::Request(conversation, request.clone());
            let query = SubmissionQuery { session: self.session().id(), only };
            if let Some(first) = self.session().store().submissions(query).await?.first() {
                return Ok(first.id);
            }
        }
        self.conversation(conversation).await?;
        if let Some(options) = &queued.options {
            shared.check_options(&options.read()?)?;
        }
        if rejects {
            self.check_idle(conversation)?;
        }
        let mut submission = self.new_submission(conversation, request, queued);
        submission.actor = actor.into();
        let id = submission.id;
        self.hand_over(shared, submission).await?;
        Ok(id)
    }

    /// Proves that a turn could begin in a conversation now.
    ///
    /// Errors: `Conflict`.
    fn check_idle(&self, conversation: ConversationId) -> Result<()> {
        let what = match (self.live_turn(conversation), self.undoing()) {
            (Some(turn), _) => format!("turn {}", turn.id),
            (None, Some(undo)) => format!("undo {}", undo.id),
            (None, None) => return Ok(()),
        };
        Err(Error::conflict(format!("submit to conversation {conversation}: {what} runs")))
    }

    /// Stages that an input is taken back.
    pub(super) fn withdraw(&mut self, id: SubmissionId) -> Result<SubmissionId> {
        match self.submission(id) {
            Some(record) if matches!(record.state, SubmissionState::Queued(_)) => {
                self.settle(&record, End::Withdrawn);
                Ok(id)
            }
            _ => Err(Error::conflict(format!("withdraw submission {id}: it no longer waits"))),
        }
    }

    /// Stages the end of the turn that runs in a conversation; gives it.
    pub(super) async fn cancel_turn(&mut self, conversation: ConversationId) -> Result<Option<TaskId>> {
        let Some(turn) = self.live_turn(conversation) else { return Ok(None) };
        self.abort_task(turn.id, "cancelled", Reach::Ordinary).await?;
        Ok(Some(turn.id))
    }

    /// Stages that what waits in a conversation is withdrawn, and all its work told to stop.
    pub(super) fn abort_conversation(
        &mut self,
        conversation: ConversationId,
        background: bool,
    ) -> Result<()> {
        for queued in self.queued(conversation) {
            if queued.queued().is_some_and(|waiting| waiting.entry.is_none()) {
                self.settle(&queued, End::Withdrawn);
            }
        }
        let reach = if background { Reach::Background } else { Reach::Ordinary };
        self.abort_work(conversation, "the conversation was aborted", reach);
        Ok(())
    }

    /// Stages a change of what a conversation runs with.
    pub(super) async fn configure(
        &mut self,
        shared: &Shared,
        conversation: ConversationId,
        change: AgentChange,
    ) -> Result<()> {
        self.conversation(conversation).await?;
        let agent = self.doc::<Agent>(conversation).await?;
        let before = agent.clone();
        change.apply(agent);
        shared.check_agent(&before, agent)?;
        let is_other_budget = agent.budget != before.budget;
        if is_other_budget {
            self.wake_all_for_room().await?;
        }
        // What is asked of people may be about something else by now.
        self.wake_asking(None).await
    }

    /// Stages a fork that runs with something else.
    pub(super) async fn fork_with(
        &mut self,
        shared: &Shared,
        conversation: ConversationId,
        (at, change): (Option<EntryId>, AgentChange),
    ) -> Result<ConversationId> {
        self.check_unowned(conversation).await?;
        let newest = match at {
            Some(at) => Some(at),
            None => self.newest(conversation).await?,
        };
        let Some(at) = newest else {
            return Err(Error::invalid(format!("fork conversation {conversation}: it has no entry yet")));
        };
        let fork = self.fork(conversation, at, Ownership::Ownerless).await?;
        if !change.is_none() {
            self.configure(shared, fork, change).await?;
        }
        Ok(fork)
    }

    /// Proves that a conversation is nobody's: a fork of a sub-agent's would be free of the policies and the budgets above it.
    ///
    /// Errors: `Invalid`.
    pub(super) async fn check_unowned(&self, conversation: ConversationId) -> Result<()> {
        match self.conversation(conversation).await?.owner {
            Some(owner) => Err(Error::invalid(format!(
                "fork conversation {conversation}: it is the work of task {owner}, and goes by what is above that"
            ))),
            None => Ok(()),
        }
    }

    /// Stages the undoing of a turn that has ended.
    ///
    /// Errors: `NotFound` when no such turn has; as [`undo`](Self::undo).
    pub(super) async fn undo_turn(&mut self, turn: TaskId) -> Result<TaskId> {
        let ended = ended_turn(self.session(), turn).await?;
        let ended = ended.ok_or_else(|| {
            let session = self.session().id();
            Error::not_found(format!("undo turn {turn} of session {session}: no such turn has ended"))
        })?;
        self.undo(ended.conversation, vec![turn])
    }

    /// Stages a compaction that somebody asked for.
    pub(super) fn compact_now(
        &mut self,
        conversation: ConversationId,
        focus: Option<String>,
    ) -> Result<TaskId> {
        if self.compacting(conversation).is_some() {
            let message = format!("compact conversation {conversation}: it is being compacted");
            return Err(Error::conflict(message));
        }
        let input = CompactInput { trigger: Trigger::Asked, focus, room: None };
        self.compact(conversation, None, &input)
    }

    /// Stages that a conversation begins anew.
    pub(super) fn reset(
        &mut self,
        conversation: ConversationId,
        hand_off: Option<String>,
    ) -> Result<EntryId> {
        if let Some(busy) = self.live_turn(conversation) {
            let message =
                format!("reset conversation {conversation}: turn {} runs; cancel it or wait for it", busy.id);
            return Err(Error::conflict(message));
        }
        self.append(conversation, reset_entry(hand_off))
    }
}

/// The record of a turn that has ended; none where no such turn has.
pub(super) async fn ended_turn(session: &Session, turn: TaskId) -> Result<Option<TaskRecord>> {
    let found = session.store().tasks(TaskQuery::one(session.id(), turn)).await?.pop();
    Ok(found.filter(|task| task.kind == TurnTask::NAME && !task.is_live()))
}
