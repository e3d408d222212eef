//! The crash explorer over durable tasks: the world stops before or after any commit, and again in the next life; or
//! answers are lost, or clocks are set. The end is always the same, and the world outside was changed as often as promised.

mod abort;
mod clocks;
mod code;
mod killed;
mod money;
mod signals;
mod troubled;
mod worker;
mod workers;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use everturn::{
    CancelToken, Result,
    clock::Timestamp,
    kernel::Memory,
    storage::{Layer, Layered, Store},
};
use everturn_testkit::watched::Moment;
use everturn_worlds::{
    leaping::Leaping,
    tasks::{Ledger, Life, Line, Outcome, Place, Scenario, live},
};

use crate::explorer::give_up_leases;

/// What survives a life.
pub(crate) struct World {
    pub(crate) memory: Store,
    pub(crate) ledger: Arc<Ledger>,
    clock: Leaping,
    /// What makes the store worse than it is.
    around: Box<dyn Fn(Store) -> Store>,
}

/// Which operations of the store are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Count {
    Commits,
    All,
}

/// Where a life ends: at a moment of its n-th operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stop {
    pub(crate) moment: Moment,
    pub(crate) number: u64,
    pub(crate) of: Count,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Leaping::at(Timestamp(1_000_000_000));
        Self {
            memory: Store::new(Memory::new()),
            ledger: Arc::default(),
            clock,
            around: Box::new(|store| store),
        }
    }

    /// A world with a store that is not quite ours.
    pub(crate) fn with(around: impl Fn(Store) -> Store + 'static) -> Self {
        Self { around: Box::new(around), ..Self::new() }
    }

    /// One life that does something; none when it was stopped.
    pub(crate) fn life<T, F>(&self, stop: Option<Stop>, does: impl FnOnce(Place) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        // The runtime is the process: dropping it ends every task where it stands.
        let runtime = self.clock.runtime();
        let stopped = CancelToken::new();
        let store = (self.around)(self.memory.clone());
        let stopping = Stopping { store, stop, count: AtomicU64::new(0), stopped: stopped.clone() };
        let store = Store::new(Layered(stopping));
        let place = Place { store, world: self.clock.world(), ledger: self.ledger.clone() };
        let does = does(place);
        runtime.block_on(async {
            give_up_leases(&self.memory).await;
            let life = tokio::spawn(does);
            tokio::select! {
                biased;
                () = stopped.cancelled() => None,
                came = life => Some(came.expect("a life does not panic").unwrap()),
            }
        })
    }

    /// A life of a scenario.
    fn live<S: Scenario + Clone>(&self, scenario: &S, stop: Option<Stop>) -> Option<Outcome> {
        let scenario = scenario.clone();
        self.life(stop, |place| limited(scenario, place))
    }

    /// Lives that end at these stops, and a last one that does not; none where a stop was not reached.
    fn explore<S: Scenario + Clone>(&self, scenario: &S, stops: &[Stop]) -> Option<Outcome> {
        for stop in stops {
            if self.live(scenario, Some(*stop)).is_some() {
                return None;
            }
        }
        self.live(scenario, None)
    }
}

/// A life that does not go on for ever.
async fn limited<S: Scenario>(scenario: S, place: Place) -> Result<Outcome> {
    let day = place.world.clock.sleep(std::time::Duration::from_secs(24 * 3_600));
    let store = place.store.clone();
    tokio::select! {
        outcome = live(&scenario, place) => outcome,
        () = day => {
            let sessions = store.sessions(everturn::storage::SessionQuery::default()).await?;
            let mut graphs = Vec::new();
            for row in sessions {
                graphs.push(everturn::SessionReader::open(store.clone(), row.id).await?.inspect().await?);
            }
            panic!("nothing happens any more: {graphs:#?}")
        }
    }
}

/// Opens a session without letting anything run, in a life of its own.
async fn opened<S: Scenario>(scenario: S, place: Place) -> Result<Life> {
    Life::open(&scenario, place).await
}

/// A store that stops at an operation, and from then on stands still.
struct Stopping {
    store: Store,
    stop: Option<Stop>,
    count: AtomicU64,
    stopped: CancelToken,
}

impl Stopping {
    async fn meet(&self, moment: Moment, number: u64) {
        if self.stop.is_some_and(|stop| (stop.moment, stop.number) == (moment, number)) {
            self.stopped.cancel();
        }
        // A world that stands still does nothing more, not even when it is taken down.
        if self.stopped.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

impl Layer for Stopping {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn around<T: Send>(&self, name: &'static str, call: impl Future<Output = T> + Send) -> T {
        let is_commit = name == "commit" || name == "create";
        let is_counted = is_commit || self.stop.is_some_and(|stop| stop.of == Count::All);
        if name == "doorbell" {
            return call.await;
        }
        let number = if is_counted { self.count.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
        self.meet(Moment::Before, number).await;
        let answer = call.await;
        self.meet(Moment::After, number).await;
        answer
    }
}

/// Before and after the first operation, the second, and so on.
pub(crate) fn stops(of: Count) -> impl Iterator<Item = Stop> {
    let moments = [Moment::Before, Moment::After];
    (1..).flat_map(move |number| moments.map(|moment| Stop { moment, number, of }))
}

/// Tries every single stop before an operation and behind a commit, and every so many of the pairs of stops at commits: what
/// a scenario comes to is the same as undisturbed, and `holds` of its world. Gives how many worlds that were.
fn explore_all<S: Scenario + Clone>(scenario: &S, every: usize, holds: impl Fn(&World, &[Stop])) -> usize {
    let world = World::new();
    let expected = world.live(scenario, None).expect("nobody stops it");
    assert_eq!(expected.findings, Vec::<String>::new());
    holds(&world, &[]);
    let try_out = |stops: &[Stop]| {
        let world = World::new();
        let Some(outcome) = world.explore(scenario, stops) else { return false };
        assert_eq!(outcome, expected, "{stops:?}");
        holds(&world, stops);
        true
    };
    // Behind a read is before what comes next.
    let before = stops(Count::All).filter(|stop| stop.moment == Moment::Before);
    let after = stops(Count::Commits).filter(|stop| stop.moment == Moment::After);
    let at_operations = before.take_while(|stop| try_out(&[*stop])).count();
    let commits = after.take_while(|stop| try_out(&[*stop])).count();
    let (mut worlds, at_commits) = (at_operations + commits, 2 * commits);
    for (at, first) in stops(Count::Commits).take(at_commits).enumerate() {
        // A life that goes on has one more commit: it counts what it was left.
        for (with, second) in stops(Count::Commits).take(at_commits + 2).enumerate() {
            let is_tried = (at * 31 + with).is_multiple_of(every) && try_out(&[first, second]);
            worlds += usize::from(is_tried);
        }
    }
    worlds
}

/// What was kept was kept once: after the first time that whoever did it was told so, it was not done again, and whoever
/// asked later was given the same.
fn check_kept(ledger: &Ledger, when: &str) {
    let (mut kept, mut values) = (BTreeSet::new(), BTreeSet::new());
    for line in ledger.lines() {
        match line {
            Line::Did(what) => assert!(!kept.contains(&what), "{when}: {what} was kept and done again"),
            Line::Kept(what, value) => {
                kept.insert(what.clone());
                values.insert((what, value));
            }
            _ => {}
        }
    }
    assert_eq!(values.len(), kept.len(), "{when}: each was kept once: {values:?}");
}
