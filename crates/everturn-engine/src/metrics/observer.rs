//! Who is told of each turn that ended.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use everturn_core::{
    id::{ConversationId, SessionId, TaskId},
    usage::Total,
};

use crate::{TurnEnd, task::panic_text};

/// Is told how each turn went: the sink of a host for its own counts.
///
/// Promise: told after the commit that ended the turn, one turn at a time, those of a session in the order of their ends,
/// and off the line: no session waits for it, and a panic of it harms nobody. What must survive the process is read from
/// the session's history instead. It must not block its thread.
///
/// ```
/// use everturn_engine::{Harness, Observer, TurnSummary};
/// # use everturn_core::{memory::Memory, storage::Store};
/// struct Printing;
/// impl Observer for Printing {
///     fn turn_ended(&self, turn: &TurnSummary) {
///         println!("{} took {} steps and {} ms", turn.end.word(), turn.steps, turn.milliseconds);
///     }
/// }
/// let harness = Harness::builder(Store::new(Memory::new())).observe(Printing);
/// ```
pub trait Observer: Send + Sync + 'static {
    /// A turn has ended, and that is committed.
    fn turn_ended(&self, turn: &TurnSummary);
}

impl<F: Fn(&TurnSummary) + Send + Sync + 'static> Observer for F {
    fn turn_ended(&self, turn: &TurnSummary) {
        self(turn);
    }
}

/// How a turn went.
///
/// ```
/// use everturn_core::{id::{ConversationId, SessionId, TaskId}, usage::Total};
/// use everturn_engine::{TurnEnd, TurnStatus, TurnSummary};
/// let session: SessionId = "01980000-0000-7000-8000-000000000000".parse().unwrap();
/// let turn = TurnSummary {
///     session, conversation: ConversationId::ROOT, turn: TaskId(5), end: TurnEnd::MaxSteps, steps: 50,
///     milliseconds: 90_000, total: Total::default(),
/// };
/// assert_eq!(turn.status(), TurnStatus::Error);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSummary {
    /// Its session.
    pub session: SessionId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// The turn.
    pub turn: TaskId,
    /// How it ended.
    pub end: TurnEnd,
    /// How many responses it took.
    pub steps: u32,
    /// From its first commit to its last, by the world's clock.
    pub milliseconds: u64,
    /// What its requests cost.
    pub total: Total,
}

impl TurnSummary {
    /// The end, for who only asks whether it went well.
    pub fn status(&self) -> TurnStatus {
        match &self.end {
            TurnEnd::Answered | TurnEnd::HandedOff => TurnStatus::Ok,
            TurnEnd::Cancelled { .. } => TurnStatus::Cancelled,
            _ => TurnStatus::Error,
        }
    }
}

/// Whether a turn went well.
///
/// ```
/// use everturn_engine::TurnStatus;
/// assert!(TurnStatus::Ok < TurnStatus::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TurnStatus {
    /// It was answered, or handed off.
    Ok,
    /// Someone stopped it.
    Cancelled,
    /// It could not go on, or must not.
    Error,
}

/// All who are told, and what they were not told yet.
#[derive(Default)]
pub(super) struct Audience {
    observers: Vec<Arc<dyn Observer>>,
    untold: Mutex<VecDeque<TurnSummary>>,
    telling: tokio::sync::Mutex<()>,
}

impl Audience {
    pub(super) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { observers, ..Self::default() }
    }

    /// Has all be told, in a task of its own.
    pub(super) fn tell(self: &Arc<Self>, ended: Vec<TurnSummary>) {
        if self.observers.is_empty() || ended.is_empty() {
            return;
        }
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).extend(ended);
        let audience = self.clone();
        tokio::spawn(async move {
            let _one_at_a_time = audience.telling.lock().await;
            while let Some(turn) = audience.next() {
                audience.observers.iter().for_each(|observer| told(&**observer, &turn));
                tokio::task::yield_now().await;
            }
        });
    }

    fn next(&self) -> Option<TurnSummary> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

fn told(observer: &dyn Observer, turn: &TurnSummary) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer.turn_ended(turn))) {
        tracing::error!(turn = %turn.turn, why = panic_text(&*panic), "an observer broke");
    }
}
