//! An account: what was spent, what is reserved, and who waits for room.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;

/// What was spent, or may be.
///
/// ```
/// use everturn_core::budget::Spent;
///
/// let request = Spent { steps: 1, output_tokens: 40, ..Spent::default() };
/// assert_eq!(request.plus(&request).output_tokens, 80);
/// assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"steps":1,"output_tokens":40}"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Requests to a model.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub steps: u64,
    /// Tokens that models read.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub input_tokens: u64,
    /// Tokens that models wrote.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub output_tokens: u64,
    /// Money, in nano-dollars.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub cost: u64,
    /// Time in which requests were out or calls ran, in milliseconds.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub wall_ms: u64,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub calls: u64,
    /// Conversations that calls began.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub children: u64,
}

impl Spent {
    /// The sum of each; the largest number where it would be larger.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The difference of each; nothing where it would be less.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            steps: of(self.steps, other.steps),
            input_tokens: of(self.input_tokens, other.input_tokens),
            output_tokens: of(self.output_tokens, other.output_tokens),
            cost: of(self.cost, other.cost),
            wall_ms: of(self.wall_ms, other.wall_ms),
            calls: of(self.calls, other.calls),
            children: of(self.children, other.children),
        }
    }

    pub(super) fn measures(&self) -> [u64; 7] {
        let Self { steps, input_tokens, output_tokens, cost, wall_ms, calls, children } = *self;
        [steps, input_tokens, output_tokens, cost, wall_ms, calls, children]
    }
}

/// The account of a turn, a conversation or a session: the body of a document.
///
/// Promise: in whatever order tasks reserve what there is room for, settle or are cut off, what was spent is above the
/// budget by no more than was used beyond what had been reserved.
///
/// ```
/// use everturn_core::{budget::{Account, Budget, Room, Spent}, id::TaskId};
///
/// let budget = Budget { output_tokens: Some(100), ..Budget::default() };
/// let request = Spent { output_tokens: 60, ..Spent::default() };
/// let (one, other) = (TaskId(5), TaskId(6));
///
/// let mut account = Account::default();
/// account.reserve(one, request);
/// assert_eq!(budget.room(&account, &request, other), Room::Wait);
/// account.wait(other);
/// let used = Spent { output_tokens: 9, ..Spent::default() };
/// assert_eq!(account.settle(one, Some(used)), [other]);
/// assert_eq!(budget.room(&account, &request, other), Room::Enough);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What was spent.
    #[serde(default)]
    pub spent: Spent,
    /// What requests that are out may use at most, by who sent them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: BTreeMap<TaskId, Spent>,
    /// Who waits for room, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<TaskId>,
}

impl Account {
    /// What is reserved in all.
    pub fn held(&self) -> Spent {
        self.reserved.values().fold(Spent::default(), |sum, reserved| sum.plus(reserved))
    }

    /// Reserves what a task may use at most. What it had reserved before is settled as unknown: its request was cut off.
    ///
    /// Shape: who reserves has asked [`Budget::room`](super::Budget::room) in the same commit.
    pub fn reserve(&mut self, by: TaskId, worst: Spent) {
        self.waiting.retain(|waiting| *waiting != by);
        if let Some(unsettled) = self.reserved.insert(by, worst) {
            self.spent = self.spent.plus(&unsettled);
        }
    }

    /// Charges what a task used, in place of what it had reserved; where nobody knows what it used, what it had
    /// reserved. Gives who waited and may try again.
    pub fn settle(&mut self, by: TaskId, used: Option<Spent>) -> Vec<TaskId> {
        let reserved = self.reserved.remove(&by).unwrap_or_default();
        self.spent = self.spent.plus(&used.unwrap_or(reserved));
        self.waiting.retain(|waiting| *waiting != by);
        std::mem::take(&mut self.waiting)
    }

    /// Notes that a task waits for room.
    pub fn wait(&mut self, by: TaskId) {
        if !self.waiting.contains(&by) {
            self.waiting.push(by);
        }
    }
}
