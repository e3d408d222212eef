//! Events of a conversation, derived from what was committed.
//!
//! A follower keeps how far it has seen. Each time something was committed it compares that with the committed state
//! and tells the difference: it holds no queue that could overflow, a slow follower gets larger deltas, and deltas are
//! exact because they are cut from the stored value.

mod tell;

use std::collections::VecDeque;

use everturn_core::{
    Result,
    cursor::Cursor,
    document::{Document, Scope},
    entry::EntryRecord,
    id::{ConversationId, EntryId, Seq, SubmissionId, TaskId},
    message::{CallId, Outcome, Usage},
    storage::{EntryQuery, Order},
    submission::SubmissionState,
};
use serde::Serialize;
use tokio::sync::watch;

use super::{history::TurnRecord, live::LiveSession, turn::Partial};
use tell::Seen;

/// Something that happened in a conversation, and the commit in which it did.
///
/// ```
/// fn shown(event: &everturn_engine::Event) -> Option<&str> {
///     match &event.kind {
///         everturn_engine::EventKind::Text { delta, .. } => Some(delta),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The commit.
    pub cursor: Cursor,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
///
/// ```
/// use everturn_engine::EventKind;
/// let event = EventKind::Text { step: 1, attempt: 1, delta: "4".into() };
/// assert_eq!(serde_json::to_value(&event).unwrap()["type"], "text");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A turn has begun with an input.
    TurnStarted {
        /// The turn.
        turn: TaskId,
    },
    /// A request was sent, and something has come of it.
    RequestStarted {
        /// The step, from 1.
        step: u32,
        /// The attempt at it, from 1.
        attempt: u32,
    },
    /// More text of an attempt.
    Text {
        /// The step.
        step: u32,
        /// The attempt.
        attempt: u32,
        /// What was added.
        delta: String,
    },
    /// More thinking of an attempt.
    Thinking {
        /// The step.
        step: u32,
        /// The attempt.
        attempt: u32,
        /// What was added.
        delta: String,
    },
    /// What an attempt has shown is withdrawn: it was cut off.
    AttemptDiscarded {
        /// The step.
        step: u32,
        /// The attempt.
        attempt: u32,
    },
    /// The model wants a call to be made.
    CallProposed {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// The arguments, as JSON.
        arguments: everturn_core::json::RawJson,
    },
    /// A call has ended.
    CallEnded {
        /// The call.
        call: CallId,
        /// How.
        outcome: Outcome,
        /// What the model is told.
        text: String,
    },
    /// The provider said what a request cost.
    Usage {
        /// The step.
        step: u32,
        /// What it counted.
        usage: Usage,
    },
    /// A turn has ended.
    TurnEnded(TurnRecord),
}

/// Follows a conversation.
///
/// ```
/// # async fn example(asked: everturn_engine::Submission) -> everturn_core::Result<()> {
/// let mut events = asked.events();
/// while let Some(event) = events.next().await {
///     println!("{:?}", event?.kind);
/// }
/// # Ok(()) }
/// ```
pub struct Events {
    live: LiveSession,
    conversation: ConversationId,
    /// Ends with this submission's end; without one, with the session.
    until: Option<SubmissionId>,
    head: watch::Receiver<Seq>,
    seen: Option<Seen>,
    ready: VecDeque<Event>,
    /// Whether something may have been committed that was not looked at to the end.
    is_due: bool,
    is_done: bool,
}

/// What a look found.
struct Look {
    seen: Option<Seen>,
    told: Vec<Event>,
    /// Whether the submission's end was told.
    is_end: bool,
}

impl Events {
    pub(super) fn of(live: LiveSession, conversation: ConversationId, until: SubmissionId) -> Self {
        Self::new(live, conversation, Some(until), None)
    }

    pub(super) async fn from_now(live: LiveSession, conversation: ConversationId) -> Result<Self> {
        let newest = live.entries(conversation, None, 1).await?;
        let seen = Seen::after(newest.first().map_or(EntryId(0), |entry| entry.id));
        Ok(Self::new(live, conversation, None, Some(seen)))
    }

    fn new(
        live: LiveSession,
        conversation: ConversationId,
        until: Option<SubmissionId>,
        seen: Option<Seen>,
    ) -> Self {
        let head = live.session().0.head.subscribe();
        Self { live, conversation, until, head, seen, ready: VecDeque::new(), is_due: true, is_done: false }
    }

    /// The next event; none when there will be no more. Waiting can be given up at any time and loses nothing.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_done {
                return None;
            }
            if !self.is_due {
                // The session owns the sender: it lives as long as this follower.
                let _ = self.head.changed().await;
                self.is_due = true;
            }
            self.head.borrow_and_update();
            // Whether the session is shut is asked before the look: what was committed before that is told first.
            let shut = self.live.check_open().err();
            match (self.look().await, shut) {
                (Ok(look), shut) => {
                    self.is_due = !look.told.is_empty() && shut.is_some();
                    self.is_done = look.is_end;
                    if let (true, false, Some(why)) = (look.told.is_empty(), look.is_end, shut) {
                        self.is_done = true;
                        return Some(Err(why));
                    }
                    self.seen = look.seen;
                    self.ready.extend(look.told);
                }
                (Err(error), _) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Finds what was committed since the last look. Changes nothing: it can be given up at any time.
    async fn look(&self) -> Result<Look> {
        let mut look = Look { seen: self.seen.clone(), told: Vec::new(), is_end: false };
        if look.seen.is_none() {
            (look.seen, look.is_end) = self.begin().await?;
        }
        let Some(seen) = &mut look.seen else { return Ok(look) };
        // The partial response first: what entries say that come later makes it old, and not the other way round.
        let committed = self.live.committed(self.conversation.key(), Partial::KIND).await?;
        let entries = self.entries_after(seen.entry()).await?;
        let cursor = |seq| Cursor { session: self.live.id(), epoch: self.live.epoch(), seq };
        let partial = match &committed {
            Some(partial) => partial.read()?,
            None => Partial::default(),
        };
        let shown_at = committed.map_or(Seq(0), |partial| partial.seq);
        // In the order of commits, the partial response at its place among the entries.
        let before = entries.partition_point(|entry| entry.seq <= shown_at);
        let is_old = entries[before..].iter().any(|entry| entry.task == partial.turn);
        for (at, entry) in entries.iter().enumerate() {
            if at == before && !is_old {
                look.told.extend(events(cursor(shown_at), seen.partial_came(&partial)));
            }
            look.told.extend(events(cursor(entry.seq), seen.entry_came(entry)));
        }
        if before == entries.len() {
            look.told.extend(events(cursor(shown_at), seen.partial_came(&partial)));
        }
        self.cut_at_end(&mut look).await?;
        Ok(look)
    }

    /// Entries behind one that was seen; memory knows when there are none.
    async fn entries_after(&self, seen: EntryId) -> Result<Vec<EntryRecord>> {
        let tail = self.live.session().0.state().tails.get(&self.conversation).copied();
        if tail.is_some_and(|tail| tail <= seen) {
            return Ok(Vec::new());
        }
        let lineage = self.live.conversation(self.conversation).await?.lineage.clone();
        let query = EntryQuery {
            after: Some(seen),
            order: Order::OldestFirst,
            ..EntryQuery::of(self.live.id(), lineage)
        };
        self.live.shared().opener.store.entries(query).await
    }

    /// Finds where a submission's events begin: at its input's entry, once it was placed; and whether they end without
    /// one.
    async fn begin(&self) -> Result<(Option<Seen>, bool)> {
        let Some(id) = self.until else {
            return Ok((None, false));
        };
        let record = self.live.submission_record(id).await?;
        let (place, is_settled) = match &record.state {
            SubmissionState::Placed(place) => (Some(*place), false),
            SubmissionState::Settled { place, .. } => (*place, true),
            SubmissionState::Queued(_) => (None, false),
        };
        let seen = place.map(|place| Seen::after(EntryId(place.entry.0 - 1)));
        Ok((seen, is_settled && place.is_none()))
    }

    /// Leaves out what comes behind the submission's end.
    async fn cut_at_end(&self, look: &mut Look) -> Result<()> {
        let Some(id) = self.until else { return Ok(()) };
        let Some(turn) = self.live.submission_record(id).await?.turn() else { return Ok(()) };
        let is_end =
            |event: &Event| matches!(&event.kind, EventKind::TurnEnded(record) if record.turn == turn);
        if let Some(at) = look.told.iter().position(is_end) {
            look.told.truncate(at + 1);
            look.is_end = true;
        }
        Ok(())
    }
}

fn events(cursor: Cursor, told: Vec<EventKind>) -> impl Iterator<Item = Event> {
    told.into_iter().map(move |kind| Event { cursor, kind })
}
