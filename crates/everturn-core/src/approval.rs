//! Approvals: questions that a session waits with until someone decides them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ApprovalId, ConversationId, TaskId},
    json::RawJson,
    policy::{Act, Verdict},
};

/// A question that a call waits with, and what was decided.
///
/// Promise: it is decided once, by whoever comes first, or becomes void; while it is open nothing of the call runs. It may
/// stay open across any number of owners.
///
/// ```
/// use everturn_core::{approval::*, clock::Timestamp, id::{ApprovalId, ConversationId, TaskId}};
///
/// let question = Question::Person { text: "Which branch?".into(), choices: vec!["main".into()] };
/// assert!(question.takes(&Decision::Answer { text: "main".into() }));
/// let asked = ApprovalRecord {
///     id: ApprovalId(7), conversation: ConversationId::ROOT, call: TaskId(6), turn: Some(TaskId(5)), question,
///     state: ApprovalState::Open, until: None, time: Timestamp(0),
/// };
/// assert!(asked.is_open());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// The conversation in which it is asked.
    pub conversation: ConversationId,
    /// The task that waits for it.
    pub call: TaskId,
    /// The turn that the task belongs to, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TaskId>,
    /// What is asked.
    pub question: Question,
    /// Where it stands.
    pub state: ApprovalState,
    /// When it expires; never, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it was opened.
    pub time: Timestamp,
}

impl ApprovalRecord {
    /// Whether nobody has decided it, and it may be decided still.
    pub fn is_open(&self) -> bool {
        matches!(self.state, ApprovalState::Open)
    }
}

/// What is asked.
///
/// ```
/// use everturn_core::{approval::{Decision, Question}, json::RawJson};
/// let question = Question::Unknown { tool: "pay".into(), arguments: RawJson::empty() };
/// assert!(question.takes(&Decision::DidNotHappen));
/// assert!(!question.takes(&Decision::Allow), "it may have run already");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Whether a call may run, exactly as it is.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: RawJson,
        /// Where it would run; nowhere, for a tool that knows no directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<String>,
        /// What it would do.
        acts: Vec<Act>,
        /// What policy said of it.
        verdict: Verdict,
        /// The hash of the policy that said so. Recorded, and never compared.
        policy: String,
        /// What would happen, for people, as the tool showed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<RawJson>,
    },
    /// Whether a call that was cut off has happened, which nobody else can know.
    Unknown {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: RawJson,
    },
    /// What a person thinks.
    Person {
        /// The question.
        text: String,
        /// Answers to choose from. Another one may be given.
        choices: Vec<String>,
    },
}

impl Question {
    /// Whether a decision fits it.
    pub fn takes(&self, decision: &Decision) -> bool {
        use Decision::{Allow, AllowForSession, Answer, Deny, DidNotHappen, Edit, Happened, Stop};
        match self {
            Self::Call { .. } => matches!(decision, Allow | AllowForSession | Deny { .. } | Edit { .. }),
            Self::Unknown { .. } => matches!(decision, Happened { .. } | DidNotHappen | Stop),
            Self::Person { .. } => matches!(decision, Answer { .. } | Deny { .. }),
        }
    }
}

/// Where an approval stands.
///
/// ```
/// use everturn_core::{approval::{ApprovalState, Decision}, clock::Timestamp};
/// let state = ApprovalState::Decided { decision: Decision::Allow, actor: "local".into(), time: Timestamp(9) };
/// assert_eq!(
///     serde_json::to_string(&state).unwrap(),
///     r#"{"decided":{"decision":"allow","actor":"local","time":9}}"#,
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// It waits.
    Open,
    /// Someone decided it.
    Decided {
        /// What was decided.
        decision: Decision,
        /// By whom.
        actor: String,
        /// When.
        time: Timestamp,
    },
    /// It cannot be decided any more: it expired, its call ended, or what it asks about has changed.
    Void {
        /// Why.
        reason: String,
        /// Since when.
        time: Timestamp,
    },
}

/// What someone decided. Its text is for people.
///
/// ```
/// use everturn_core::approval::Decision;
/// let no = Decision::Deny { reason: "not on a Friday".into() };
/// assert_eq!(serde_json::to_string(&no).unwrap(), r#"{"deny":{"reason":"not on a Friday"}}"#);
/// assert_eq!(no.to_string(), "denied: not on a Friday");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call may run, this once.
    Allow,
    /// The call may run, and so may its like for as long as the session lives.
    AllowForSession,
    /// The call does not run, or the question is not answered.
    Deny {
        /// Why; the model reads it.
        reason: String,
    },
    /// The call may run with other arguments, which are validated and judged again.
    Edit {
        /// The arguments.
        arguments: RawJson,
    },
    /// The call that was cut off has run.
    Happened {
        /// What came of it, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The call that was cut off has not run.
    DidNotHappen,
    /// The turn ends: nobody knows whether the call that was cut off has run.
    Stop,
    /// An answer to a question.
    Answer {
        /// The answer.
        text: String,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allowed"),
            Self::AllowForSession => f.write_str("allowed for this session"),
            Self::Deny { reason } => write!(f, "denied: {reason}"),
            Self::Edit { .. } => f.write_str("allowed with other arguments"),
            Self::Happened { .. } => f.write_str("it has run"),
            Self::DidNotHappen => f.write_str("it has not run"),
            Self::Stop => f.write_str("the turn ends"),
            Self::Answer { .. } => f.write_str("answered"),
        }
    }
}
