//! Moving a turn inside a transaction: decisions that need no effect follow each other in one commit.

use everturn_core::{
    Error, Result,
    entry::{Entry, kind},
    id::{ConversationId, EntryId, TaskId},
    json::RawJson,
    message::{Message, Part, Usage, User},
    submission::{Place, Queued, SubmissionRecord, SubmissionState},
    usage::{RequestEnd, UsageRow},
};

use super::{
    Partial, TurnTask,
    request::Attempt,
    state::{Next, Phase, Pinned, Reason, TurnInput, TurnState, next},
};
use crate::{
    NewTask, Transaction,
    harness::{
        Shared,
        agent::{self, Agent},
        history::TurnEnd,
        prompt::{self, Resolved, Told},
        settle,
    },
    task::Task,
};

/// A turn inside a transaction.
#[derive(Clone)]
pub(crate) struct Turn {
    id: TaskId,
    conversation: ConversationId,
    pub(crate) input: TurnInput,
    pub(crate) state: TurnState,
    /// Who is asked next, where the model was already told what it should know.
    resolved: Option<Resolved>,
}

/// What a turn has come to inside a transaction.
pub(crate) enum Came {
    /// It goes on from here.
    On(TurnState),
    /// It goes on from here when its calls have ended.
    Wait(TurnState, Vec<TaskId>),
    /// It is over, and this entry keeps how.
    Over(TurnEnd, EntryId),
}

/// Places an input: commits nothing itself, but stages the user entry, the submission, the turn, and the first
/// request's prepare.
pub(crate) async fn admit(
    shared: &Shared,
    tx: &mut Transaction,
    mut submission: SubmissionRecord,
) -> Result<()> {
    let SubmissionState::Queued(Queued { parts, .. }) = submission.state else {
        let message = format!("place submission {}: it no longer waits", submission.id);
        return Err(Error::conflict(message));
    };
    let conversation = submission.conversation;
    let id = TaskId(tx.mint());
    // What the model should know stands before what it is asked. Who cannot be asked is told by the turn.
    let resolved = resolve(shared, tx, conversation).await?.ok();
    if let Some(resolved) = &resolved {
        prompt::tell(tx, Told { conversation, turn: id }, resolved).await?;
    }
    let entry = user_entry(parts);
    let first = tx.append_for(Some(id), conversation, entry)?;
    let input = TurnInput { submission: submission.id, first };
    submission.state = SubmissionState::Placed(Place { turn: id, entry: first, step: 1 });
    tx.put_submission(submission);
    let steps_max = shared.settings().steps_max;
    let state = TurnState { steps_max, ..TurnState::begin(first) };
    let new = NewTask::new(conversation, TurnTask::NAME, TurnTask::VERSION).input(&input)?;
    let turn = Turn { id, conversation, input, state, resolved };
    let (state, over) = match turn.advance(shared, tx).await? {
        Came::On(state) | Came::Wait(state, _) => (state, None),
        Came::Over(end, entry) => (TurnState::begin(first), Some((end, entry))),
    };
    let task = tx.record_of_task(id, NewTask { checkpoint: Some(RawJson::of(&state)?), ..new })?;
    tx.put_task(task);
    if let Some((end, entry)) = over {
        tx.end_task(id, end.into_outcome(RawJson::of(&entry)?));
    }
    Ok(())
}

/// Who is asked next in a conversation, or why nobody can be.
async fn resolve(
    shared: &Shared,
    tx: &Transaction,
    conversation: ConversationId,
) -> Result<std::result::Result<Resolved, Reason>> {
    let agent = tx.snapshot::<Agent>(conversation).await?.unwrap_or_default();
    let Some(model) = agent.model.clone() else {
        return Ok(Err(Reason::new("no_model", agent::NO_MODEL)));
    };
    Ok(Resolved::of(shared, agent, model).map_err(|error| Reason::new("no_model", error.to_string())))
}

/// The entry of an input.
pub(crate) fn user_entry(parts: Vec<Part>) -> Entry {
    Entry::new(kind::USER).message(Message::User(User { parts }))
}

impl Turn {
    /// A live turn as it stands in a transaction.
    ///
    /// Errors: `Conflict` when there is no such turn.
    pub(crate) fn load(shared: &Shared, tx: &Transaction, id: TaskId, state: TurnState) -> Result<Self> {
        let gone = || Error::conflict(format!("move turn {id}: it has ended"));
        let task = tx.task(id).filter(|task| task.is_live()).ok_or_else(gone)?;
        let mut turn =
            Self { id, conversation: task.conversation, input: task.input.read()?, state, resolved: None };
        if let Phase::Calling { calls } = &turn.state.phase {
            let is_open = |call: &&TaskId| tx.task(**call).is_some_and(|call| call.is_live());
            turn.state.open = calls.iter().filter(is_open).count();
        }
        turn.state.is_aborted = task.abort.is_some();
        turn.state.steps_max = shared.settings().steps_max;
        Ok(turn)
    }

    /// Its id.
    pub(crate) fn id(&self) -> TaskId {
        self.id
    }

    /// The conversation it works for.
    pub(crate) fn conversation(&self) -> ConversationId {
        self.conversation
    }

    /// Whether it was told to stop.
    pub(crate) fn is_aborted(&self) -> bool {
        self.state.is_aborted
    }

    /// Appends an entry of the turn.
    pub(crate) fn append(&mut self, tx: &mut Transaction, entry: Entry) -> Result<EntryId> {
        self.state.last = tx.append_for(Some(self.id), self.conversation, entry)?;
        Ok(self.state.last)
    }

    /// Decides and stages until the turn needs an effect, waits, or is over.
    pub(crate) async fn advance(mut self, shared: &Shared, tx: &mut Transaction) -> Result<Came> {
        loop {
            match next(&self.state) {
                Next::Prepare => self.prepare(shared, tx).await?,
                Next::Request | Next::Stop => return Ok(Came::On(self.state)),
                Next::Wait { on } => return Ok(Came::Wait(self.state, on)),
                Next::End(ending) => {
                    self.state.last = self.newest(tx).await?;
                    let (end, entry) = settle::end(shared, tx, self, ending).await?;
                    return Ok(Came::Over(end, entry));
                }
            }
        }
    }

    /// Resolves the agent once, and pins model, options and cutoff.
    async fn prepare(&mut self, shared: &Shared, tx: &mut Transaction) -> Result<()> {
        let resolved = match self.resolved.take() {
            Some(resolved) => resolved,
            None => match resolve(shared, tx, self.conversation).await? {
                Ok(resolved) => {
                    prompt::tell(tx, Told { conversation: self.conversation, turn: self.id }, &resolved)
                        .await?;
                    resolved
                }
                Err(reason) => {
                    self.state.phase = Phase::Failed(reason);
                    return Ok(());
                }
            },
        };
        let Resolved { agent, model, .. } = resolved;
        self.state.last = self.newest(tx).await?;
        self.state.step += 1;
        self.state.attempt = 1;
        self.state.phase = Phase::Pinned(Pinned { model, thinking: agent.thinking, cutoff: self.state.last });
        Ok(())
    }

    /// The conversation's newest entry: results come from the calls themselves, and what the model is told beside them
    /// from the prompt.
    pub(crate) async fn newest(&self, tx: &Transaction) -> Result<EntryId> {
        let newest = tx.newest(self.conversation).await?;
        Ok(newest.map_or(self.state.last, |newest| newest.max(self.state.last)))
    }

    /// Stages the end of an attempt that was cut off: what it had shown as an aborted entry, and its row of the ledger.
    pub(crate) async fn cut_attempt(&mut self, tx: &mut Transaction, end: RequestEnd) -> Result<()> {
        let Phase::Pinned(pinned) = self.state.phase.clone() else { return Ok(()) };
        let conversation = self.conversation;
        let shown = tx.snapshot::<Partial>(conversation).await?.unwrap_or_default();
        if shown.turn == Some(self.id) && !shown.is_empty() {
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
            turn: self.id,
            step: self.state.step,
            attempt: self.state.attempt,
            model: pinned.model.to_string(),
            end,
            usage,
            time: tx.time(),
        });
    }
}
