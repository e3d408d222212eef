//! The crash explorer over a whole session: the world stops before or after any operation of the store, and again in the next
//! life. The session comes to the same end, and nothing of what was promised is broken.

mod killed;
mod troubled;

use std::time::Duration;

use everturn::{
    Result, SessionReader,
    storage::{SessionQuery, Store},
};
use everturn_testkit::watched::Moment;
use everturn_worlds::session::{Files, Outcome, Scene, live};

use crate::tasks::{Count, Stop, World, stops};

/// A world with the files that a session finds.
struct Session {
    world: World,
    files: Files,
}

impl Session {
    fn new() -> Self {
        Self::with(|store| store)
    }

    /// A world with a store that is not quite ours.
    fn with(around: impl Fn(Store) -> Store + 'static) -> Self {
        Self { world: World::with(around), files: Files::found() }
    }

    /// One life; none when it was stopped.
    fn life(&self, stop: Option<Stop>) -> Option<Outcome> {
        let env = self.files.env();
        self.world.life(stop, |place| limited(Scene { place, env, busy: Duration::from_secs(60) }))
    }

    /// Lives that end at these stops, and a last one that does not; none where a stop was not reached.
    fn explore(&self, stops: &[Stop]) -> Option<Outcome> {
        for stop in stops {
            if self.life(Some(*stop)).is_some() {
                return None;
            }
        }
        self.life(None)
    }
}

/// A life that does not go on for ever.
async fn limited(scene: Scene) -> Result<Outcome> {
    let (store, day) =
        (scene.place.store.clone(), scene.place.world.clock.sleep(Duration::from_secs(86_400)));
    tokio::select! {
        outcome = live(scene) => outcome,
        () = day => panic!("nothing happens any more: {:#?}", standing(store).await?),
    }
}

async fn standing(store: Store) -> Result<Vec<String>> {
    let mut graphs = Vec::new();
    for row in store.sessions(SessionQuery::default()).await? {
        let graph = SessionReader::open(store.clone(), row.id).await?.inspect().await?;
        graphs.push(format!("{graph:#?}"));
    }
    Ok(graphs)
}

fn undisturbed() -> Outcome {
    Session::new().life(None).expect("nobody stops it")
}

/// A session that was stopped comes to what it comes to undisturbed.
fn check(found: &Outcome, expected: &Outcome, stops: &[Stop]) {
    check_against(found, expected, &format!("{stops:?}"));
    // Three turns at most are at work at once, and one life cuts each of them once.
    assert!(found.cut <= 3 * stops.len(), "{stops:?}: {} requests were cut off", found.cut);
}

fn check_against(found: &Outcome, expected: &Outcome, when: &str) {
    assert_eq!(found.findings, Vec::<String>::new(), "{when}");
    for (found, expected) in found.came.iter().zip(&expected.came) {
        assert_eq!(found, expected, "{when}");
    }
    assert_eq!(found.came.len(), expected.came.len(), "{when}");
}

/// Tries a world that stops; gives whether all stops were reached.
fn try_out(stops: &[Stop], expected: &Outcome) -> bool {
    let Some(outcome) = Session::new().explore(stops) else { return false };
    check(&outcome, expected, stops);
    true
}

#[test]
fn an_undisturbed_session_comes_to_what_is_expected_of_the_others() {
    let outcome = undisturbed();
    check(&outcome, &undisturbed(), &[]);
    assert_eq!((outcome.cut, outcome.unknown), (0, 0));
}

#[test]
fn a_session_that_stops_before_any_operation_comes_to_the_same_end() {
    let expected = undisturbed();
    // Behind a read is before what comes next.
    let before = stops(Count::All).filter(|stop| stop.moment == Moment::Before);
    let reached = before.take_while(|stop| try_out(&[*stop], &expected)).count();
    println!("{reached} worlds that stop before an operation");
    assert!(reached as u64 > OPERATIONS, "{reached} worlds");
}

#[test]
fn a_session_that_stops_behind_any_commit_comes_to_the_same_end() {
    let expected = undisturbed();
    let after = stops(Count::Commits).filter(|stop| stop.moment == Moment::After);
    let reached = after.take_while(|stop| try_out(&[*stop], &expected)).count();
    println!("{reached} worlds that stop behind a commit");
    assert!(reached > 60, "{reached} worlds");
}

/// Where the sample of worlds that stop twice begins: another number is another sample.
const SEED: u64 = 0x5e55_1014;

/// How many pairs of stops are tried.
const PAIRS: u64 = 120;

/// How many operations a session asks of its store, at least.
const OPERATIONS: u64 = 200;

/// The numbers that follow from a seed (splitmix64).
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |n: u64| {
        let z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[test]
fn a_session_that_stops_twice_comes_to_the_same_end() {
    let expected = undisturbed();
    let mut numbers = numbers(SEED);
    let mut stop = || {
        let number = numbers.next().expect("there is no last number");
        let moment = if number.is_multiple_of(2) { Moment::Before } else { Moment::After };
        Stop { moment, number: 1 + (number >> 8) % OPERATIONS, of: Count::All }
    };
    let tried = (0..PAIRS).filter(|_| try_out(&[stop(), stop()], &expected)).count();
    println!("{tried} worlds that stop twice, of {PAIRS} pairs from seed {SEED:#x}");
    assert!(tried > 60, "{tried} worlds were tried");
}
