//! How tasks end.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::present;
use crate::{error::Result, json::RawJson};

/// How a task ended.
///
/// ```
/// use everturn_core::task::TaskOutcome;
/// let aborted = TaskOutcome::Aborted { reason: "cancelled".into(), output: None };
/// assert_eq!(serde_json::to_string(&aborted).unwrap(), r#"{"aborted":{"reason":"cancelled"}}"#);
/// assert!(!aborted.is_completed());
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
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<RawJson>,
    },
    /// It was told to stop.
    Aborted {
        /// Why.
        reason: String,
        /// What came out before that.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<RawJson>,
    },
    /// It was told to stop, and there was no code that could have stopped it in order.
    Orphaned {
        /// Why it was told to stop, and what was missing.
        reason: String,
    },
    /// A panic or an error escaped its code.
    Faulted {
        /// What escaped.
        error: TaskFailure,
        /// What came out before that.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<RawJson>,
    },
}

/// Why a task failed.
///
/// ```
/// use everturn_core::task::TaskFailure;
/// let failure = TaskFailure::new("declined", "the card was declined");
/// assert_eq!(failure.to_string(), "declined: the card was declined");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskFailure {
    /// What kind of failure, in one word.
    pub kind: String,
    /// What happened.
    pub message: String,
    /// What a program may want to know of it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub detail: Option<RawJson>,
}

impl TaskFailure {
    /// A failure without detail.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), detail: None }
    }
}

impl std::fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl TaskOutcome {
    /// Whether the task did its work.
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed { .. })
    }

    /// What came out, where something did.
    pub fn output(&self) -> Option<&RawJson> {
        match self {
            Self::Completed { output } => Some(output),
            Self::Failed { output, .. } | Self::Aborted { output, .. } | Self::Faulted { output, .. } => {
                output.as_ref()
            }
            Self::Orphaned { .. } => None,
        }
    }

    /// What came out, as an `O`; none where nothing did.
    ///
    /// Errors: `Invalid` when it does not read as one.
    pub fn read<O: DeserializeOwned>(&self) -> Result<Option<O>> {
        self.output().map(RawJson::read).transpose()
    }

    /// In one word: `completed`, `failed`, `aborted`, `orphaned`, `faulted`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Aborted { .. } => "aborted",
            Self::Orphaned { .. } => "orphaned",
            Self::Faulted { .. } => "faulted",
        }
    }
}

/// In words: `failed (declined: the card was declined)`.
impl std::fmt::Display for TaskOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::Completed { .. } => Ok(()),
            Self::Failed { error, .. } | Self::Faulted { error, .. } => write!(f, " ({error})"),
            Self::Aborted { reason, .. } | Self::Orphaned { reason } => write!(f, " ({reason})"),
        }
    }
}
