//! Submissions: what was handed to a conversation, how it wants to be delivered, and how it ended.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    json::RawJson,
    message::Part,
};

/// Who acts where nobody says who: the person at this machine.
pub const LOCAL: &str = "local";

/// Something handed to a conversation whose end can be awaited.
///
/// Promise: it leaves the queue once and has one end. Repeating its request id in the same conversation returns it.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, SubmissionId}, submission::*};
///
/// let asked = SubmissionRecord {
///     id: SubmissionId(4), conversation: ConversationId::ROOT, request: Some("r-1".into()), actor: LOCAL.into(),
///     state: SubmissionState::Queued(Queued::default()), time: Timestamp(0),
/// };
/// assert!(asked.is_live());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionRecord {
    /// Its id.
    pub id: SubmissionId,
    /// The conversation it was handed to.
    pub conversation: ConversationId,
    /// The sender's own id of it, unique in the conversation.
    pub request: Option<String>,
    /// Who handed it over; [`LOCAL`] where nobody said.
    #[serde(default = "local", skip_serializing_if = "is_local")]
    pub actor: String,
    /// Where it stands.
    pub state: SubmissionState,
    /// When it was accepted.
    pub time: Timestamp,
}

impl SubmissionRecord {
    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, SubmissionState::Settled { .. })
    }

    /// What waits, and how; none once it has left the queue.
    pub fn queued(&self) -> Option<&Queued> {
        match &self.state {
            SubmissionState::Queued(queued) => Some(queued),
            SubmissionState::Placed(_) | SubmissionState::Settled { .. } => None,
        }
    }

    /// Where it was placed, if it came to a turn.
    pub fn place(&self) -> Option<Place> {
        match self.state {
            SubmissionState::Queued(_) => None,
            SubmissionState::Placed(place) => Some(place),
            SubmissionState::Settled { place, .. } => place,
        }
    }

    /// The turn it was placed in.
    pub fn turn(&self) -> Option<TaskId> {
        self.place().map(|place| place.turn)
    }
}

/// Where a submission stands.
///
/// ```
/// use everturn_core::submission::{End, SubmissionState};
/// let state = SubmissionState::Settled { end: End::Withdrawn, place: None };
/// assert_eq!(serde_json::to_string(&state).unwrap(), r#"{"settled":{"end":"withdrawn"}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionState {
    /// It waits.
    Queued(Queued),
    /// It is in a turn.
    Placed(Place),
    /// It is over.
    Settled {
        /// How it ended.
        end: End,
        /// The turn it was in, if it came to one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<Place>,
    },
}

/// What waits in a conversation's queue, and how it wants to be delivered.
///
/// ```
/// use everturn_core::{message::Part, submission::Queued};
/// let queued = Queued { parts: vec![Part::Text("go on".into())], ..Queued::default() };
/// assert_eq!(serde_json::to_string(&queued).unwrap(), r#"{"parts":[{"text":"go on"}]}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// What was said; it moves into an entry when it is placed. Empty for what is only to be written.
    pub parts: Vec<Part>,
    /// When it leaves the queue.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub delivery: Delivery,
    /// Whether it stays queued when the turn before it fails.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub keep: bool,
    /// What its turn goes by, as the harness wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<RawJson>,
    /// The entry to append, its kind and its body, where it is to be written and asks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<RawJson>,
}

/// When a submission leaves the queue. Order is kept within each kind.
///
/// ```
/// use everturn_core::submission::{Delivery, Late};
/// let steer = Delivery::Steer { late: Late::Return, declining: false };
/// assert_eq!(serde_json::to_string(&steer).unwrap(), r#"{"steer":{"late":"return"}}"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// When the turn before it has ended: it begins a turn.
    #[default]
    FollowUp,
    /// Before the next request of the turn that runs.
    Steer {
        /// What becomes of it when that turn is over first.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        late: Late,
        /// Whether it declines the open approvals of the step, with its text as the reason.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        declining: bool,
    },
    /// As an entry, between turns or before the next request: the model is not asked for it.
    Write,
}

/// What becomes of a steer whose turn is over before it could be placed.
///
/// ```
/// use everturn_core::submission::Late;
/// assert_eq!(Late::default(), Late::FollowUp);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// It begins a turn.
    #[default]
    FollowUp,
    /// It is given back.
    Return,
}

/// Where an input was placed.
///
/// ```
/// use everturn_core::{id::{EntryId, TaskId}, submission::Place};
/// let old: Place = serde_json::from_str(r#"{"turn":5,"entry":6}"#).unwrap();
/// assert_eq!(old, Place { turn: TaskId(5), entry: EntryId(6), step: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The turn.
    pub turn: TaskId,
    /// The entry that holds the input.
    pub entry: EntryId,
    /// Before which of the turn's requests, counted from 1.
    #[serde(default = "first")]
    pub step: u32,
}

/// How a submission ended.
///
/// ```
/// use everturn_core::submission::End;
/// assert_eq!(serde_json::to_string(&End::Answered).unwrap(), r#""answered""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its turn answered.
    Answered,
    /// Its turn was cancelled.
    Cancelled,
    /// Its turn failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// Its sender took it back before it was placed.
    Withdrawn,
    /// It was given back without being placed.
    Returned {
        /// Why.
        reason: String,
    },
    /// It was only to be written, and is.
    Written {
        /// The entry.
        entry: EntryId,
    },
}

fn local() -> String {
    LOCAL.into()
}

fn is_local(actor: &String) -> bool {
    actor == LOCAL
}

fn first() -> u32 {
    1
}
