//! The crash explorer, in memory: the world stops before or after any commit, and again before or after any commit of
//! the next life. Whatever happened, the last life comes to the same end.

use std::path::Path;

use everturn::{
    CancelToken,
    kernel::Memory,
    storage::{Layered, SessionQuery, Store},
};
use everturn_testkit::watched::{Moment, Watched};
use everturn_worlds::scenario::{Outcome, live};

use crate::killed::check;

/// Where a life ends: at a moment of its n-th commit.
type Stop = (Moment, u64);

/// One life over what the lives before have left; none when it was stopped.
fn life(memory: &Store, effects: &Path, stop: Option<Stop>) -> Option<Outcome> {
    // The runtime is the process: dropping it ends every task where it stands.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stopped = CancelToken::new();
    let tell = {
        let stopped = stopped.clone();
        move |moment, number| -> everturn::BoxFuture<'static, ()> {
            if stop == Some((moment, number)) {
                stopped.cancel();
                return Box::pin(std::future::pending());
            }
            Box::pin(async {})
        }
    };
    let store = Store::new(Layered(Watched::new(memory.clone(), tell)));
    runtime.block_on(async {
        give_up_leases(memory).await;
        tokio::select! {
            biased;
            () = stopped.cancelled() => None,
            outcome = live(store, effects) => Some(outcome.unwrap()),
        }
    })
}

/// What the operating system does for a store on disk: the lease of an owner that is gone is free.
pub(crate) async fn give_up_leases(memory: &Store) {
    for row in memory.sessions(SessionQuery::default()).await.unwrap() {
        if let Some((owner, _)) = row.owner {
            memory.release(row.id, owner, row.epoch).await.unwrap();
        }
    }
}

/// Lives that end at these stops, and a last one that does not; gives whether all stops were reached.
fn explore(stops: &[Stop]) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let (memory, effects) = (Store::new(Memory::new()), directory.path().join("effects"));
    for (lives, stop) in stops.iter().enumerate() {
        if let Some(outcome) = life(&memory, &effects, Some(*stop)) {
            check(&outcome, &format!("{stops:?}, ended in life {lives}"));
            return false;
        }
    }
    let outcome = life(&memory, &effects, None).unwrap();
    check(&outcome, &format!("{stops:?}"));
    assert!(outcome.cut <= stops.len() as u64, "{stops:?}: {} requests were cut off", outcome.cut);
    true
}

fn stops() -> impl Iterator<Item = Stop> {
    (1..).flat_map(|number| [(Moment::Before, number), (Moment::After, number)])
}

#[test]
fn a_world_that_stops_at_any_commit_comes_to_the_same_end() {
    let reached = stops().take_while(|stop| explore(&[*stop])).count();
    assert!(reached > 20, "the scenario has more than ten commits, and {reached} stops");
}

#[test]
fn a_world_that_stops_twice_comes_to_the_same_end() {
    let mut worlds = 0;
    for first in stops() {
        let reached = stops().take_while(|second| explore(&[first, *second])).count();
        worlds += reached;
        if reached == 0 {
            break;
        }
    }
    println!("{worlds} worlds that stop twice");
    assert!(worlds > 200, "{worlds} worlds were tried");
}
