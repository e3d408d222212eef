//! Events of a conversation, derived from what was committed: for its owner from memory, for anyone else from the store.
//!
//! A follower keeps how far it has seen. Each time something was committed it compares that with the committed state
//! and tells the difference: it holds no queue that could overflow, a slow follower gets larger deltas, and deltas are
//! exact because they are cut from the stored value.

mod begin;
mod look;
mod source;
mod tell;

use std::{collections::VecDeque, sync::Arc};

use everturn_core::{
    Result,
    approval::ApprovalRecord,
    clock::{Clock, Timestamp},
    cursor::Cursor,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    message::{CallId, Outcome, Usage},
    prompt::EpochReason,
};
use serde::{Serialize, Serializer};

use super::{history::TurnRecord, live::LiveSession};
use crate::{SessionReader, watch::Start};
use begin::Beginning;
use look::Follow;
pub(super) use look::task_of;
pub(super) use source::Source;

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
    /// The commit: events from here are those of later commits. As JSON it is the cursor's text.
    #[serde(serialize_with = "text")]
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
    /// A call's intent is committed: it runs, or will.
    CallStarted {
        /// The call.
        call: CallId,
    },
    /// More output of a call that runs.
    ///
    /// What was shown of it from the offset on, if anything was, is withdrawn. Once the call has ended its result is what is
    /// kept: who comes then is told of what it wrote as far as the result begins with it.
    Output {
        /// The call.
        call: CallId,
        /// Where it belongs, in bytes.
        offset: usize,
        /// What was added.
        delta: String,
    },
    /// A person is asked.
    ApprovalAsked {
        /// The approval, open.
        approval: ApprovalRecord,
    },
    /// An approval was decided, or has become void.
    ApprovalDecided {
        /// The approval, as it is now.
        approval: ApprovalRecord,
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
    /// An input was placed in the turn under way.
    Steered {
        /// The input.
        submission: SubmissionId,
        /// Its entry.
        entry: EntryId,
    },
    /// A request failed in passing, and is sent again. Told while it waits.
    Retry {
        /// The step.
        step: u32,
        /// The attempt that comes.
        attempt: u32,
        /// When.
        until: Timestamp,
    },
    /// A request waits before it is sent: others at its endpoint come first, or were asked to wait. Told while it waits.
    Waiting {
        /// The step.
        step: u32,
        /// The attempt at it.
        attempt: u32,
        /// Until when; without a moment, for a place at the endpoint.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// The context was made shorter.
    Compaction {
        /// The entry that says so.
        entry: EntryId,
    },
    /// The model was told all anew that it is told beside the messages.
    Epoch {
        /// The entry that says so.
        entry: EntryId,
        /// Why.
        reason: EpochReason,
    },
    /// Another entry came: a notice, the application's own, a change of what the model is told, a new beginning.
    Entry {
        /// The entry.
        entry: EntryId,
        /// Its kind.
        kind: String,
    },
    /// What was seen is not, or no longer, what happened: what comes stands for itself, from the turn on that runs.
    Resync,
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

/// A cursor as its text.
pub(super) fn text<S: Serializer>(cursor: &Cursor, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(cursor)
}

/// Follows a conversation.
///
/// Promise: applying the events gives what is stored, however slow the follower is and whoever owns the session.
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
    source: Source,
    conversation: ConversationId,
    begin: Begin,
    follow: Option<Follow>,
    ready: VecDeque<Event>,
    /// Whether something may have been committed that was not looked at to the end.
    is_due: bool,
    is_done: bool,
}

/// Where events begin.
#[derive(Clone, Copy)]
enum Begin {
    /// With a submission's input; they end with its end.
    Submission(SubmissionId),
    Start(Start),
}

/// What a look found.
struct Look {
    follow: Option<Follow>,
    told: Vec<Event>,
    /// Whether there is more.
    is_due: bool,
    /// Whether the submission's end was told.
    is_end: bool,
}

impl Events {
    pub(super) fn of(live: LiveSession, conversation: ConversationId, until: SubmissionId) -> Self {
        Self::new(Source::live(live), conversation, Begin::Submission(until))
    }

    /// Errors: `NotFound` when there is no such conversation; `Invalid` for a cursor of another session.
    pub(super) async fn from(source: Source, conversation: ConversationId, from: Start) -> Result<Self> {
        let mut events = Self::new(source, conversation, Begin::Start(from));
        events.source.hear();
        // What comes from now on is what comes from here on.
        if let Beginning::At(follow, told) = events.begin().await? {
            events.follow = Some(*follow);
            events.ready.extend(told);
        }
        Ok(events)
    }

    fn new(source: Source, conversation: ConversationId, begin: Begin) -> Self {
        Self {
            source,
            conversation,
            begin,
            follow: None,
            ready: VecDeque::new(),
            is_due: true,
            is_done: false,
        }
    }

    /// The next event; none when there will be no more. Waiting can be given up at any time and loses nothing.
    ///
    /// Errors: the last that it gives, why the session was given up or cannot be read.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_done {
                return None;
            }
            if !self.is_due {
                self.source.news().await;
                self.is_due = true;
            }
            self.source.hear();
            // Whether the session is shut is asked before the look: what was committed before that is told first.
            let shut = self.source.check_open().err();
            match (self.look().await, shut) {
                (Ok(look), shut) => {
                    self.is_due = look.is_due || (!look.told.is_empty() && shut.is_some());
                    self.is_done = look.is_end;
                    if let (true, false, Some(why)) = (look.told.is_empty(), look.is_end, shut) {
                        self.is_done = true;
                        return Some(Err(why));
                    }
                    self.follow = look.follow;
                    self.ready.extend(look.told);
                }
                // That a store cannot answer for a moment ends nobody who only reads.
                (Err(error), _) if self.source.is_stranger() && error.is_passing() => {
                    self.source.pause().await;
                }
                (Err(error), _) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl SessionReader {
    /// Events of a conversation, whoever owns the session: in this process, in another, or nobody.
    ///
    /// Promise: the same events, in the same order, as its owner's [`events`](crate::ConversationHandle::events) tell; only
    /// deltas may be cut elsewhere. A follower who comes when a wait before a request is over hears nothing of it.
    /// Shape: as the owner's; they end only when the session is deleted.
    /// Errors: `NotFound` when there is no such conversation; `Invalid` for a cursor of another session.
    pub async fn events(
        &self,
        clock: Arc<dyn Clock>,
        conversation: ConversationId,
        from: impl Into<Start>,
    ) -> Result<Events> {
        Events::from(Source::stranger(self.clone(), clock), conversation, from.into()).await
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}
