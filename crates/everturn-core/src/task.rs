//! Durable tasks as they are stored.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, TaskId},
    json::RawJson,
};

/// A durable task: a state machine whose state is committed after every step.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, json::RawJson};
/// use everturn_core::task::{TaskOutcome, TaskRecord, TaskState};
///
/// let mut task = TaskRecord {
///     id: TaskId(5), conversation: ConversationId::ROOT, owner: None, background: false, kind: "app.pay".into(),
///     version: 1, input: RawJson::empty(), state: TaskState::Ready { checkpoint: RawJson::empty() },
///     abort: None, started: Timestamp(0), ended: None,
/// };
/// assert!(task.is_live());
/// task.end(TaskOutcome::Completed { output: RawJson::empty() }, Timestamp(9));
/// assert!(!task.is_live());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its id.
    pub id: TaskId,
    /// The conversation it works for.
    pub conversation: ConversationId,
    /// The task whose work it is part of.
    pub owner: Option<TaskId>,
    /// Whether it neither keeps its conversation busy nor dies with it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub background: bool,
    /// The name of its code.
    pub kind: String,
    /// The version of its code that wrote the record.
    pub version: u32,
    /// What it was given, once.
    pub input: RawJson,
    /// Where it stands.
    pub state: TaskState,
    /// Why it was told to stop, if it was.
    pub abort: Option<String>,
    /// When it was created.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// Where a task stands.
///
/// ```
/// use everturn_core::{json::RawJson, task::TaskState};
/// let state = TaskState::Ready { checkpoint: RawJson::empty() };
/// assert_eq!(serde_json::to_string(&state).unwrap(), r#"{"ready":{"checkpoint":{}}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskState {
    /// Its next step may run.
    Ready {
        /// What the step goes on from.
        checkpoint: RawJson,
    },
    /// It waits for other tasks to end.
    Waiting {
        /// What the next step goes on from.
        checkpoint: RawJson,
        /// The tasks it waits for.
        on: Vec<TaskId>,
    },
    /// It is over.
    Ended {
        /// How it ended.
        outcome: TaskOutcome,
    },
}

/// How a task ended.
///
/// ```
/// use everturn_core::task::TaskOutcome;
/// let aborted = TaskOutcome::Aborted { reason: "cancelled".into(), output: None };
/// assert_eq!(serde_json::to_string(&aborted).unwrap(), r#"{"aborted":{"reason":"cancelled"}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskOutcome {
    /// It did its work.
    Completed {
        /// What came out.
        output: RawJson,
    },
    /// It could not.
    Failed {
        /// Why.
        error: TaskFailure,
        /// What came out before that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<RawJson>,
    },
    /// It was told to stop.
    Aborted {
        /// Why.
        reason: String,
        /// What came out before that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<RawJson>,
    },
    /// A panic or an error escaped its code.
    Faulted {
        /// What escaped.
        error: TaskFailure,
        /// What came out before that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<RawJson>,
    },
}

/// Why a task failed.
///
/// ```
/// use everturn_core::task::TaskFailure;
/// let failure = TaskFailure { kind: "declined".into(), message: "the card was declined".into() };
/// assert_eq!(failure.kind, "declined");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailure {
    /// What kind of failure, in one word.
    pub kind: String,
    /// What happened.
    pub message: String,
}

impl TaskOutcome {
    /// What came out, where something did.
    pub fn output(&self) -> Option<&RawJson> {
        match self {
            Self::Completed { output } => Some(output),
            Self::Failed { output, .. } | Self::Aborted { output, .. } | Self::Faulted { output, .. } => {
                output.as_ref()
            }
        }
    }
}

impl TaskRecord {
    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, TaskState::Ended { .. })
    }

    /// Ends it.
    pub fn end(&mut self, outcome: TaskOutcome, now: Timestamp) {
        self.state = TaskState::Ended { outcome };
        self.ended = Some(now);
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
