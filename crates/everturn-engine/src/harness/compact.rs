//! Compaction as a task: plan, ask for a summary, commit the entry from which the context begins anew.

use std::sync::{Arc, Weak};

use everturn_core::{
    Error, Result,
    budget::{Limit, Room, worst_case},
    clock::Timestamp,
    compaction::{Asking, Plan, Transcript, Trigger, Wanted, summary_request, weigh},
    context::Context,
    id::{ConversationId, EntryId, TaskId},
    json::RawJson,
    message::{Message, Stop},
    model::{Fault, FaultClass, Model, ModelRef, Request},
    response::Response,
    task::{
        TaskFailure,
        tree::{Above, Forest},
    },
    usage::{RequestEnd, UsageRow},
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    agent::Agent,
    budget::{self, ROOM, Spender},
    history::TurnEnd,
    turn::{retry_wait, shared},
};
use crate::{
    NewTask, Transaction,
    metrics::span,
    task::{Aborted, Remains, Step, Task, TaskContext, TaskError},
    world::millis,
};

/// How much of a model's window the request for a summary may fill, where the window is known.
const ASKING_PART: u64 = 2;
/// How large the request for a summary may be, in tokens, where the window is not known.
const ASKING_MAX: u64 = 64_000;
/// The kind of a failure that no strategy can make the context shorter.
pub(super) const NOTHING_TO_GAIN: &str = "nothing_to_gain";

/// How long a summary may be, in bytes.
const SUMMARY_MAX: usize = 512 << 10;
/// How many of the largest parts are named when nothing helps.
const NAMED_MAX: usize = 3;

/// Compactions as tasks. What comes out is the entry that does it.
pub(super) struct CompactTask(pub(super) Weak<Shared>);

/// What a compaction is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CompactInput {
    pub(super) trigger: Trigger,
    /// What the summary should look at most of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) focus: Option<String>,
    /// What the context has to get below, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) room: Option<u64>,
}

/// Where a compaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CompactState {
    /// Requests for the summary that were sent.
    attempts: u32,
}

/// How asking for a summary ended.
enum Asked {
    Summary(String),
    Faulted(Fault),
}

impl Task for CompactTask {
    const NAME: &'static str = "et.compact";
    type Input = CompactInput;
    type State = CompactState;
    type Output = EntryId;

    fn start(&self, _: &CompactInput) -> CompactState {
        CompactState::default()
    }

    async fn step(
        &self,
        cx: &TaskContext,
        input: &CompactInput,
        state: CompactState,
    ) -> Result<Step<Self>, TaskError> {
        let shared = shared(&self.0)?;
        let compacting = Compacting { shared: &shared, cx, input, state };
        Ok(compacting.run().await?)
    }

    async fn abort(
        &self,
        cx: &TaskContext,
        input: &CompactInput,
        state: CompactState,
    ) -> Result<Aborted<Self>, TaskError> {
        let end = if cx.was_entered_here() { RequestEnd::Aborted } else { RequestEnd::Unknown };
        let shared = shared(&self.0)?;
        Ok(Compacting { shared: &shared, cx, input, state }.remains(end).await?)
    }

    async fn fault(
        &self,
        cx: &TaskContext,
        input: &CompactInput,
        state: CompactState,
        _: &TaskFailure,
    ) -> Result<Remains<Self>, TaskError> {
        let shared = shared(&self.0)?;
        Ok(Compacting { shared: &shared, cx, input, state }.remains(RequestEnd::Failed).await?)
    }
}

/// A compaction that runs.
struct Compacting<'a> {
    shared: &'a Shared,
    cx: &'a TaskContext,
    input: &'a CompactInput,
    state: CompactState,
}

impl Compacting<'_> {
    async fn run(self) -> Result<Step<CompactTask>> {
        let (session, conversation) = (self.cx.session(), self.cx.conversation());
        let lineage = session.conversation(conversation).await?.lineage.clone();
        let entries = session.visible(lineage, None).await?;
        let transcript = Transcript { entries: &entries };
        let wanted = Wanted { keep_recent: self.shared.settings().keep_recent, room: self.input.room };
        let Some(plan) = self.shared.strategy.plan(&transcript, &wanted) else {
            return Ok(fail(NOTHING_TO_GAIN, "the context is as short as it can be"));
        };
        match plan.needs_summary {
            true => self.summarise(&transcript, &plan).await,
            false => {
                let tx = self.cx.begin().await?;
                self.commit(tx, &plan, None).await
            }
        }
    }

    /// Has a model write the summary, once there is room for that in the budgets above, and commits what came of it.
    async fn summarise(mut self, transcript: &Transcript<'_>, plan: &Plan) -> Result<Step<CompactTask>> {
        if self.cx.was_entered() {
            // The request may have been sent: that was an attempt, and what follows is the next one.
            let mut tx = self.cx.begin().await?;
            self.cut(&mut tx, RequestEnd::Unknown).await?;
            return Ok(Step::go(self.state).with(tx));
        }
        let Some(model) = self.model().await? else { return Ok(fail("no_model", super::agent::NO_MODEL)) };
        let client = match self.shared.models.resolve(&model) {
            Ok(client) => client,
            Err(error) => return Ok(fail("no_model", &error.to_string())),
        };
        if let Some(until) = self.shared.limiter.closed_until(&model, self.cx.now()) {
            return Ok(Step::sleep(until, self.state));
        }
        let abilities = client.abilities(&model.model);
        let tokens_max = abilities.window.map_or(ASKING_MAX, |window| window / ASKING_PART);
        let asking = Asking { focus: self.input.focus.as_deref(), tokens_max };
        let messages = summary_request(transcript, plan, &asking);
        let estimate = messages.iter().map(weigh).sum();
        let worst = worst_case(estimate, abilities.output_max, abilities.price.as_ref());
        let mut tx = self.cx.begin().await?;
        match tx.reserve(self.shared, self.spender(&tx), worst).await? {
            // Before it is sent: should the process end meanwhile, it is charged.
            Room::Enough => tx.commit().await.map(drop)?,
            Room::Wait => return Ok(Step::wait_signal(ROOM, self.state).with(tx)),
            Room::Exceeded(limit) => return Ok(Step::fail(out_of_budget(limit)?)),
        }
        let (asked, row, wall_ms) = self.ask((&model, &client), messages).await?;
        let mut tx = self.cx.begin().await?;
        self.pay(&mut tx, Some(row), wall_ms).await?;
        match asked {
            Asked::Summary(summary) => self.commit(tx, plan, Some(&summary)).await,
            Asked::Faulted(fault) => Ok(self.faulted(tx, fault)),
        }
    }

    /// Asks a model for the summary; gives what came of it, its row of the ledger, and how long it took.
    async fn ask(
        &mut self,
        (model, client): (&ModelRef, &Arc<dyn Model>),
        messages: Vec<Message>,
    ) -> Result<(Asked, UsageRow, u64)> {
        let request =
            Request { endpoint: model.endpoint.clone(), ..Request::new(model.model.clone(), messages) };
        let places_max = self.shared.settings().requests_max;
        let _pass = tokio::select! {
            biased;
            () = self.cx.cancel().cancelled() => return Err(stopped()),
            pass = self.shared.limiter.enter(model, places_max) => pass,
        };
        self.state.attempts += 1;
        self.cx.enter();
        let sent = self.cx.now();
        let mut stream = span::ask((self.shared, self.cx), (model, client), request);
        let mut response = Response::default();
        let ended = loop {
            tokio::select! {
                biased;
                () = self.cx.cancel().cancelled() => return Err(stopped()),
                delta = stream.next() => match delta {
                    Some(Ok(delta)) if response.weight() + delta.weight() > SUMMARY_MAX => {
                        break Err(Fault::new(FaultClass::Malformed, "the summary is longer than can be kept"));
                    }
                    Some(Ok(delta)) => response.push(delta),
                    Some(Err(fault)) => break Err(fault),
                    None => break Err(Fault::new(FaultClass::Transient, "the stream ended before the response did")),
                },
            }
            if let Some(stop) = response.stop() {
                break Ok(stop);
            }
        };
        let wall_ms = millis(self.cx.now().since(sent));
        let end = if ended.is_ok() { RequestEnd::Complete } else { RequestEnd::Failed };
        let row = self.row(model, &response, end);
        let asked = match ended {
            Ok(Stop::Answer) => Asked::Summary(response.text()),
            Ok(_) => Asked::Faulted(Fault::new(FaultClass::Malformed, "the model gave no summary")),
            Err(fault) => {
                self.shared.limiter.heard(model, &fault, self.cx.now());
                Asked::Faulted(fault)
            }
        };
        Ok((asked, row, wall_ms))
    }

    /// Who spends what the summary costs.
    fn spender(&self, tx: &Transaction) -> Spender {
        let task = self.cx.id();
        let turn = tx.task(task).and_then(|task| task.owner).unwrap_or(task);
        Spender { conversation: self.cx.conversation(), turn, task }
    }

    /// Stages the row of a request, and settles it in the budgets above.
    async fn pay(&self, tx: &mut Transaction, row: Option<UsageRow>, wall_ms: u64) -> Result<()> {
        let used = row.as_ref().and_then(|row| budget::used(row.usage.as_ref(), row.cost));
        let by = self.spender(tx);
        row.into_iter().for_each(|row| tx.put_usage(row));
        tx.settle_spending(self.shared, by, (used, wall_ms)).await
    }

    /// Counts a request that was cut off, and accounts for it.
    async fn cut(&mut self, tx: &mut Transaction, end: RequestEnd) -> Result<()> {
        self.state.attempts += 1;
        // Without a model, none was asked since: what was reserved says all.
        let row = self.model().await?.map(|model| self.row(&model, &Response::default(), end));
        self.pay(tx, row, 0).await
    }

    /// What a compaction leaves that is cut off: the account of its request, or what it has reserved for one.
    async fn remains(mut self, end: RequestEnd) -> Result<Remains<CompactTask>> {
        let mut tx = self.cx.begin().await?;
        match self.cx.was_entered() {
            true => self.cut(&mut tx, end).await?,
            false => tx.release(self.shared, self.spender(&tx)).await?,
        }
        Ok(Remains::default().with(tx))
    }

    /// Who writes the summary.
    async fn model(&self) -> Result<Option<ModelRef>> {
        let agent = self.cx.snapshot::<Agent>(self.cx.conversation()).await?.unwrap_or_default();
        Ok(self.shared.settings().summary_model.clone().or(agent.model))
    }

    fn row(&self, model: &ModelRef, response: &Response, end: RequestEnd) -> UsageRow {
        let price = self.shared.price(model);
        let usage = response.usage();
        UsageRow {
            conversation: self.cx.conversation(),
            turn: self.cx.id(),
            step: 1,
            attempt: self.state.attempts,
            model: model.to_string(),
            end,
            usage,
            cost: usage.and_then(|usage| price?.of(&usage)),
            time: self.cx.now(),
        }
    }

    /// Tries again after a while, or gives up.
    fn faulted(self, tx: Transaction, fault: Fault) -> Step<CompactTask> {
        if !fault.may_retry() || self.state.attempts > self.shared.settings().retries_max {
            let failure = TaskFailure::new(fault.class.word(), fault.message);
            return Step::fail(failure).with(tx);
        }
        let wait = retry_wait(&fault, self.state.attempts - 1, &*self.shared.opener.world.entropy);
        let until: Timestamp = tx.time() + wait;
        Step::sleep(until, self.state).with(tx)
    }

    /// Commits the entry, unless the conversation has changed so that the plan no longer fits: then it is planned anew.
    async fn commit(
        self,
        mut tx: Transaction,
        plan: &Plan,
        summary: Option<&str>,
    ) -> Result<Step<CompactTask>> {
        let now = tx.context(self.cx.conversation()).await?;
        if !plan.fits(&now) {
            return Ok(Step::go(self.state).with(tx));
        }
        let Some(entry) = plan.entry(summary, self.input.trigger) else {
            let failure =
                TaskFailure::new("empty_summary", "the model gave an empty summary; nothing was changed");
            return Ok(Step::fail(failure).with(tx));
        };
        let entry = tx.append_for(Some(self.cx.id()), self.cx.conversation(), entry)?;
        Ok(Step::done(entry).with(tx))
    }
}

fn stopped() -> Error {
    Error::closed("a compaction was told to stop while the model was asked")
}

/// Why a compaction fails for which a budget above has no room. The limit is the detail.
fn out_of_budget(limit: Limit) -> Result<TaskFailure> {
    let failure = TurnEnd::OutOfBudget { limit: limit.word().into() }.into_failure();
    Ok(TaskFailure { detail: Some(RawJson::of(&limit.word())?), ..failure })
}

fn fail(kind: &str, message: &str) -> Step<CompactTask> {
    Step::fail(TaskFailure::new(kind, message))
}

impl Transaction {
    /// Stages a compaction of a conversation: as work of a turn that waits for it, of its own, or in the background.
    pub(super) fn compact(
        &mut self,
        conversation: ConversationId,
        owner: Option<TaskId>,
        input: &CompactInput,
    ) -> Result<TaskId> {
        let new = NewTask::of::<CompactTask>(conversation, input)?;
        let background = input.trigger == Trigger::Ahead;
        self.create_task(NewTask { owner, background, ..new })
    }

    /// The compaction of a conversation that is under way.
    pub(super) fn compacting(&self, conversation: ConversationId) -> Option<TaskId> {
        let is_one = |id: &TaskId| {
            Forest::task(self, *id).is_some_and(|task| task.kind == CompactTask::NAME && task.abort.is_none())
        };
        self.below(Above::Conversation(conversation)).into_iter().find(is_one)
    }
}

/// The largest parts of a context, for who has to make it shorter.
pub(super) fn largest(context: &Context) -> String {
    let weight = |active: &everturn_core::context::Active| -> u64 {
        active.messages.iter().map(|message| weigh(message)).sum()
    };
    let mut parts: Vec<(u64, EntryId)> =
        context.active().iter().map(|active| (weight(active), active.entry)).collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    parts.truncate(NAMED_MAX);
    let named = parts.iter().map(|(tokens, entry)| format!("entry {entry} (about {tokens} tokens)"));
    named.collect::<Vec<_>>().join(", ")
}
