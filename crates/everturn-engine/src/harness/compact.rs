//! Compaction as a task: plan, ask for a summary, commit the entry from which the context begins anew.

use std::sync::Weak;

use everturn_core::{
    Error, Result,
    budget::Spent,
    clock::Timestamp,
    compaction::{Asking, Plan, Transcript, Trigger, Wanted, summary_request, weigh},
    context::Context,
    id::{ConversationId, EntryId, TaskId},
    message::Stop,
    model::{Fault, FaultClass, ModelRef, Request},
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
    budget::{self, Spender},
    turn::{retry_wait, shared},
};
use crate::{
    NewTask, Transaction,
    metrics::span,
    task::{Aborted, Remains, Step, Task, TaskContext, TaskError},
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
        let shared = shared(&self.0)?;
        let mut tx = cx.begin().await?;
        if cx.was_entered() {
            let end = if cx.was_entered_here() { RequestEnd::Aborted } else { RequestEnd::Unknown };
            let mut compacting = Compacting { shared: &shared, cx, input, state };
            let row = compacting.cut(end).await?;
            compacting.pay(&mut tx, Some(row)).await?;
        }
        Ok(Remains::default().with(tx))
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
    async fn run(mut self) -> Result<Step<CompactTask>> {
        let (session, conversation) = (self.cx.session(), self.cx.conversation());
        let lineage = session.conversation(conversation).await?.lineage.clone();
        let entries = session.visible(lineage, None).await?;
        let transcript = Transcript { entries: &entries };
        let wanted = Wanted { keep_recent: self.shared.settings().keep_recent, room: self.input.room };
        let Some(plan) = self.shared.strategy.plan(&transcript, &wanted) else {
            return Ok(fail(NOTHING_TO_GAIN, "the context is as short as it can be"));
        };
        if plan.needs_summary && self.cx.was_entered() {
            // The request may have been sent: that was an attempt, and what follows is the next one.
            let row = self.cut(RequestEnd::Unknown).await?;
            let mut tx = self.cx.begin().await?;
            self.pay(&mut tx, Some(row)).await?;
            return Ok(Step::go(self.state).with(tx));
        }
        if let Some(until) = self.closed_until().await?.filter(|_| plan.needs_summary) {
            return Ok(Step::sleep(until, self.state));
        }
        let mut row = None;
        let summary = if plan.needs_summary {
            let (asked, sent) = self.ask(&transcript, &plan).await?;
            row = Some(sent);
            match asked {
                Asked::Summary(summary) => Some(summary),
                Asked::Faulted(fault) => return self.faulted(fault, row).await,
            }
        } else {
            None
        };
        self.commit(&plan, summary.as_deref(), row).await
    }

    /// Asks a model for the summary; gives what came of it, and its row of the ledger.
    async fn ask(&mut self, transcript: &Transcript<'_>, plan: &Plan) -> Result<(Asked, UsageRow)> {
        let model = self.model().await?;
        let client = self.shared.models.resolve(&model)?;
        let window = client.abilities(&model.model).window;
        let tokens_max = window.map_or(ASKING_MAX, |window| window / ASKING_PART);
        let asking = Asking { focus: self.input.focus.as_deref(), tokens_max };
        let messages = summary_request(transcript, plan, &asking);
        let request =
            Request { endpoint: model.endpoint.clone(), ..Request::new(model.model.clone(), messages) };
        let places_max = self.shared.settings().requests_max;
        let _pass = tokio::select! {
            biased;
            () = self.cx.cancel().cancelled() => return Err(stopped()),
            pass = self.shared.limiter.enter(&model, places_max) => pass,
        };
        self.state.attempts += 1;
        self.cx.enter();
        let mut stream = span::ask((self.shared, self.cx), (&model, &client), request);
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
        let end = if ended.is_ok() { RequestEnd::Complete } else { RequestEnd::Failed };
        let row = self.row(&model, &response, end);
        let asked = match ended {
            Ok(Stop::Answer) => Asked::Summary(response.text()),
            Ok(_) => Asked::Faulted(Fault::new(FaultClass::Malformed, "the model gave no summary")),
            Err(fault) => {
                self.shared.limiter.heard(&model, &fault, self.cx.now());
                Asked::Faulted(fault)
            }
        };
        Ok((asked, row))
    }

    /// Until when the model's endpoint asked to be left alone.
    async fn closed_until(&self) -> Result<Option<Timestamp>> {
        Ok(self.shared.limiter.closed_until(&self.model().await?, self.cx.now()))
    }

    /// Stages the row of a request, and charges it to the budgets above.
    async fn pay(&self, tx: &mut Transaction, row: Option<UsageRow>) -> Result<()> {
        let Some(row) = row else { return Ok(()) };
        let owner = tx.task(self.cx.id()).and_then(|task| task.owner);
        let by = Spender { conversation: self.cx.conversation(), turn: owner.unwrap_or(self.cx.id()) };
        let spent = budget::used(row.usage.as_ref(), row.cost);
        tx.put_usage(row);
        tx.charge(self.shared, by, spent.unwrap_or(Spent { steps: 1, ..Spent::default() })).await
    }

    /// Counts a request that was cut off; gives its row of the ledger.
    async fn cut(&mut self, end: RequestEnd) -> Result<UsageRow> {
        self.state.attempts += 1;
        Ok(self.row(&self.model().await?, &Response::default(), end))
    }

    /// Who writes the summary.
    async fn model(&self) -> Result<ModelRef> {
        let agent = self.cx.snapshot::<Agent>(self.cx.conversation()).await?.unwrap_or_default();
        let model = self.shared.settings().summary_model.clone().or(agent.model);
        model.ok_or_else(|| Error::invalid(super::agent::NO_MODEL))
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

    /// Accounts for a request that failed, and tries again after a while, or gives up.
    async fn faulted(self, fault: Fault, row: Option<UsageRow>) -> Result<Step<CompactTask>> {
        let mut tx = self.cx.begin().await?;
        self.pay(&mut tx, row).await?;
        if !fault.may_retry() || self.state.attempts > self.shared.settings().retries_max {
            let failure = TaskFailure::new(fault.class.word(), fault.message);
            return Ok(Step::fail(failure).with(tx));
        }
        let wait = retry_wait(&fault, self.state.attempts - 1, &*self.shared.opener.world.entropy);
        let until: Timestamp = tx.time() + wait;
        Ok(Step::sleep(until, self.state).with(tx))
    }

    /// Commits the entry, unless the conversation has changed so that the plan no longer fits: then it is planned anew.
    async fn commit(
        self,
        plan: &Plan,
        summary: Option<&str>,
        row: Option<UsageRow>,
    ) -> Result<Step<CompactTask>> {
        let mut tx = self.cx.begin().await?;
        self.pay(&mut tx, row).await?;
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
