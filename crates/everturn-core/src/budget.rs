//! Budgets: how much may be spent, and the account of what was.
//!
//! Limits stand over accounts: a turn's, a conversation's with those that its calls own, the session's. Whoever wants to
//! spend asks each account above it ([`Budget::room`]), and only where all have room reserves the worst case in each of
//! them. What was really used is settled in each of them later. A request that was out when its process died leaves its
//! reservation behind: it is settled as unknown, and charged as what it may have cost.
//!
//! All of it is data and decided here; the accounts are kept in the store by whoever acts on them.

mod account;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{id::TaskId, message::Usage, usage::Price};

pub use account::{Account, Spent};

/// How much may be spent. What it does not name it does not limit.
///
/// ```
/// use everturn_core::budget::Budget;
///
/// let host = Budget { steps: Some(50), ..Budget::default() };
/// let asked = Budget { steps: Some(80), cost: Some(2_000_000_000), ..Budget::default() };
/// assert_eq!(host.and(&asked), Budget { steps: Some(50), ..asked });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Requests to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Tokens that models read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens that models write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Money, in nano-dollars. Requests without a known price count for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Time in which requests were out or calls ran, in milliseconds. Of a request that was cut off by the end of its process,
    /// the time until what had come of it was stored last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Conversations that calls began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// How many levels of such conversations there may be below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
}

/// What of a budget has a limit.
///
/// ```
/// use everturn_core::budget::Limit;
/// assert_eq!(Limit::OutputTokens.to_string(), "output_tokens");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Requests to a model.
    Steps,
    /// Tokens that models read.
    InputTokens,
    /// Tokens that models write.
    OutputTokens,
    /// Money.
    Cost,
    /// Time.
    WallMs,
    /// Tool calls.
    Calls,
    /// Conversations that calls began.
    Children,
    /// Levels of such conversations.
    Depth,
}

impl Limit {
    /// The limit in one word, as turns end with it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::Cost => "cost",
            Self::WallMs => "wall_ms",
            Self::Calls => "calls",
            Self::Children => "children",
            Self::Depth => "depth",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Whether something more may be spent.
///
/// ```
/// use everturn_core::budget::{Limit, Room};
///
/// let exceeded = Room::Exceeded(Limit::Cost);
/// assert_eq!(Room::Wait.and(exceeded), exceeded, "no waiting helps");
/// assert_eq!(Room::Enough.and(Room::Wait), Room::Wait);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It may.
    Enough,
    /// Not while others hold what they have reserved.
    Wait,
    /// Not any more: this limit is reached.
    Exceeded(Limit),
}

impl Room {
    /// The room of two accounts that both have to have it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exceeded(_), _) | (Self::Wait, Self::Enough) => self,
            _ => other,
        }
    }
}

/// How much a model is taken to answer at most, in tokens, where nobody says so.
pub const OUTPUT_ASSUMED: u64 = 8_192;

/// What a request may use at most, by an estimate of what it sends.
///
/// ```
/// use everturn_core::budget::worst_case;
/// let worst = worst_case(1_000, Some(200), None);
/// assert_eq!((worst.steps, worst.input_tokens, worst.output_tokens, worst.cost), (1, 1_000, 200, 0));
/// ```
pub fn worst_case(estimate_in: u64, output_max: Option<u64>, price: Option<&Price>) -> Spent {
    let output = output_max.unwrap_or(OUTPUT_ASSUMED);
    let cost = price.and_then(|price| {
        let is_dearer = |written: u64| written > price.input;
        let cache_written = price.cache_written.is_some_and(is_dearer).then_some(estimate_in);
        let usage =
            Usage { input: Some(estimate_in), output: Some(output), cache_written, ..Usage::default() };
        price.of(&usage)
    });
    let cost = cost.unwrap_or(0);
    Spent { steps: 1, input_tokens: estimate_in, output_tokens: output, cost, ..Spent::default() }
}

impl Budget {
    /// The smaller of each limit.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let smaller = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            steps: smaller(self.steps, other.steps),
            input_tokens: smaller(self.input_tokens, other.input_tokens),
            output_tokens: smaller(self.output_tokens, other.output_tokens),
            cost: smaller(self.cost, other.cost),
            wall_ms: smaller(self.wall_ms, other.wall_ms),
            calls: smaller(self.calls, other.calls),
            children: smaller(self.children, other.children),
            depth: smaller(self.depth, other.depth),
        }
    }

    /// Whether it limits nothing.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an account has room for what a task wants to spend. Only what is wanted is held against its limit; but
    /// time, which nobody can want, is used up once it was spent.
    ///
    /// What the task itself has reserved counts as spent: nobody waits for himself.
    pub fn room(&self, account: &Account, wanted: &Spent, by: TaskId) -> Room {
        let own = account.reserved.get(&by).copied().unwrap_or_default();
        let taken = account.spent.plus(&own).measures();
        let held = account.held().measures();
        let wanted = wanted.measures();
        let mut room = Room::Enough;
        for (at, (limit, max)) in self.limits().into_iter().enumerate() {
            let Some(max) = max else { continue };
            let is_used_up = limit == Limit::WallMs && taken[at] >= max;
            let sum = |used: u64| used.saturating_add(wanted[at]);
            if is_used_up || (wanted[at] > 0 && sum(taken[at]) > max) {
                return Room::Exceeded(limit);
            }
            let of_all = account.spent.measures()[at].saturating_add(held[at]);
            if wanted[at] > 0 && sum(of_all) > max {
                room = Room::Wait;
            }
        }
        room
    }

    /// What a child gets of it that asks for some: no more than is left here, and one level less. The child still spends
    /// from the accounts above it too.
    ///
    /// Errors: [`Limit::Depth`] where no level is left.
    pub fn share(&self, account: &Account, asked: &Self) -> Result<Self, Limit> {
        let depth = match self.depth {
            Some(depth) => Some(depth.checked_sub(1).ok_or(Limit::Depth)?),
            None => None,
        };
        let gone = account.spent.plus(&account.held());
        let left = |limit: Option<u64>, gone: u64| limit.map(|limit| limit.saturating_sub(gone));
        let left = Self {
            steps: left(self.steps, gone.steps),
            input_tokens: left(self.input_tokens, gone.input_tokens),
            output_tokens: left(self.output_tokens, gone.output_tokens),
            cost: left(self.cost, gone.cost),
            wall_ms: left(self.wall_ms, gone.wall_ms),
            calls: left(self.calls, gone.calls),
            children: left(self.children, gone.children),
            depth,
        };
        Ok(left.and(asked))
    }

    /// Its limits, in the order of [`Spent::measures`]; depth is no sum and has none there.
    fn limits(&self) -> [(Limit, Option<u64>); 7] {
        [
            (Limit::Steps, self.steps),
            (Limit::InputTokens, self.input_tokens),
            (Limit::OutputTokens, self.output_tokens),
            (Limit::Cost, self.cost),
            (Limit::WallMs, self.wall_ms),
            (Limit::Calls, self.calls),
            (Limit::Children, self.children),
        ]
    }
}
