//! Submissions: what was handed to a conversation, and how it ended.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    message::Part,
};

/// Something handed to a conversation whose end can be awaited.
///
/// Promise: it leaves the queue once and has one end. Repeating its request id in the same conversation returns it.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, SubmissionId}, submission::*};
///
/// let asked = SubmissionRecord {
///     id: SubmissionId(4), conversation: ConversationId::ROOT, request: Some("r-1".into()),
///     state: SubmissionState::Queued { parts: vec![] }, time: Timestamp(0),
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

    /// The turn it was placed in.
    pub fn turn(&self) -> Option<TaskId> {
        match self.state {
            SubmissionState::Queued { .. } => None,
            SubmissionState::Placed(place) => Some(place.turn),
            SubmissionState::Settled { place, .. } => place.map(|place| place.turn),
        }
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
    /// It waits for its turn.
    Queued {
        /// What was said; it moves into an entry when it is placed.
        parts: Vec<Part>,
    },
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

/// Where an input was placed.
///
/// ```
/// use everturn_core::{id::{EntryId, TaskId}, submission::Place};
/// assert_eq!(Place { turn: TaskId(5), entry: EntryId(6) }.turn, TaskId(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The turn.
    pub turn: TaskId,
    /// The entry that holds the input.
    pub entry: EntryId,
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
}
