//! One step of a turn: send the pinned request, commit what comes while it streams, commit the response.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    BoxFuture, Error, ErrorKind, Result,
    budget::{Limit, Room, Spent},
    clock::Timestamp,
    document::Operation,
    entry::{Entry, kind},
    id::{Seq, TaskId},
    message::{CallId, End, Message, Stop},
    model::{Delta, DeltaStream, Fault, FaultClass, ModelRef, Request},
    response::Response,
    usage::RequestEnd,
};
use futures_util::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};

use super::{
    Partial, Sent, Turn, TurnTask, schema,
    state::{Judged, Phase, Pinned, Reason, TurnState},
};
use crate::{
    Transaction,
    harness::{
        Shared,
        call::{self, Ended},
        limiter::Pass,
    },
    metrics::span,
    session::Sendable,
    task::{Step, TaskContext},
    world::millis,
};

/// How much of an answer can be kept, in bytes: an entry, less what is stored beside the answer's text.
const ANSWER_MAX: usize = 512 << 10;
/// After how many deltas without a pause others get to run.
const BURST: u32 = 64;

/// Data of an assistant entry: which attempt at which step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) step: u32,
    pub(crate) attempt: u32,
}

/// How a request ended.
enum Came {
    /// The model stopped by itself.
    Well(Stop),
    /// The provider, or the way to it, failed.
    Faulted(Fault),
    /// What came cannot be kept.
    Failed(Reason),
    /// The turn was told to stop.
    Cancelled,
}

/// Sends the pinned request, and gives what came of it as the turn's next move.
pub(super) async fn send(
    shared: &Shared,
    cx: &TaskContext,
    state: TurnState,
    pinned: &Pinned,
) -> Result<Step<TurnTask>> {
    Sending { shared, cx, state, pinned }.run().await
}

/// Takes what came of a stream; gives how the request ended, if it did.
fn take(response: &mut Response, delta: Option<std::result::Result<Delta, Fault>>) -> Option<Came> {
    match delta {
        Some(Ok(delta)) if response.weight() + delta.weight() > ANSWER_MAX => {
            let message =
                format!("the answer has more than {ANSWER_MAX} bytes, which is all that can be kept");
            Some(Came::Failed(Reason::new("too_large", message)))
        }
        Some(Ok(delta)) => {
            response.push(delta);
            response.stop().map(Came::Well)
        }
        Some(Err(fault)) => Some(Came::Faulted(fault)),
        None => {
            let fault = Fault::new(FaultClass::Transient, "the stream ended before the response did");
            Some(Came::Faulted(fault))
        }
    }
}

/// A pinned request on its way.
struct Sending<'a> {
    shared: &'a Shared,
    cx: &'a TaskContext,
    state: TurnState,
    pinned: &'a Pinned,
}

impl Sending<'_> {
    async fn run(self) -> Result<Step<TurnTask>> {
        let Pinned { model, thinking, cutoff, schema } = self.pinned;
        let session = self.cx.session();
        let Sendable { messages, tools } = session.sendable(self.cx.conversation(), *cutoff).await?;
        let client = self.shared.models.resolve(model)?;
        let limiter = &self.shared.limiter;
        if let Some(until) = limiter.closed_until(model, self.cx.now()) {
            // The server has asked another request to wait: so does this one, and survives the wait.
            return self.hold(until).await;
        }
        let Some(_pass) = self.enter(model).await? else { return self.give_up().await };
        if let Some(until) = limiter.closed_until(model, self.cx.now()) {
            // Whoever had the place before has been told to wait.
            return self.hold(until).await;
        }
        let request = Request {
            model: model.model.clone(),
            endpoint: model.endpoint.clone(),
            thinking: *thinking,
            messages,
            tools,
            schema: schema.clone(),
        };
        self.cx.enter();
        let sent = self.cx.now();
        let (response, ended, shown) =
            self.stream(span::ask((self.shared, self.cx), (model, &client), request), sent).await?;
        let wall = self.cx.now().since(sent);
        if let Came::Faulted(fault) = &ended {
            limiter.heard(model, fault, self.cx.now());
        }
        self.respond(response, ended, (shown, wall)).await
    }

    /// Waits for a place at the model's endpoint, and shows that; none where the turn was told to stop meanwhile.
    async fn enter(&self, model: &ModelRef) -> Result<Option<Pass>> {
        let (limiter, places_max) = (&self.shared.limiter, self.shared.settings().requests_max);
        if let Some(pass) = limiter.try_enter(model, places_max) {
            return Ok(Some(pass));
        }
        self.show(&Partial::held(self.cx.id(), self.attempt(), None)).await?;
        let pass = tokio::select! {
            biased;
            () = self.cx.cancel().cancelled() => return Ok(None),
            pass = limiter.enter(model, places_max) => pass,
        };
        self.show(&Partial::default()).await.map(|()| Some(pass))
    }

    /// Waits until the model's endpoint may be asked again, and shows that.
    async fn hold(self, until: Timestamp) -> Result<Step<TurnTask>> {
        let mut tx = self.cx.begin().await?;
        let held = Partial::held(self.cx.id(), self.attempt(), Some(until));
        tx.apply::<Partial>(self.cx.conversation(), vec![held.whole()]).await?;
        Ok(Step::sleep(until, self.state).with(tx))
    }

    fn attempt(&self) -> (u32, u32) {
        (self.state.step, self.state.attempt)
    }

    /// Shows how the request stands before it is sent. That storage refuses it for now is no reason not to send it.
    async fn show(&self, partial: &Partial) -> Result<()> {
        match commit(self.cx, vec![partial.whole()]).await {
            Err(error) if !matches!(error.kind(), ErrorKind::Unavailable { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends a request in order that was told to stop before it was sent.
    async fn give_up(self) -> Result<Step<TurnTask>> {
        let mut tx = self.cx.begin().await?;
        let turn = Turn::load(self.shared, &tx, self.cx.id(), self.state.clone())?;
        if !turn.is_aborted() {
            return Err(Error::closed("the session closed before the model was asked"));
        }
        Ok(turn.advance(self.shared, &mut tx).await?.into_step().with(tx))
    }

    /// Reads the stream to its end, and commits what has come as fast as the last such commit settles.
    async fn stream(&self, mut stream: DeltaStream, sent: Timestamp) -> Result<(Response, Came, bool)> {
        let mut response = Response::default();
        let mut flush = Flush::new(self, sent);
        let mut taken = 0_u32;
        let ended = loop {
            tokio::select! {
                biased;
                () = self.cx.cancel().cancelled() => break Came::Cancelled,
                delta = stream.next() => match take(&mut response, delta) {
                    Some(ended) => break ended,
                    None => flush.is_due = true,
                },
                // Reached only when nothing more has come yet: what is there is shown.
                result = flush.advance(&response) => result?,
            }
            taken += 1;
            if taken.is_multiple_of(BURST) {
                // A stream that always has more must neither hide what came nor keep the thread.
                flush.advance(&response).now_or_never().transpose()?;
                tokio::task::yield_now().await;
            }
        };
        drop(stream);
        Ok((response, ended, flush.finish().await?))
    }

    /// Stages the response, its cost, its calls, and what follows from it.
    async fn respond(
        self,
        response: Response,
        ended: Came,
        (shown, wall): (bool, Duration),
    ) -> Result<Step<TurnTask>> {
        let wall_ms = millis(wall);
        let mut tx = self.cx.begin().await?;
        let mut turn = Turn::load(self.shared, &tx, self.cx.id(), self.state.clone())?;
        if matches!(ended, Came::Cancelled) && !turn.is_aborted() {
            // The token fired without a mark on the record: the session is closing, and the attempt stays open.
            return Err(Error::closed("the session closed while the model answered"));
        }
        let (end, row) = match ended {
            Came::Well(_) => (End::Complete, RequestEnd::Complete),
            Came::Faulted(_) | Came::Failed(_) => (End::Error, RequestEnd::Failed),
            Came::Cancelled => (End::Aborted, RequestEnd::Aborted),
        };
        let (model, usage) = (&self.pinned.model, response.usage());
        let is_told = !response.is_empty() || end == End::Complete;
        let mut calls = Vec::new();
        let message = response.into_message(&model.provider, &model.model, end, || {
            let id = TaskId(tx.mint());
            calls.push(id);
            CallId(format!("c{id}"))
        });
        let message = Arc::new(Message::Assistant(message));
        let mut reply = turn.state.last;
        if is_told {
            let attempt = Attempt { step: turn.state.step, attempt: turn.state.attempt };
            let mut entry = Entry::new(kind::ASSISTANT).data(attempt)?;
            entry.messages.push(message.clone());
            reply = turn.append(&mut tx, entry)?;
        }
        match shown {
            true => tx.apply::<Partial>(turn.conversation(), vec![Partial::default().whole()]).await?,
            // What a wait before this attempt has said is old as well.
            false => turn.forget_partial(&mut tx).await?,
        }
        turn.account(self.shared, &mut tx, (self.pinned, row), Sent { usage, wall_ms }).await?;
        turn.state.phase = match ended {
            Came::Well(Stop::Calls) if !calls.is_empty() => {
                let over = self.charge_calls(&mut tx, &turn, calls.len()).await?;
                let why_not = match over {
                    _ if turn.is_aborted() => Some(Ended::not_run()),
                    limit => limit.map(Ended::over_budget),
                };
                let planned = (&*message, calls.as_slice());
                turn.state.open = call::plan(self.shared, &mut tx, &mut turn, planned, why_not).await?;
                match over {
                    Some(limit) if !turn.is_aborted() => Phase::Spent { limit: limit.word().into() },
                    _ => Phase::Calling { calls },
                }
            }
            Came::Well(stop) => Phase::Responded { stop, reply, judged: judge(self.pinned, stop, &message) },
            Came::Faulted(fault) => Phase::Faulted { fault, pinned: self.pinned.clone() },
            Came::Failed(reason) => Phase::Failed(reason),
            Came::Cancelled => Phase::Cut,
        };
        Ok(turn.advance(self.shared, &mut tx).await?.into_step().with(tx))
    }
}

impl Sending<'_> {
    /// Charges calls to the budgets above; gives the limit that has no room for them.
    async fn charge_calls(&self, tx: &mut Transaction, turn: &Turn, calls: usize) -> Result<Option<Limit>> {
        let wanted = Spent { calls: calls as u64, ..Spent::default() };
        match tx.room(self.shared, turn.spender(), &wanted).await? {
            Room::Exceeded(limit) => Ok(Some(limit)),
            // Calls are never reserved: nobody waits for them.
            Room::Enough | Room::Wait => tx.charge(self.shared, turn.spender(), wanted).await.map(|()| None),
        }
    }
}

/// Whether an answer is what was asked for.
fn judge(pinned: &Pinned, stop: Stop, message: &Message) -> Judged {
    match &pinned.schema {
        Some(schema) if stop == Stop::Answer => {
            schema::check(schema, &message.text()).map_or_else(Judged::Invalid, |()| Judged::Open)
        }
        _ => Judged::Open,
    }
}

/// Commits a change of the partial response.
async fn commit(cx: &TaskContext, operations: Vec<Operation>) -> Result<Seq> {
    let mut tx = cx.session().begin_last().await?.relaxed();
    tx.apply::<Partial>(cx.conversation(), operations).await?;
    tx.commit().await
}

/// Commits partial responses, one commit at a time, no closer together than the host allows.
struct Flush<'a> {
    sending: &'a Sending<'a>,
    /// When the request was sent.
    sent: Timestamp,
    /// What the store has; none where that is not known.
    stored: Option<Partial>,
    /// Whether anything was ever shown.
    is_shown: bool,
    /// Whether something has come since the last commit began.
    is_due: bool,
    last: Option<Timestamp>,
    under_way: Option<(Partial, BoxFuture<'a, Result<Seq>>)>,
    pause: Option<BoxFuture<'static, ()>>,
}

impl<'a> Flush<'a> {
    fn new(sending: &'a Sending<'a>, sent: Timestamp) -> Self {
        Self {
            sending,
            sent,
            stored: None,
            is_shown: false,
            is_due: false,
            last: None,
            under_way: None,
            pause: None,
        }
    }

    /// Does what is next for the partial response; pending while there is nothing to do. Dropping the future loses
    /// nothing.
    async fn advance(&mut self, response: &Response) -> Result<()> {
        if self.under_way.is_some() {
            return self.settle().await;
        }
        if let Some(pause) = &mut self.pause {
            pause.await;
            self.pause = None;
            return Ok(());
        }
        if !self.is_due {
            return std::future::pending().await;
        }
        let world = &self.sending.shared.opener.world;
        let least = Duration::from_millis(self.sending.shared.settings().flush_ms);
        let now = world.clock.now();
        if let Some(since) = self.last.map(|last| now.since(last)).filter(|since| *since < least) {
            self.pause = Some(world.clock.sleep(least - since));
            return Ok(());
        }
        self.begin(response, now);
        Ok(())
    }

    fn begin(&mut self, response: &Response, now: Timestamp) {
        let Sending { cx, state, .. } = self.sending;
        let out_ms = millis(now.since(self.sent));
        let partial = Partial { out_ms, ..Partial::of(cx.id(), state.step, state.attempt, response) };
        let operations = match &self.stored {
            Some(stored) => stored.grow(&partial),
            None => vec![partial.whole()],
        };
        (self.is_due, self.last) = (false, Some(now));
        if operations.is_empty() {
            return;
        }
        self.under_way = Some((partial, Box::pin(commit(cx, operations))));
    }

    /// Waits for the commit under way. Partial output that storage refused for now is no reason to end the request: it
    /// comes again, whole.
    async fn settle(&mut self) -> Result<()> {
        let Some((_, commit)) = &mut self.under_way else { return Ok(()) };
        let result = commit.await;
        let stored = self.under_way.take().map(|(partial, _)| partial);
        match result {
            Ok(_) => (self.stored, self.is_shown) = (stored, true),
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => {
                (self.stored, self.is_due) = (None, true);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Lets the commit under way end, and says whether anything was shown.
    async fn finish(mut self) -> Result<bool> {
        self.settle().await?;
        Ok(self.is_shown)
    }
}
