//! The crash explorer over the kernel alone, in memory: the world stops before or after any operation of the store,
//! reads included, and again in the next life; or the answer to a commit is lost. The end is always the same.

mod killed;
mod torn;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use everturn::{
    BoxFuture, CancelToken, ErrorKind, Result,
    kernel::Memory,
    storage::{Batch, Committed, Layer, Layered, Store},
};
use everturn_testkit::{
    late::{Fate, Losses},
    watched::Moment,
};
use everturn_worlds::{
    kernel::{Outcome, live},
    notebook::{Notebook, Told},
    operations::{Operation, told},
};

use crate::explorer::give_up_leases;

/// Where a life ends: at a moment of its n-th operation.
type Stop = (Moment, u64);

/// The store, and the notebook that its application keeps beside it: what outlives a life.
struct Remains {
    memory: Store,
    notebook: Notebook,
}

impl Remains {
    fn new() -> Self {
        Self { memory: Store::new(Memory::new()), notebook: Notebook::default() }
    }

    /// One life; none when it was stopped. `tell` sees each operation, and may stop the world there.
    fn life(&self, stop: Option<Stop>, see: impl Fn(Operation) + Send + Sync + 'static) -> Option<Outcome> {
        // The runtime is the process: dropping it ends every task where it stands.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stopped = CancelToken::new();
        let tell = {
            let stopped = stopped.clone();
            move |moment, operation: Operation| -> BoxFuture<'static, ()> {
                if moment == Moment::Before {
                    see(operation);
                }
                if stop == Some((moment, operation.number)) {
                    stopped.cancel();
                }
                // A world that stands still does nothing more, not even when it is taken down.
                if stopped.is_cancelled() { Box::pin(std::future::pending()) } else { Box::pin(async {}) }
            }
        };
        let store = told(self.memory.clone(), tell);
        runtime.block_on(async {
            give_up_leases(&self.memory).await;
            tokio::select! {
                biased;
                () = stopped.cancelled() => None,
                outcome = live(store, &self.notebook, &|_| ()) => Some(outcome.unwrap()),
            }
        })
    }
}

/// What an undisturbed life comes to.
fn undisturbed() -> Outcome {
    Remains::new().life(None, |_| ()).expect("nobody stops it")
}

/// How many operations an undisturbed life has, and of which kinds.
fn operations() -> (u64, BTreeMap<&'static str, u64>) {
    let kinds = Arc::new(Mutex::new(BTreeMap::new()));
    let count = kinds.clone();
    Remains::new()
        .life(None, move |operation| *count.lock().unwrap().entry(operation.name).or_default() += 1);
    let kinds = kinds.lock().unwrap().clone();
    (kinds.values().sum(), kinds)
}

/// Two lives came to the same: all records, and what watchers saw, each frame once and none missing.
pub(crate) fn check(found: &Outcome, expected: &Outcome, when: &str) {
    assert_eq!(found.findings, Vec::<String>::new(), "{when}");
    same(&found.session, &expected.session, when);
    same(&found.other, &expected.other, when);
    same(&found.owner_saw, &expected.owner_saw, when);
    let records = |told: &[Told]| told.iter().map(|one| (one.seq, one.records.clone())).collect::<Vec<_>>();
    same(&records(&found.reader_saw), &records(&expected.reader_saw), when);
    // Of documents the reader may have missed revisions that others superseded before it looked.
    for (told, all) in found.reader_saw.iter().zip(&expected.owner_saw) {
        let is_told = |one: &String| all.documents.contains(one);
        assert!(told.documents.iter().all(is_told), "{when}: {told:?} is not what happened: {all:?}");
    }
}

/// Two lists are one; tells the first difference.
fn same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T], when: &str) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{when}: line {at}");
    }
    assert_eq!(
        found.len(),
        expected.len(),
        "{when}: the first {} are the same",
        found.len().min(expected.len())
    );
}

/// Lives that end at these stops, and a last one that does not; gives whether all stops were reached.
fn explore(stops: &[Stop], expected: &Outcome) -> bool {
    let remains = Remains::new();
    for (lives, stop) in stops.iter().enumerate() {
        if let Some(outcome) = remains.life(Some(*stop), |_| ()) {
            check(&outcome, expected, &format!("{stops:?}, ended in life {lives}"));
            return false;
        }
    }
    let outcome = remains.life(None, |_| ()).expect("nobody stops it");
    check(&outcome, expected, &format!("{stops:?}"));
    assert_eq!(outcome.resyncs, 0, "{stops:?}: nothing was lost");
    true
}

fn stops() -> impl Iterator<Item = Stop> {
    (1..).flat_map(|number| [(Moment::Before, number), (Moment::After, number)])
}

#[test]
fn an_undisturbed_life_shows_what_is_expected_of_the_others() {
    let outcome = undisturbed();
    check(&outcome, &undisturbed(), "twice");
    let seqs: Vec<u64> = outcome.owner_saw.iter().map(|told| told.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "a frame for each commit");
    assert!(outcome.other.len() > 10, "it was brought back: {:?}", outcome.other);
    let bases = outcome.session.iter().map(|line| line.matches("Base {").count()).sum::<usize>();
    let deltas = outcome.session.iter().map(|line| line.matches("Delta {").count()).sum::<usize>();
    assert!(bases >= 4 && deltas >= 2, "{bases} bases, {deltas} deltas: {:#?}", outcome.session);
    let (count, kinds) = operations();
    println!("{count} operations: {kinds:?}");
    for kind in ["put_chunk", "seal", "post", "mail", "delete", "changes", "documents", "release", "sweep"] {
        assert!(kinds.contains_key(kind), "{kind} is among what the life asks of its store");
    }
}

#[test]
fn a_kernel_that_stops_at_any_operation_comes_to_the_same_end() {
    let expected = undisturbed();
    let reached = stops().take_while(|stop| explore(&[*stop], &expected)).count();
    println!("{reached} worlds that stop");
    assert!(reached > 200, "the life has more than a hundred operations, and {reached} stops");
}

/// Every so many of the worlds that stop twice are tried: all would take half an hour.
const SAMPLE: u64 = 397;

#[test]
fn a_kernel_that_stops_twice_comes_to_the_same_end() {
    let expected = undisturbed();
    let (count, _) = operations();
    let (mut worlds, mut tried) = (0, 0);
    for (at, first) in stops().take_while(|(_, number)| *number <= count).enumerate() {
        // The second life is shorter by what the first one did.
        for (with, second) in stops().take_while(|(_, number)| *number <= count).enumerate() {
            worlds += 1;
            // Neighbours of each first stop are tried with different second ones.
            if (at as u64 * 31 + with as u64).is_multiple_of(SAMPLE) && explore(&[first, second], &expected) {
                tried += 1;
            }
        }
    }
    println!("{tried} worlds that stop twice, of less than {worlds}");
    assert!(tried > 150, "{tried} worlds were tried");
}

/// Hands storage a batch that was held, so many commits later.
struct Late {
    store: Store,
    losses: Losses,
    /// After how many commits.
    after: u64,
    count: AtomicU64,
}

impl Layer for Late {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let committed = self.store.commit(batch).await;
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.after {
            // What storage says of it is not ours to hear: it may be anything but a second commit.
            self.losses.deliver().await;
        }
        committed
    }
}

/// A life in which the answer to one commit is lost.
fn lose(number: u64, fate: Fate, later: u64, expected: &Outcome) {
    let (remains, losses) = (Remains::new(), Losses::default());
    losses.lose(number, fate);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = losses.around(remains.memory.clone());
    let late = Late { store, losses, after: number + later, count: AtomicU64::new(0) };
    let store = Store::new(Layered(late));
    let when = format!("the answer to commit {number} is lost: {fate:?}, {later} later");
    let outcome = runtime.block_on(async {
        loop {
            match live(store.clone(), &remains.notebook, &|_| ()).await {
                // What asks to be tried again is tried again: a restoration does so.
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => {}
                outcome => return outcome.unwrap(),
            }
        }
    });
    check(&outcome, expected, &when);
    assert_eq!(outcome.resyncs, 0, "{when}");
}

#[test]
fn a_kernel_whose_answers_are_lost_comes_to_the_same_end() {
    let expected = undisturbed();
    let commits = operations().1["commit"];
    assert!(commits > 25, "the life has more than 25 commits: {commits}");
    for (fate, later) in [(Fate::Arrived, 0), (Fate::Lost, 0), (Fate::Held, 1), (Fate::Held, 2)] {
        for number in 1..=commits {
            lose(number, fate, later, &expected);
        }
        println!("{commits} answers were lost: {fate:?}, {later} later");
    }
}
