//! Moving a turn inside a transaction: decisions that need no effect follow each other in one commit.

use everturn_core::{
    Error, Result,
    budget::Room,
    clock::Timestamp,
    entry::{Entry, kind},
    id::{ConversationId, EntryId, TaskId},
    json::RawJson,
    message::{CallId, Message, Usage},
    model::Fault,
    submission::SubmissionRecord,
    task::{TaskRecord, TaskState},
    usage::{RequestEnd, UsageRow},
};

use super::{
    Partial, TurnTask,
    prepare::resolve,
    request::Attempt,
    retry,
    state::{Asked, Judged, Limits, Next, Phase, Pinned, Reason, TurnInput, TurnState, next},
};
use crate::{
    NewTask, Transaction,
    harness::{
        Settings, Shared,
        agent::Agent,
        budget::{self, ROOM, Spender},
        call::call_id,
        history::TurnEnd,
        inbox,
        prompt::{self, Place, Resolved},
        settle,
    },
    task::Task,
};

/// How often the process may end while a turn's model is asked.
const CUTS_MAX: u32 = 10;

/// A turn inside a transaction.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(super) id: TaskId,
    pub(super) conversation: ConversationId,
    pub(crate) input: TurnInput,
    pub(crate) state: TurnState,
    /// Who is asked next, where the model was already told what it should know.
    pub(super) resolved: Option<Resolved>,
}

/// What a turn has come to inside a transaction.
pub(crate) enum Came {
    /// It goes on from here.
    On(TurnState),
    /// It goes on from here when these have ended.
    Wait(TurnState, Vec<TaskId>),
    /// It goes on from here at this moment.
    Sleep(TurnState, Timestamp),
    /// It goes on from here when there is room in a budget.
    Listen(TurnState),
    /// It is over, and this entry keeps how.
    Over(TurnEnd, EntryId),
}

/// Places an input: commits nothing itself, but stages the user entry, the submission, the turn, and the first request's
/// prepare.
pub(crate) async fn admit(shared: &Shared, tx: &mut Transaction, submission: SubmissionRecord) -> Result<()> {
    let conversation = submission.conversation;
    let (id, mut input) = begin(tx, &submission)?;
    let mut agent = tx.snapshot::<Agent>(conversation).await?.unwrap_or_default();
    input.options.agent.clone().apply(&mut agent);
    // What the model should know stands before what it is asked. Who cannot be asked is told by the turn.
    let resolved = resolve(shared, agent, 0).ok();
    if let Some(resolved) = &resolved {
        prompt::tell(tx, Place { conversation, turn: id }, resolved).await?;
    }
    input.first = place(tx, id, submission)?;
    let state = TurnState::begin(input.first);
    // Accounts are asked about the turn: it stands in the transaction before it is moved.
    let task = stage(tx, (id, conversation), &input)?;
    let mut turn = Turn { id, conversation, input, state, resolved };
    turn.state.limits = turn.limits(shared);
    let (state, is_listening) = match turn.advance(shared, tx).await? {
        Came::On(state) | Came::Wait(state, _) | Came::Sleep(state, _) => (state, false),
        Came::Listen(state) => (state, true),
        Came::Over(end, entry) => {
            tx.end_task(id, end.into_outcome(RawJson::of(&entry)?));
            return Ok(());
        }
    };
    let checkpoint = RawJson::of(&state)?;
    let state = match is_listening {
        true => TaskState::Listening { checkpoint, signal: ROOM.into(), until: None },
        false => TaskState::Ready { checkpoint: Some(checkpoint) },
    };
    tx.put_task(TaskRecord { state, ..task });
    Ok(())
}

/// Places inputs that have waited: the turn is the first one's, the others are placed in it. Its own first step prepares the
/// request: the end of the turn before it does not depend on that.
pub(crate) fn admit_later(tx: &mut Transaction, inputs: Vec<SubmissionRecord>) -> Result<()> {
    let mut inputs = inputs.into_iter();
    let Some(first) = inputs.next() else { return Ok(()) };
    let conversation = first.conversation;
    let (id, mut input) = begin(tx, &first)?;
    input.first = place(tx, id, first)?;
    for other in inputs {
        place(tx, id, other)?;
    }
    stage(tx, (id, conversation), &input).map(drop)
}

/// What a turn is given that answers an input; its entry is not placed yet.
fn begin(tx: &mut Transaction, submission: &SubmissionRecord) -> Result<(TaskId, TurnInput)> {
    let Some(queued) = submission.queued() else {
        let message = format!("place submission {}: it no longer waits", submission.id);
        return Err(Error::conflict(message));
    };
    let options = queued.options.as_ref().map(RawJson::read).transpose()?.unwrap_or_default();
    Ok((TaskId(tx.mint()), TurnInput { submission: submission.id, first: EntryId(0), options }))
}

/// Stages the task of a turn at its beginning, and its timer.
fn stage(
    tx: &mut Transaction,
    (id, conversation): (TaskId, ConversationId),
    input: &TurnInput,
) -> Result<TaskRecord> {
    let new = NewTask::new(conversation, TurnTask::NAME, TurnTask::VERSION).input(input)?;
    let checkpoint = Some(RawJson::of(&TurnState::begin(input.first))?);
    let task = tx.record_of_task(id, NewTask { checkpoint, ..new })?;
    tx.put_task(task.clone());
    if let Some(deadline) = input.options.deadline {
        tx.set_deadline(&task, deadline)?;
    }
    Ok(task)
}

/// Places an input in a turn that begins.
fn place(tx: &mut Transaction, turn: TaskId, submission: SubmissionRecord) -> Result<EntryId> {
    let entry = tx.append_for(Some(turn), submission.conversation, inbox::said(&submission))?;
    tx.put_submission(SubmissionRecord { state: inbox::placed(turn, entry), ..submission });
    Ok(entry)
}

impl Turn {
    /// A live turn as it stands in a transaction.
    ///
    /// Errors: `Conflict` when there is no such turn.
    pub(crate) fn load(shared: &Shared, tx: &Transaction, id: TaskId, state: TurnState) -> Result<Self> {
        let gone = || Error::conflict(format!("move turn {id}: it has ended"));
        let task = tx.task(id).filter(|task| task.is_live()).ok_or_else(gone)?;
        let input = task.input.read()?;
        let mut turn = Self { id, conversation: task.conversation, input, state, resolved: None };
        turn.state.open = turn.open(tx);
        turn.state.is_aborted = task.abort.is_some();
        turn.state.limits = turn.limits(shared);
        Ok(turn)
    }

    /// How much of what it waits for has not ended.
    fn open(&self, tx: &Transaction) -> usize {
        let is_open = |task: &&TaskId| tx.task(**task).is_some_and(|task| task.is_live());
        match &self.state.phase {
            Phase::Calling { calls } => calls.iter().filter(is_open).count(),
            Phase::Compacting { task, .. } => usize::from(is_open(&task)),
            _ => 0,
        }
    }

    /// What the host allows it.
    fn limits(&self, shared: &Shared) -> Limits {
        let settings: &Settings = &shared.settings();
        Limits {
            steps_max: settings.steps_max,
            retries_max: settings.retries_max,
            fallbacks: u32::try_from(settings.fallbacks.len()).unwrap_or(u32::MAX),
            ..Limits::default()
        }
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

    /// What the conversation runs with in this turn.
    pub(crate) async fn agent(&self, tx: &Transaction) -> Result<Agent> {
        let mut agent = tx.snapshot::<Agent>(self.conversation).await?.unwrap_or_default();
        self.input.options.agent.clone().apply(&mut agent);
        Ok(agent)
    }

    /// The answer that is not what was asked for, where the turn ends with one.
    pub(crate) fn unfit_answer(&self) -> Option<EntryId> {
        match self.state.phase {
            Phase::Responded { reply, judged: Judged::Invalid(_), .. } => Some(reply),
            _ => None,
        }
    }

    /// Appends an entry of the turn.
    pub(crate) fn append(&mut self, tx: &mut Transaction, entry: Entry) -> Result<EntryId> {
        self.state.last = tx.append_for(Some(self.id), self.conversation, entry)?;
        Ok(self.state.last)
    }

    /// Decides and stages until the turn needs an effect, waits, or is over.
    pub(crate) async fn advance(mut self, shared: &Shared, tx: &mut Transaction) -> Result<Came> {
        self.take_results(tx).await?;
        self.take_compaction(tx).await?;
        self.count_gates(shared, tx).await?;
        loop {
            match next(&self.state) {
                Next::Prepare => {
                    if self.prepare(shared, tx).await? == Room::Wait {
                        return Ok(Came::Listen(self.state));
                    }
                }
                Next::SendOn { message } => self.send_on(tx, message)?,
                Next::FallBack => {
                    self.state.counts.fallback += 1;
                    self.state.counts.retries = 0;
                    self.again();
                }
                Next::Rebind => {
                    self.state.counts.epochs += 1;
                    prompt::rebind(tx, Place { conversation: self.conversation, turn: self.id }).await?;
                    self.again();
                }
                // What the provider refused is more than it takes: so much has to go.
                Next::Compact => self.compact(shared, tx, true).await?,
                Next::Retry { fault, pinned } => return self.retry(shared, tx, (fault, pinned)).await,
                Next::Request | Next::Stop | Next::Gate { .. } => return Ok(Came::On(self.state)),
                Next::Wait { on } => return Ok(Came::Wait(self.state, on)),
                Next::End(ending) => {
                    self.state.last = self.newest(tx).await?;
                    let (end, entry) = settle::end(shared, tx, self, ending).await?;
                    return Ok(Came::Over(end, entry));
                }
            }
        }
    }

    /// Prepares the same step anew.
    fn again(&mut self) {
        self.state.is_again = true;
        self.state.phase = Phase::Asked;
    }

    /// Takes what the calls of the response gave, once all have ended.
    async fn take_results(&mut self, tx: &Transaction) -> Result<()> {
        let Phase::Calling { calls } = &self.state.phase else { return Ok(()) };
        if self.state.open > 0 {
            return Ok(());
        }
        let own: Vec<CallId> = calls.iter().map(|call| call_id(*call)).collect();
        let response = tx.last_response(self.conversation).await?;
        let results = || response.calls().filter(|(call, _)| own.contains(&call.id));
        self.state.repeats = self.state.repeats.count(results());
        self.state.asked = Asked::of(results().map(|(_, result)| result));
        Ok(())
    }

    /// Counts the gates that an answer has to pass.
    async fn count_gates(&mut self, shared: &Shared, tx: &Transaction) -> Result<()> {
        if let Phase::Responded { judged: Judged::Open, .. } = &self.state.phase {
            self.state.limits.gates = shared.select(&self.agent(tx).await?).gates().count();
        }
        Ok(())
    }

    /// Stages a message that sends the turn on.
    fn send_on(&mut self, tx: &mut Transaction, message: String) -> Result<()> {
        if let Phase::Responded { judged, .. } = &self.state.phase {
            match judged {
                Judged::Invalid(_) => self.state.counts.repairs += 1,
                _ => self.state.counts.refusals += 1,
            }
        }
        self.append(tx, Entry::new(kind::NOTICE).message(Message::user(message)))?;
        self.state.phase = Phase::Asked;
        Ok(())
    }

    /// Who spends what this turn spends.
    pub(crate) fn spender(&self) -> Spender {
        Spender::turn(self.conversation, self.id)
    }

    /// Counts an attempt that was cut off, and has its request sent again: once what it may cost is reserved anew.
    pub(crate) fn was_cut(&mut self) {
        let Phase::Pinned(pinned) = self.state.phase.clone() else { return };
        self.state.attempt += 1;
        self.state.counts.cuts += 1;
        self.state.phase = match self.state.counts.cuts > CUTS_MAX {
            true => {
                let message = format!("its process has ended {CUTS_MAX} times while the model was asked");
                Phase::Failed(Reason::new("crash_loop", message))
            }
            false => Phase::Waiting(pinned),
        };
    }

    /// Reserves what a request that is sent again may cost; gives where the turn stands then.
    pub(crate) async fn send_again(mut self, shared: &Shared, tx: &mut Transaction) -> Result<Came> {
        let Phase::Waiting(pinned) = self.state.phase.clone() else { return self.advance(shared, tx).await };
        let Ok(client) = shared.models.resolve(&pinned.model) else {
            let message = format!("nobody answers for model {} any more", pinned.model);
            self.state.phase = Phase::Failed(Reason::new("no_model", message));
            return self.advance(shared, tx).await;
        };
        match self.reserve(shared, tx, &client.abilities(&pinned.model.model)).await? {
            Room::Enough => self.state.phase = Phase::Pinned(pinned),
            Room::Wait => return Ok(Came::Listen(self.state)),
            Room::Exceeded(limit) => self.state.phase = Phase::Spent { limit: limit.word().into() },
        }
        self.advance(shared, tx).await
    }

    /// Stages the wait before the same request is sent again.
    async fn retry(
        mut self,
        shared: &Shared,
        tx: &mut Transaction,
        (fault, pinned): (Fault, Pinned),
    ) -> Result<Came> {
        let wait = retry::wait(&fault, self.state.counts.retries, &*shared.opener.world.entropy);
        let until = tx.time() + wait;
        self.state.counts.retries += 1;
        self.state.attempt += 1;
        self.state.phase = Phase::Waiting(pinned);
        let waiting = Partial::waiting(self.id, (self.state.step, self.state.attempt), until);
        tx.apply::<Partial>(self.conversation, vec![waiting.whole()]).await?;
        Ok(Came::Sleep(self.state, until))
    }

    /// Stages that no request of the turn streams or waits to be sent any more.
    pub(crate) async fn forget_partial(&self, tx: &mut Transaction) -> Result<()> {
        let shown = tx.snapshot::<Partial>(self.conversation).await?.unwrap_or_default();
        match shown.turn == Some(self.id) {
            true => tx.apply::<Partial>(self.conversation, vec![Partial::default().whole()]).await,
            false => Ok(()),
        }
    }

    /// The conversation's newest entry: results come from the calls themselves, and what the model is told beside them
    /// from the prompt.
    pub(crate) async fn newest(&self, tx: &Transaction) -> Result<EntryId> {
        let newest = tx.newest(self.conversation).await?;
        Ok(newest.map_or(self.state.last, |newest| newest.max(self.state.last)))
    }

    /// Stages the end of an attempt that was cut off: what it had shown as an aborted entry, and its row of the ledger.
    pub(crate) async fn cut_attempt(
        &mut self,
        shared: &Shared,
        tx: &mut Transaction,
        end: RequestEnd,
    ) -> Result<()> {
        let Phase::Pinned(pinned) = self.state.phase.clone() else { return Ok(()) };
        let conversation = self.conversation;
        let shown = tx.snapshot::<Partial>(conversation).await?.unwrap_or_default();
        let mut sent = Sent::default();
        if shown.turn == Some(self.id) {
            sent.wall_ms = shown.out_ms;
            if !shown.is_empty() {
                let attempt = Attempt { step: shown.step, attempt: shown.attempt };
                let message = Message::Assistant(shown.into_message());
                self.append(tx, Entry::new(kind::ASSISTANT).message(message).data(attempt)?)?;
            }
            tx.apply::<Partial>(conversation, vec![Partial::default().whole()]).await?;
        }
        self.account(shared, tx, (&pinned, end), sent).await
    }

    /// Stages the row of the ledger for the pinned request, and settles what was reserved for it.
    pub(crate) async fn account(
        &mut self,
        shared: &Shared,
        tx: &mut Transaction,
        (pinned, end): (&Pinned, RequestEnd),
        sent: Sent,
    ) -> Result<()> {
        let Sent { usage, wall_ms } = sent;
        let price = shared.price(&pinned.model);
        let cost = usage.as_ref().zip(price).and_then(|(usage, price)| price.of(usage));
        let row = UsageRow {
            conversation: self.conversation(),
            turn: self.id,
            step: self.state.step,
            attempt: self.state.attempt,
            model: pinned.model.to_string(),
            end,
            usage,
            cost,
            time: tx.time(),
        };
        self.state.total.add(usage.as_ref(), cost);
        tx.put_usage(row);
        let used = budget::used(usage.as_ref(), cost);
        tx.settle_spending(shared, self.spender(), (used, wall_ms)).await
    }
}

/// What is known of a request that was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// What the provider counted.
    pub(crate) usage: Option<Usage>,
    /// How long it was out; of one that was cut off, until what had come of it was stored last.
    pub(crate) wall_ms: u64,
}
