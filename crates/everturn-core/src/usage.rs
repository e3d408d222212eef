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
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, message::Usage, usage::{RequestEnd, UsageRow}};
///
/// let row = UsageRow {
///     conversation: ConversationId::ROOT, turn: TaskId(5), step: 1, attempt: 1,
///     model: "chat/qwen".into(), end: RequestEnd::Unknown, usage: None, cost: None, time: Timestamp(0),
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
    /// How it ended.
    pub end: RequestEnd,
    /// What the provider counted; absent where it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost in nano-dollars, by the price of then; absent where price or count was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// When the request ended.
    pub time: Timestamp,
}

/// How a request to a provider ended.
///
/// ```
/// use everturn_core::usage::RequestEnd;
/// assert_eq!(serde_json::to_string(&RequestEnd::Complete).unwrap(), r#""complete""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    /// The model responded to its end.
    Complete,
    /// It was stopped on our side.
    Aborted,
    /// The provider, or the way to it, failed.
    Failed,
    /// The process ended while it may have been out.
    Unknown,
}

/// Adds up rows of the ledger, or what requests are said to have cost.
///
/// ```
/// use everturn_core::{message::Usage, usage::Total};
///
/// let mut total = Total::default();
/// total.add(Some(&Usage { input: Some(3), ..Usage::default() }), Some(9_000));
/// total.add(None, None);
/// assert_eq!((total.requests, total.unknown, total.usage.input), (2, 1, Some(3)));
/// assert_eq!((total.cost, total.priced), (Some(9_000), 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// How many requests were sent.
    pub requests: u64,
    /// For how many of them the provider did not say what they used.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub unknown: u64,
    /// The sum of what was said.
    pub usage: Usage,
    /// The sum of what is known to have been paid, in nano-dollars; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// How many of the requests that sum is of. Counted this way round, a total that was stored before there were prices
    /// reads as what its rows add up to.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub priced: u64,
}

impl Total {
    /// Adds a request.
    pub fn add(&mut self, usage: Option<&Usage>, cost: Option<u64>) {
        self.requests += 1;
        match usage {
            Some(usage) => self.usage = self.usage.plus(usage),
            None => self.unknown += 1,
        }
        if let Some(cost) = cost {
            self.cost = Some(self.cost.unwrap_or(0).saturating_add(cost));
            self.priced += 1;
        }
    }
}

impl<'a> FromIterator<&'a UsageRow> for Total {
    fn from_iter<I: IntoIterator<Item = &'a UsageRow>>(rows: I) -> Self {
        let mut total = Self::default();
        rows.into_iter().for_each(|row| total.add(row.usage.as_ref(), row.cost));
        total
    }
}

/// What a model's tokens cost, and who says so.
///
/// Units: micro-dollars per million tokens.
///
/// ```
/// use everturn_core::{message::Usage, usage::Price};
///
/// let price = Price {
///     input: 3_000_000, output: 15_000_000, cached: Some(300_000), cache_written: None,
///     source: "the provider's price list".into(), date: "2026-08-22".into(),
/// };
/// let usage = Usage { input: Some(1_000), cached: Some(400), output: Some(10), ..Usage::default() };
/// assert_eq!(price.of(&usage), Some(600 * 3_000 + 400 * 300 + 10 * 15_000), "in nano-dollars");
/// assert_eq!(price.of(&Usage::default()), None, "what nobody counted has no price");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Of input that is neither read from the cache nor written to it.
    pub input: u64,
    /// Of output, reasoning included.
    pub output: u64,
    /// Of input that is read from the cache; as other input, without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Of input that is written to the cache; as other input, without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<u64>,
    /// Where the prices come from.
    pub source: String,
    /// When they were read there.
    pub date: String,
}

impl Price {
    /// What tokens cost, in nano-dollars, rounded up; none where input or output was not counted.
    pub fn of(&self, usage: &Usage) -> Option<u64> {
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached.unwrap_or(0).min(input);
        let written = usage.cache_written.unwrap_or(0).min(input - cached);
        let parts = [
            (input - cached - written, self.input),
            (cached, self.cached.unwrap_or(self.input)),
            (written, self.cache_written.unwrap_or(self.input)),
            (output, self.output),
        ];
        let pico: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(pico.div_ceil(1_000)).ok()
    }
}

impl<'a> FromIterator<&'a Option<Usage>> for Total {
    fn from_iter<I: IntoIterator<Item = &'a Option<Usage>>>(reported: I) -> Self {
        let mut total = Self::default();
        reported.into_iter().for_each(|usage| total.add(usage.as_ref(), None));
        total
    }
}
