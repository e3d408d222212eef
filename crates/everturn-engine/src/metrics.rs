//! What a harness counts: turns, requests, calls and commits, as a snapshot and as text for Prometheus; and who is told of
//! each turn that ended.

mod meter;
mod observer;
mod prometheus;
pub(crate) mod span;

use std::collections::BTreeMap;

use everturn_core::message::Usage;
pub use meter::Meter;
pub use observer::{Observer, TurnStatus, TurnSummary};

/// What a harness has counted since it was opened, and what its open sessions have to do now: a snapshot.
///
/// Promise: what a commit did is counted before anyone who waited for it goes on. What happened in other processes is
/// counted there.
/// Units: milliseconds of the world's clock; cost in nano-dollars.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::Harness;
/// let harness = Harness::builder(Store::new(Memory::new())).open().await?;
/// let metrics = harness.metrics();
/// assert_eq!((metrics.turns["answered"], metrics.active_turns), (0, 0));
/// assert!(metrics.to_prometheus().contains("everturn_turns_total{end=\"answered\"} 0\n"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Sessions that are open now.
    pub open_sessions: u64,
    /// Turns that live in them.
    pub active_turns: u64,
    /// Inputs that wait in their queues.
    pub queued: u64,
    /// Approvals that nobody has decided.
    pub open_approvals: u64,
    /// Turns that ended, by the word of their end; every word is there.
    pub turns: BTreeMap<&'static str, u64>,
    /// How many responses those turns took.
    pub steps: u64,
    /// From a turn's first commit to its last.
    pub turn_ms: Histogram,
    /// Requests to models, summaries included, by how they ended: `complete`, `aborted`, `failed` or `unknown`.
    pub requests: BTreeMap<&'static str, u64>,
    /// How many of them were not the first attempt.
    pub retries: u64,
    /// What their providers counted: input tokens, the cached ones included.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from a provider's cache.
    pub cached_tokens: u64,
    /// What is known of their cost.
    pub cost: u64,
    /// The same requests by the model that was asked, as its reference names it; past 256 of them the rest is `other`.
    pub models: BTreeMap<String, ModelMetrics>,
    /// Calls that ended, by the word of their outcome; every word is there.
    pub calls: BTreeMap<&'static str, u64>,
    /// Contexts that were made shorter.
    pub compactions: u64,
    /// How long storage took to store a commit.
    pub commit_ms: Histogram,
    /// How long a transaction kept the line of commits before it was sent to storage.
    pub line_ms: Histogram,
}

impl Metrics {
    /// Calls that policy, a person or the host refused.
    pub fn refusals(&self) -> u64 {
        ["denied", "declined"].iter().filter_map(|word| self.calls.get(word)).sum()
    }

    /// The same in Prometheus' text format: `HELP` and `TYPE` once for each metric, time in seconds, money in dollars.
    pub fn to_prometheus(&self) -> String {
        prometheus::text(self)
    }
}

/// What was counted of the requests to one model.
///
/// ```
/// use everturn_engine::metrics::ModelMetrics;
/// let none = ModelMetrics::default();
/// assert!(none.request_ms.is_empty() && none.usage.input.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ModelMetrics {
    /// What its provider counted.
    pub usage: Usage,
    /// From sending a request to its end, by the class of the fault that ended it, if one did.
    pub request_ms: BTreeMap<Option<&'static str>, Histogram>,
    /// From sending a request to the first that came of its response.
    pub first_ms: Histogram,
}

/// How often something took how long.
///
/// ```
/// # use everturn_engine::metrics::Histogram;
/// let none = Histogram::default();
/// assert_eq!((none.count, none.sum_ms, none.buckets.len()), (0, 0, Histogram::BOUNDS.len()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Histogram {
    /// How often, in all.
    pub count: u64,
    /// How long, in all.
    pub sum_ms: u64,
    /// How often it took no longer than each of [`BOUNDS`](Self::BOUNDS), and longer than the one before. What took longer
    /// than the last is in `count` only.
    pub buckets: [u64; Histogram::BOUNDS.len()],
}

impl Histogram {
    /// The upper bounds of the buckets, in milliseconds.
    pub const BOUNDS: [u64; 16] =
        [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

    fn add(&mut self, ms: u64) {
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
        let at = Self::BOUNDS.iter().position(|bound| ms <= *bound);
        at.iter().for_each(|at| self.buckets[*at] += 1);
    }
}
