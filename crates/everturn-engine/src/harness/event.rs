//! Events of a conversation, derived from what was committed.
//!
//! A follower keeps how far it has seen. Each time something was committed it compares that with the committed state
//! and tells the difference: it holds no queue that could overflow, a slow follower gets larger deltas, and deltas are
//! exact because they are cut from the stored value.

mod tell;

use std::collections::VecDeque;

use everturn_core::{
    Result,
    document::{self, Document, Scope},
    id::{ConversationId, EntryId, Epoch, Seq, SessionId, SubmissionId, TaskId},
    message::{CallId, Outcome, Usage},
    storage::{EntryQuery, Order},
    submission::SubmissionState,
};
use serde::Serialize;
use tokio::sync::watch;

use super::{history::TurnRecord, live::LiveSession, turn::Partial};
use tell::Seen;

/// A place in a session's commits.
///
/// ```
/// # use everturn_core::id::{Epoch, Seq};
/// use everturn_engine::Cursor;
/// let cursor = Cursor { session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(), epoch: Epoch(1), seq: Seq(7) };
/// assert_eq!(cursor.seq, Seq(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cursor {
    /// The session.
    pub session: SessionId,
    /// The owner's epoch.
    pub epoch: Epoch,
    /// The commit.
    pub seq: Seq,
}

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
/// let mut events = asked.events().await?;
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
    is_done: bool,
}

impl Events {
    pub(super) async fn of(
        live: LiveSession,
        conversation: ConversationId,
        until: SubmissionId,
    ) -> Result<Self> {
        Ok(Self::new(live, conversation, Some(until), None))
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
        let mut head = live.session().0.head.subscribe();
        head.mark_changed();
        Self { live, conversation, until, head, seen, ready: VecDeque::new(), is_done: false }
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
            // The session owns the sender: it lives as long as this follower.
            let _ = self.head.changed().await;
            if let Err(error) = self.look().await {
                self.is_done = true;
                return Some(Err(error));
            }
        }
    }

    /// Tells what was committed since the last look.
    async fn look(&mut self) -> Result<()> {
        let head = *self.head.borrow();
        if self.seen.is_none() && !self.begin().await? {
            return self.live.check_open();
        }
        let Some(mut seen) = self.seen.clone() else {
            return Ok(());
        };
        let partial = self.live.committed(self.conversation.key(), Partial::KIND).await?;
        let partial =
            partial.map(|partial| document::decode::<Partial>(partial.value.clone(), partial.version));
        let partial = partial.transpose()?.unwrap_or_default();
        let lineage = self.live.conversation(self.conversation).await?.lineage.clone();
        let query = EntryQuery {
            after: Some(seen.entry()),
            order: Order::OldestFirst,
            ..EntryQuery::of(self.live.id(), lineage)
        };
        let entries = self.live.shared().opener.store.entries(query).await?;
        let cursor = |seq| Cursor { session: self.live.id(), epoch: self.live.epoch(), seq };
        for entry in &entries {
            let told = seen.entry_came(entry);
            self.ready.extend(told.into_iter().map(|kind| Event { cursor: cursor(entry.seq), kind }));
        }
        let told = seen.partial_came(&partial);
        self.ready.extend(told.into_iter().map(|kind| Event { cursor: cursor(head), kind }));
        self.seen = Some(seen);
        self.check_end().await
    }

    /// Finds where a submission's events begin: at its input's entry, once it was placed.
    async fn begin(&mut self) -> Result<bool> {
        let Some(id) = self.until else { return Ok(true) };
        let record = self.live.submission_record(id).await?;
        let place = match &record.state {
            SubmissionState::Placed(place) => Some(*place),
            SubmissionState::Settled { place, .. } => {
                self.is_done = place.is_none();
                *place
            }
            SubmissionState::Queued { .. } => None,
        };
        self.seen = place.map(|place| Seen::after(EntryId(place.entry.0 - 1)));
        Ok(self.seen.is_some())
    }

    async fn check_end(&mut self) -> Result<()> {
        if let Some(id) = self.until
            && let Some(turn) = self.live.submission_record(id).await?.turn()
        {
            let is_end =
                |event: &Event| matches!(&event.kind, EventKind::TurnEnded(record) if record.turn == turn);
            if let Some(at) = self.ready.iter().position(is_end) {
                self.ready.truncate(at + 1);
                self.is_done = true;
                return Ok(());
            }
        }
        // Events that are there are told before the session's end is.
        if self.ready.is_empty() { self.live.check_open() } else { Ok(()) }
    }
}
