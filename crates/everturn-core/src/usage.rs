//! The ledger: one row per request to a provider.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, TaskId},
    message::Usage,
};

/// What one request to a provider cost.
///
/// Promise: exactly one row per request that was sent, also when it was cut off.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, message::Usage, usage::UsageRow};
///
/// let row = UsageRow {
///     conversation: ConversationId::ROOT, turn: TaskId(5), step: 1, attempt: 1,
///     model: "chat/qwen".into(), usage: None, time: Timestamp(0),
/// };
/// assert!(row.usage.is_none(), "the provider did not say");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The conversation the request was made for.
    pub conversation: ConversationId,
    /// The turn it was made in.
    pub turn: TaskId,
    /// The step of the turn, from 1.
    pub step: u32,
    /// The attempt at that step, from 1.
    pub attempt: u32,
    /// The model reference that was asked.
    pub model: String,
    /// What the provider counted; absent where it did not say (an attempt that was cut off).
    pub usage: Option<Usage>,
    /// When the request ended.
    pub time: Timestamp,
}

/// Adds up rows of the ledger, or what requests are said to have cost.
///
/// ```
/// use everturn_core::{message::Usage, usage::Total};
///
/// let mut total = Total::default();
/// total.add(Some(&Usage { input: Some(3), ..Usage::default() }));
/// total.add(None);
/// assert_eq!((total.requests, total.unknown, total.usage.input), (2, 1, Some(3)));
/// assert_eq!([Some(total.usage), None].iter().collect::<Total>(), total);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// How many requests were sent.
    pub requests: u64,
    /// For how many of them the provider did not say what they cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// The sum of what was said.
    pub usage: Usage,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Total {
    /// Adds a request.
    pub fn add(&mut self, usage: Option<&Usage>) {
        self.requests += 1;
        match usage {
            Some(usage) => self.usage = self.usage.plus(usage),
            None => self.unknown += 1,
        }
    }
}

impl<'a> FromIterator<&'a UsageRow> for Total {
    fn from_iter<I: IntoIterator<Item = &'a UsageRow>>(rows: I) -> Self {
        let mut total = Self::default();
        rows.into_iter().for_each(|row| total.add(row.usage.as_ref()));
        total
    }
}

impl<'a> FromIterator<&'a Option<Usage>> for Total {
    fn from_iter<I: IntoIterator<Item = &'a Option<Usage>>>(reported: I) -> Self {
        let mut total = Self::default();
        reported.into_iter().for_each(|usage| total.add(usage.as_ref()));
        total
    }
}
