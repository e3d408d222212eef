//! Moving a turn inside a transaction: decisions that need no effect follow each other in one commit.

use everturn_core::{
    Error, Result,
    entry::{Entry, kind},
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    json::RawJson,
    message::{Message, Part, Usage, User},
    submission::{Place, SubmissionRecord, SubmissionState},
    task::{TaskRecord, TaskState},
    usage::{RequestEnd, Total, UsageRow},
};

use super::{
    KIND, Partial, VERSION,
    request::Attempt,
    state::{Next, Phase, Pinned, Reason, TurnInput, TurnState, next},
};
use crate::{
    Transaction,
    harness::{
        Shared,
        agent::{self, Agent},
        settle,
    },
};

/// A turn inside a transaction.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) task: TaskRecord,
    pub(crate) input: TurnInput,
    pub(crate) state: TurnState,
}

/// Places an input: commits nothing itself, but stages the user entry, the submission, the turn, and the first
/// request's prepare.
pub(crate) async fn admit(
    shared: &Shared,
    tx: &mut Transaction,
    mut submission: SubmissionRecord,
) -> Result<()> {
    let SubmissionState::Queued { parts } = submission.state else {
        let message = format!("place submission {}: it no longer waits", submission.id);
        return Err(Error::conflict(message));
    };
    let conversation = submission.conversation;
    let id = TaskId(tx.mint());
    let entry = user_entry(parts);
    let first = tx.append_for(Some(id), conversation, entry)?;
    let input = TurnInput { submission: submission.id, first };
    submission.state = SubmissionState::Placed(Place { turn: id, entry: first });
    tx.put_submission(submission);
    let state = TurnState {
        phase: Phase::Asked,
        step: 0,
        attempt: 0,
        last: first,
        total: Total::default(),
        cancelled: None,
        open: 0,
        steps_max: shared.settings.steps_max,
    };
    let task = TaskRecord {
        id,
        conversation,
        owner: None,
        background: false,
        kind: KIND.into(),
        version: VERSION,
        input: RawJson::of(&input)?,
        state: TaskState::Ready { checkpoint: RawJson::of(&state)? },
        abort: None,
        started: tx.time(),
        ended: None,
    };
    Turn { task, input, state }.advance(shared, tx).await
}

/// The entry of an input.
pub(crate) fn user_entry(parts: Vec<Part>) -> Entry {
    Entry::new(kind::USER).message(Message::User(User { parts }))
}

impl Turn {
    /// A live turn as it stands in a transaction; none where there is no such turn.
    pub(crate) fn load(shared: &Shared, tx: &Transaction, id: TaskId) -> Result<Option<Self>> {
        let Some(task) = tx.task(id).filter(|task| task.is_live() && task.kind == KIND) else {
            return Ok(None);
        };
        let checkpoint = match &task.state {
            TaskState::Ready { checkpoint } | TaskState::Waiting { checkpoint, .. } => checkpoint,
            _ => return Ok(None),
        };
        let mut state: TurnState = checkpoint.read()?;
        if let Phase::Calling { calls } = &state.phase {
            let is_open = |call: &&TaskId| tx.task(**call).is_some_and(|call| call.is_live());
            state.open = calls.iter().filter(is_open).count();
        }
        state.cancelled = task.abort.clone();
        state.steps_max = shared.settings.steps_max;
        Ok(Some(Self { input: task.input.read()?, task: (*task).clone(), state }))
    }

    /// The conversation it works for.
    pub(crate) fn conversation(&self) -> ConversationId {
        self.task.conversation
    }

    /// Appends an entry of the turn.
    pub(crate) fn append(&mut self, tx: &mut Transaction, entry: Entry) -> Result<EntryId> {
        self.state.last = tx.append_for(Some(self.task.id), self.conversation(), entry)?;
        Ok(self.state.last)
    }

    /// Decides and stages until the turn needs an effect, waits, or is over.
    pub(crate) async fn advance(mut self, shared: &Shared, tx: &mut Transaction) -> Result<()> {
        loop {
            match next(&self.state) {
                Next::Prepare => self.prepare(shared, tx).await?,
                Next::Request => return self.store(tx, Vec::new()),
                Next::Wait { on } => return self.store(tx, on),
                Next::End(ending) => return settle::end(shared, tx, self, ending).await,
            }
        }
    }

    /// Resolves the agent once, and pins model, options and cutoff.
    async fn prepare(&mut self, shared: &Shared, tx: &mut Transaction) -> Result<()> {
        let agent = tx.snapshot::<Agent>(self.conversation()).await?.unwrap_or_default();
        let model = match agent.model {
            Some(model) => model,
            None => return self.fail("no_model", agent::NO_MODEL.into()),
        };
        if let Err(error) = shared.models.resolve(&model) {
            return self.fail("no_model", error.to_string());
        }
        self.state.step += 1;
        self.state.attempt = 1;
        let epoch = tx.session().epoch();
        self.state.phase =
            Phase::Pinned(Pinned { model, thinking: agent.thinking, cutoff: self.state.last, epoch });
        Ok(())
    }

    fn fail(&mut self, kind: &str, message: String) -> Result<()> {
        self.state.phase = Phase::Failed(Reason::new(kind, message));
        Ok(())
    }

    /// Stages the checkpoint: ready, or waiting for tasks.
    pub(crate) fn store(mut self, tx: &mut Transaction, on: Vec<TaskId>) -> Result<()> {
        let checkpoint = RawJson::of(&self.state)?;
        self.task.state = match on.is_empty() {
            true => TaskState::Ready { checkpoint },
            false => TaskState::Waiting { checkpoint, on },
        };
        tx.put_task(self.task);
        Ok(())
    }

    /// Stages the end of an attempt that was cut off: what it had shown as an aborted entry, and its row of the ledger.
    pub(crate) async fn cut_attempt(&mut self, tx: &mut Transaction, end: RequestEnd) -> Result<()> {
        let Phase::Pinned(pinned) = self.state.phase.clone() else { return Ok(()) };
        let conversation = self.conversation();
        let shown = tx.snapshot::<Partial>(conversation).await?.unwrap_or_default();
        if shown.turn == Some(self.task.id) && !shown.is_empty() {
            let attempt = Attempt { step: shown.step, attempt: shown.attempt };
            let message = Message::Assistant(shown.into_message());
            self.append(tx, Entry::new(kind::ASSISTANT).message(message).data(attempt)?)?;
            tx.apply::<Partial>(conversation, vec![Partial::default().whole()]).await?;
        }
        self.account(tx, &pinned, None, end);
        Ok(())
    }

    /// Stages the row of the ledger for the pinned request.
    pub(crate) fn account(
        &mut self,
        tx: &mut Transaction,
        pinned: &Pinned,
        usage: Option<Usage>,
        end: RequestEnd,
    ) {
        self.state.total.add(usage.as_ref());
        tx.put_usage(UsageRow {
            conversation: self.conversation(),
            turn: self.task.id,
            step: self.state.step,
            attempt: self.state.attempt,
            model: pinned.model.to_string(),
            end,
            usage,
            time: tx.time(),
        });
    }

    /// The submission that the turn answers.
    pub(crate) fn submission(&self) -> SubmissionId {
        self.input.submission
    }
}
