//! The same on a file, with real processes and SIGKILL.

use std::path::Path;

use everturn_worlds::tasks::{Ledger, Outcome};

use super::{abort::check_order, check_kept};
use crate::killed::run;

/// What the process comes to, and what it did to the world, by whether it was killed where something was cut off.
fn check(scenario: &str, outcome: &Outcome, ledger: &Ledger, when: &str) {
    assert_eq!(outcome.findings, Vec::<String>::new(), "{when}");
    check_kept(ledger, when);
    let is = |kind: &str, end: &str| {
        let mut found = outcome.tasks.iter().filter(|task| task.starts_with(kind));
        let ends = found.all(|task| task.split_once(": ").is_some_and(|(_, ended)| ended.starts_with(end)));
        assert!(ends, "{when}: {outcome:?}");
    };
    match scenario {
        "payment" => {
            is("worlds.pay", "completed with 12");
            assert_eq!(ledger.charges(), [12], "{when}");
        }
        "ticker" => {
            is("worlds.tick", "completed with 5");
            let did = ledger.did();
            let again = usize::from(when.contains("before"));
            assert!((5..=5 + again).contains(&did.len()), "{when}: {did:?}");
        }
        "checkout" => {
            is("worlds.buy", "failed declined");
            assert_eq!(ledger.balance(), 0, "{when}: {:?}", ledger.lines());
        }
        _ => {
            is(r#"worlds.branch {"name":"root"#, "aborted");
            is(r#"worlds.branch {"name":"watch"#, "completed");
            check_order(&ledger.did(), when);
        }
    }
}

/// A life in a directory; none when the process was killed.
fn life(scenario: &str, directory: &Path, kill: Option<(&str, u64)>) -> Option<Outcome> {
    let kill = kill.map(|(moment, number)| (moment, number.to_string()));
    run(scenario, directory, kill.as_ref().map(|(moment, number)| (*moment, number.as_str())))
}

/// Kills a process at every so many commits, the moments taking turns, and lets another go on; gives how many were killed.
fn explore(scenario: &str, every: usize) -> usize {
    for (kills, number) in (1..).step_by(every).enumerate() {
        let moment = if kills % 2 == 0 { "before" } else { "after" };
        let (directory, when) =
            (tempfile::tempdir().unwrap(), format!("{scenario} killed {moment} {number}"));
        let first = life(scenario, directory.path(), Some((moment, number)));
        let was_killed = first.is_none();
        let outcome = first.or_else(|| life(scenario, directory.path(), None)).expect("nobody kills it now");
        check(scenario, &outcome, &Ledger::open(&directory.path().join("ledger")), &when);
        if !was_killed {
            return kills;
        }
    }
    0
}

#[test]
fn tasks_whose_process_is_killed_come_to_the_same_end() {
    for (scenario, every, at_least) in
        [("payment", 1, 4), ("ticker", 2, 5), ("checkout", 2, 5), ("tree", 3, 5)]
    {
        let kills = explore(scenario, every);
        println!("{kills} kills of a {scenario}");
        assert!(kills >= at_least, "{kills} kills of a {scenario}");
    }
}
