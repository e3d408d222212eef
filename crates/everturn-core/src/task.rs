//! Durable tasks: what is stored of them ([`TaskRecord`]), what comes next for one ([`next()`]), and how they hang together
//! ([`tree`]).

mod next;
mod outcome;
pub mod tree;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, TaskId},
    json::RawJson,
};
pub use next::{Facts, Next, next};
pub use outcome::{TaskFailure, TaskOutcome};

/// A durable task: a state machine whose state is committed after every step.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, json::RawJson};
/// use everturn_core::task::{TaskOutcome, TaskRecord};
///
/// let mut task = TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0));
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
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub background: bool,
    /// Whether it is aborted, and not carried on, when its session is opened anew.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub abandon_on_restart: bool,
    /// The name of its code.
    pub kind: String,
    /// The version of its code that wrote the record.
    pub version: u32,
    /// What it was given, once.
    pub input: RawJson,
    /// Where it stands.
    pub state: TaskState,
    /// What its steps found out and must not find out again, by name; gone when it ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memos: BTreeMap<String, RawJson>,
    /// Signals that came and were not waited for yet, oldest first; gone when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// What ended its last wait for a signal; until its next move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken: Option<Woken>,
    /// How often it has moved.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub moves: u64,
    /// How often an owner of the session set out to run its present step after another one had, or may have; a move
    /// clears it.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub attempts: u32,
    /// Why whoever opened the session last could not run it; a move clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
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
/// let state = TaskState::Ready { checkpoint: Some(RawJson::empty()) };
/// assert_eq!(serde_json::to_string(&state).unwrap(), r#"{"ready":{"checkpoint":{}}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskState {
    /// Its next step may run.
    Ready {
        /// What the step goes on from; none before the first, which begins where its code says.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        checkpoint: Option<RawJson>,
    },
    /// It waits for a moment.
    Sleeping {
        /// What the next step goes on from.
        checkpoint: RawJson,
        /// The moment.
        until: Timestamp,
    },
    /// It waits for other tasks to end.
    Waiting {
        /// What the next step goes on from.
        checkpoint: RawJson,
        /// The tasks it waits for.
        on: Vec<TaskId>,
        /// What becomes of the others when one of them does not complete.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        policy: WaitPolicy,
        /// Whether the next step runs in the commit that ends the last of them.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        joined: bool,
    },
    /// It waits for a signal.
    Listening {
        /// What the next step goes on from.
        checkpoint: RawJson,
        /// The signal's name.
        signal: String,
        /// When it waits no longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// How it ends is settled; that it has ended comes when the work below it has.
    Completing {
        /// How it ends.
        outcome: TaskOutcome,
    },
    /// It is over.
    Ended {
        /// How it ended.
        outcome: TaskOutcome,
    },
}

/// What becomes of the tasks that another one waits for, when one of them does not complete.
///
/// ```
/// use everturn_core::task::WaitPolicy;
/// assert_eq!(WaitPolicy::default(), WaitPolicy::AllSettled);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitPolicy {
    /// They go on: the wait is over when all have ended, however.
    #[default]
    AllSettled,
    /// They are aborted. The wait is over when all have ended.
    FailFast,
}

/// Something that a task was told, under a name.
///
/// ```
/// use everturn_core::{json::RawJson, task::Signal};
/// let paid = Signal { name: "paid".into(), payload: RawJson::parse("12").unwrap() };
/// assert_eq!(paid.payload.read::<u32>().unwrap(), 12);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The name.
    pub name: String,
    /// What was said.
    pub payload: RawJson,
}

/// What ended a wait for a signal.
///
/// ```
/// use everturn_core::task::Woken;
/// assert_eq!(serde_json::to_string(&Woken::TimedOut).unwrap(), r#""timed_out""#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Woken {
    /// The signal came.
    Signal(Signal),
    /// The time was up.
    TimedOut,
}

/// Why a task cannot be run by whoever opened its session last. It stays live, and goes on when the code arrives.
///
/// ```
/// use everturn_core::task::{Blocked, BlockedBy};
/// let blocked = Blocked { by: BlockedBy::Missing, needs: 1, message: "no code of kind app.pay is installed".into() };
/// assert_eq!(blocked.to_string(), "missing: no code of kind app.pay is installed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// What is wrong.
    pub by: BlockedBy,
    /// The oldest version of its code with which it is worth another try.
    pub needs: u32,
    /// The same in words.
    pub message: String,
}

/// What keeps a task from being run.
///
/// ```
/// use everturn_core::task::BlockedBy;
/// assert_eq!(BlockedBy::TooOld.word(), "too_old");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedBy {
    /// Its code is not installed.
    Missing,
    /// Its code is older than its record.
    TooOld,
    /// Its code cannot make of its record what it reads.
    MigrationFailed,
}

impl BlockedBy {
    /// In one word, as it is stored.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::TooOld => "too_old",
            Self::MigrationFailed => "migration_failed",
        }
    }
}

impl std::fmt::Display for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.by.word(), self.message)
    }
}

impl TaskRecord {
    /// A task that may run, of a kind at its first version, without input.
    pub fn new(
        id: TaskId,
        conversation: ConversationId,
        kind: impl Into<String>,
        started: Timestamp,
    ) -> Self {
        Self {
            id,
            conversation,
            owner: None,
            background: false,
            abandon_on_restart: false,
            kind: kind.into(),
            version: 1,
            input: RawJson::empty(),
            state: TaskState::Ready { checkpoint: None },
            memos: BTreeMap::new(),
            signals: Vec::new(),
            woken: None,
            moves: 0,
            attempts: 0,
            blocked: None,
            abort: None,
            started,
            ended: None,
        }
    }

    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, TaskState::Ended { .. })
    }

    /// Whether work below it may begin: it goes on, and was not told to stop.
    pub fn takes_work(&self) -> bool {
        self.abort.is_none() && !matches!(self.state, TaskState::Completing { .. } | TaskState::Ended { .. })
    }

    /// How it ended, or will once the work below it has.
    pub fn outcome(&self) -> Option<&TaskOutcome> {
        match &self.state {
            TaskState::Completing { outcome } | TaskState::Ended { outcome } => Some(outcome),
            _ => None,
        }
    }

    /// Where its next step begins; none before the first, and when there is none to come.
    pub fn checkpoint(&self) -> Option<&RawJson> {
        match &self.state {
            TaskState::Ready { checkpoint } => checkpoint.as_ref(),
            TaskState::Sleeping { checkpoint, .. }
            | TaskState::Waiting { checkpoint, .. }
            | TaskState::Listening { checkpoint, .. } => Some(checkpoint),
            TaskState::Completing { .. } | TaskState::Ended { .. } => None,
        }
    }

    /// The tasks that it waits for.
    pub fn members(&self) -> &[TaskId] {
        match &self.state {
            TaskState::Waiting { on, .. } => on,
            _ => &[],
        }
    }

    /// Moves it: what belonged to the step that led here is gone.
    pub fn go(&mut self, state: TaskState) {
        self.state = state;
        self.moves += 1;
        (self.woken, self.attempts, self.blocked) = (None, 0, None);
    }

    /// Ends its wait for a signal: its next step is told by what.
    pub fn wake(&mut self, woken: Woken) {
        let checkpoint = self.checkpoint().cloned();
        self.go(TaskState::Ready { checkpoint });
        self.woken = Some(woken);
    }

    /// Ends it.
    pub fn end(&mut self, outcome: TaskOutcome, now: Timestamp) {
        self.go(TaskState::Ended { outcome });
        self.memos.clear();
        self.signals.clear();
        self.ended = Some(now);
    }
}

/// JSON that is there, also where it is `null`: what is not there is left out.
fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(json).map(Some)
}
