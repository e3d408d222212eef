//! A tree of tasks that is told to stop: from the bottom up, wherever that meets it and wherever the world stops.

use everturn::task::tree::Reach;
use everturn_worlds::tasks::{Outcome, Tree};

use super::{Count, Stop, World, stops};

/// How many commits the session has when the whole tree has grown.
const COMMITS: u64 = 13;

/// The bottom is told first: no task stops before what is below it has.
pub(super) fn check_order(did: &[String], when: &str) {
    for (at, above) in did.iter().enumerate() {
        let is_below =
            |name: &String| above == "root" && name != "root" || name.starts_with(&format!("{above}/"));
        let late: Vec<_> = did[at..].iter().filter(|name| is_below(name)).collect();
        assert!(late.is_empty(), "{when}: {above} stopped before {late:?}: {did:?}");
    }
}

/// What a tree came to: everything that was told to stop did, and nothing else.
fn check(tree: &Tree, world: &World, outcome: &Outcome, stops: &[Stop]) {
    let when = format!("{tree:?}, {stops:?}");
    assert_eq!(outcome.findings, Vec::<String>::new(), "{when}");
    let mut did = world.ledger.did();
    check_order(&did, &when);
    let is_watch = |line: &&String| line.contains(r#""name":"watch"#) && !line.contains(r#""name":"root"#);
    for line in &outcome.tasks {
        let stops = tree.reach == Reach::Background || !is_watch(&line);
        let word = if stops { ": aborted with" } else { ": completed with" };
        assert!(line.contains(word), "{when}: {line}");
    }
    for name in &did {
        let times = did.iter().filter(|other| *other == name).count();
        assert!(times <= 1 + stops.len(), "{when}: the handler of {name} ran {times} times");
    }
    did.sort();
    did.dedup();
    let stopped = outcome.tasks.iter().filter(|line| line.contains(": aborted with")).count();
    assert_eq!(did.len(), stopped, "{when}: {did:?}");
}

/// All trees that are told to stop at one of their commits, with one stop of the world in each; how many worlds.
fn explore(reach: Reach) -> usize {
    let mut worlds = 0;
    for commits in 2..=COMMITS {
        let tree = Tree { commits, reach };
        let world = World::new();
        let outcome = world.live(&tree, None).unwrap();
        check(&tree, &world, &outcome, &[]);
        // Every fifth: which of them takes turns.
        for stop in stops(Count::Commits).skip(usize::try_from(commits).unwrap() % 5).step_by(5) {
            let world = World::new();
            let Some(outcome) = world.explore(&tree, &[stop]) else { break };
            check(&tree, &world, &outcome, &[stop]);
            worlds += 1;
        }
    }
    worlds
}

#[test]
fn a_tree_that_is_told_to_stop_at_any_commit_stops_from_the_bottom_up() {
    let worlds = explore(Reach::Ordinary);
    println!("{worlds} worlds of a tree");
    assert!(worlds > 80, "{worlds} worlds");
    let world = World::new();
    let outcome = world.live(&Tree { commits: COMMITS, reach: Reach::Ordinary }, None).unwrap();
    let lived: Vec<_> = outcome.tasks.iter().filter(|line| line.contains(": completed")).collect();
    assert_eq!(lived.len(), 2, "the background branch lives on: {outcome:?}");
}

#[test]
fn a_tree_that_is_told_to_stop_with_its_background_stops_from_the_bottom_up() {
    let worlds = explore(Reach::Background);
    println!("{worlds} worlds of a tree with its background");
    let world = World::new();
    let outcome = world.live(&Tree { commits: COMMITS, reach: Reach::Background }, None).unwrap();
    assert_eq!(outcome.tasks.len(), 11, "{outcome:?}");
}
