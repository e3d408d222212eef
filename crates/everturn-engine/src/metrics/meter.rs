//! Counting: what is in a commit is counted when it is adopted.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use everturn_core::{
    entry::{EntryRecord, kind},
    id::SessionId,
    message::Message,
    model::{FaultClass, ModelRef},
    usage::{RequestEnd, UsageRow},
};

use super::{Histogram, Metrics, ModelMetrics, Observer, TurnSummary, observer::Audience};
use crate::{
    harness::{TurnRecord, TurnTask},
    session::{Adopted, Inner},
    task::Task,
    world::millis,
};

/// The words of [`TurnEnd`](crate::TurnEnd).
pub(super) const ENDS: [&str; 7] =
    ["answered", "handed_off", "max_steps", "standstill", "out_of_budget", "cancelled", "failed"];
/// The words of [`Outcome`](everturn_core::message::Outcome).
pub(super) const OUTCOMES: [&str; 10] = [
    "ok",
    "error",
    "denied",
    "declined",
    "unavailable",
    "invalid_arguments",
    "timed_out",
    "cancelled",
    "unknown",
    "missing_result",
];
const REQUESTS: [&str; 4] = ["complete", "aborted", "failed", "unknown"];
/// How many models are counted one by one.
const MODELS_MAX: usize = 256;
/// The name under which the rest is counted.
const OTHER: &str = "other";

/// Counts what the sessions of an opener do.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// use everturn_core::{memory::Memory, storage::{NewSession, Store}};
/// use everturn_engine::{Opener, Session, World};
///
/// let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// let session = Session::create(&opener, NewSession::default()).await?;
/// assert_eq!(opener.meter.read().open_sessions, 1);
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct Meter {
    sessions: Mutex<Vec<Weak<Inner>>>,
    turns: Words<7>,
    steps: AtomicU64,
    turn: Timer,
    requests: Words<4>,
    retries: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
    cached: AtomicU64,
    cost: AtomicU64,
    models: Mutex<BTreeMap<String, ModelMetrics>>,
    calls: Words<10>,
    compactions: AtomicU64,
    commit: Timer,
    line: Timer,
    audience: Arc<Audience>,
}

impl Meter {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { audience: Arc::new(Audience::new(observers)), ..Self::default() }
    }

    /// A session was opened.
    pub(crate) fn opened(&self, session: &Arc<Inner>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are gone are let go of when there would be no room: counting costs nothing on the whole.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|session| session.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(session));
    }

    /// A transaction leaves the line to be committed.
    pub(crate) fn left_line(&self, held: Duration) {
        self.line.add(millis(held));
    }

    /// Storage has stored a commit.
    pub(crate) fn stored(&self, took: Duration) {
        self.commit.add(millis(took));
    }

    /// Counts what a commit did; gives the turns that it ended.
    pub(crate) fn count(&self, session: SessionId, adopted: &Adopted) -> Vec<TurnSummary> {
        adopted.usage.iter().for_each(|row| self.request(row));
        let mut ended = Vec::new();
        for entry in &adopted.entries {
            match entry.kind.as_str() {
                kind::RESULT => self.results(entry),
                kind::COMPACTION => add(&self.compactions, 1),
                kind::TURN => ended.extend(summary(session, entry, adopted)),
                _ => {}
            }
        }
        for turn in &ended {
            self.turns.add(&ENDS, turn.end.word());
            add(&self.steps, u64::from(turn.steps));
            self.turn.add(turn.milliseconds);
        }
        ended
    }

    /// Tells of turns that ended, off the line.
    pub(crate) fn tell(&self, ended: Vec<TurnSummary>) {
        self.audience.tell(ended);
    }

    fn request(&self, row: &UsageRow) {
        let end = match row.end {
            RequestEnd::Complete => "complete",
            RequestEnd::Aborted => "aborted",
            RequestEnd::Failed => "failed",
            RequestEnd::Unknown => "unknown",
        };
        self.requests.add(&REQUESTS, end);
        add(&self.retries, u64::from(row.attempt > 1));
        let usage = row.usage.unwrap_or_default();
        add(&self.input, usage.input.unwrap_or(0));
        add(&self.output, usage.output.unwrap_or(0));
        add(&self.cached, usage.cached.unwrap_or(0));
        add(&self.cost, row.cost.unwrap_or(0));
        self.model(&row.model, |model| model.usage = model.usage.plus(&usage));
    }

    /// A request has ended, well or with a fault; what came first of its response came after so long.
    pub(crate) fn asked(
        &self,
        model: &ModelRef,
        (took, first): (Duration, Option<Duration>),
        fault: Option<FaultClass>,
    ) {
        self.model(&model.to_string(), |model| {
            model.request_ms.entry(fault.map(FaultClass::word)).or_default().add(millis(took));
            first.iter().for_each(|first| model.first_ms.add(millis(*first)));
        });
    }

    fn model(&self, name: &str, change: impl FnOnce(&mut ModelMetrics)) {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = models.get_mut(name) {
            return change(model);
        }
        // Agents name models as they like, and what is counted must stay small.
        let name = if models.len() < MODELS_MAX { name } else { OTHER };
        change(models.entry(name.to_owned()).or_default());
    }

    fn results(&self, entry: &EntryRecord) {
        for message in &entry.messages {
            if let Message::Result(result) = &**message {
                self.calls.add(&OUTCOMES, result.outcome.word());
            }
        }
    }

    /// What was counted, and what the open sessions have to do.
    pub fn read(&self) -> Metrics {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [mut open_sessions, mut active_turns, mut queued, mut open_approvals] = [0_u64; 4];
        for session in sessions.iter().filter_map(Weak::upgrade) {
            let state = session.state();
            if state.shut.is_some() {
                continue;
            }
            let live = &state.live;
            open_sessions += 1;
            active_turns += live.tasks().filter(|task| task.kind == TurnTask::NAME).count() as u64;
            queued += live.submissions.values().filter(|one| one.queued().is_some()).count() as u64;
            open_approvals += live.approvals().count() as u64;
        }
        Metrics {
            open_sessions,
            active_turns,
            queued,
            open_approvals,
            turns: self.turns.read(&ENDS),
            steps: self.steps.load(Relaxed),
            turn_ms: self.turn.read(),
            requests: self.requests.read(&REQUESTS),
            retries: self.retries.load(Relaxed),
            input_tokens: self.input.load(Relaxed),
            output_tokens: self.output.load(Relaxed),
            cached_tokens: self.cached.load(Relaxed),
            cost: self.cost.load(Relaxed),
            models: self.models.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            calls: self.calls.read(&OUTCOMES),
            compactions: self.compactions.load(Relaxed),
            commit_ms: self.commit.read(),
            line_ms: self.line.read(),
        }
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meter")
    }
}

/// How a turn went, by the entry that keeps it and the record of its task, which ended in the same commit.
fn summary(session: SessionId, entry: &EntryRecord, adopted: &Adopted) -> Option<TurnSummary> {
    let record = entry.read::<TurnRecord>().ok()??;
    let task = adopted.tasks.iter().find(|task| task.id == record.turn);
    let took = task.and_then(|task| Some(task.ended?.since(task.started))).unwrap_or_default();
    Some(TurnSummary {
        session,
        conversation: entry.conversation,
        turn: record.turn,
        end: record.outcome,
        steps: record.steps,
        milliseconds: millis(took),
        total: record.total,
    })
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

/// A counter for each of some words.
struct Words<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Words<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Words<N> {
    fn add(&self, words: &[&'static str; N], word: &str) {
        let at = words.iter().position(|known| *known == word);
        debug_assert!(at.is_some(), "{word:?} is none of the words that are counted");
        at.iter().for_each(|at| add(&self.0[*at], 1));
    }

    fn read(&self, words: &[&'static str; N]) -> BTreeMap<&'static str, u64> {
        words.iter().zip(&self.0).map(|(word, count)| (*word, count.load(Relaxed))).collect()
    }
}

/// How often something took how long, while it is counted.
#[derive(Default)]
pub(super) struct Timer {
    count: AtomicU64,
    sum_ms: AtomicU64,
    buckets: [AtomicU64; Histogram::BOUNDS.len()],
}

impl Timer {
    pub(super) fn add(&self, ms: u64) {
        add(&self.count, 1);
        add(&self.sum_ms, ms);
        if let Some(at) = Histogram::BOUNDS.iter().position(|bound| ms <= *bound) {
            add(&self.buckets[at], 1);
        }
    }

    pub(super) fn read(&self) -> Histogram {
        // The parts first: whoever counts meanwhile never makes them more than the whole.
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Relaxed));
        let whole = self.count.load(Relaxed).max(buckets.iter().sum());
        Histogram { count: whole, sum_ms: self.sum_ms.load(Relaxed), buckets }
    }
}
