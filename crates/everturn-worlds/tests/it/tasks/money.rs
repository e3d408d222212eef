//! Payments and checkouts: nothing is charged twice, and nothing stays charged that was not bought.

use everturn::task::WaitPolicy;
use everturn_worlds::tasks::{Cancelled, Checkout, Payment};

use super::{Count, World, explore_all, stops};

#[test]
fn a_payment_that_stops_anywhere_is_charged_once_and_its_task_is_the_receipt() {
    let worlds = explore_all(&Payment, 1, |world, stops| {
        assert_eq!(world.ledger.charges(), [12], "{stops:?}");
    });
    println!("{worlds} worlds of a payment");
    assert!(worlds > 60, "{worlds} worlds");
    let receipt = World::new().live(&Payment, None).unwrap();
    assert_eq!(receipt.tasks.len(), 1);
    assert!(receipt.tasks[0].ends_with("completed with 12"), "{receipt:?}");
}

pub(super) fn checkout(policy: WaitPolicy) -> Checkout {
    Checkout { policy, soon_ms: 60_000 }
}

/// Both ways to wait for four payments of which one is declined.
fn explore(policy: WaitPolicy) -> usize {
    explore_all(&checkout(policy), 17, |world, stops| {
        assert_eq!(world.ledger.balance(), 0, "{stops:?}: {:?}", world.ledger.lines());
        let charges = world.ledger.charges();
        let expected = if policy == WaitPolicy::FailFast { 5 } else { 13 };
        assert_eq!(charges.iter().sum::<i64>(), expected, "{stops:?}: {charges:?}");
    })
}

#[test]
fn a_checkout_with_a_declined_payment_that_stops_anywhere_keeps_no_money() {
    let worlds = explore(WaitPolicy::FailFast);
    println!("{worlds} worlds of a checkout that fails fast");
    let outcome = World::new().live(&checkout(WaitPolicy::FailFast), None).unwrap();
    let ended = |word: &str| outcome.tasks.iter().filter(|task| task.contains(&format!(": {word}"))).count();
    // The checkout and the declined payment; two that were stopped; one that was done by then.
    assert_eq!((ended("failed"), ended("aborted"), ended("completed")), (2, 2, 1), "{outcome:?}");
    assert!(worlds > 120, "{worlds} worlds");
}

#[test]
fn a_checkout_that_waits_for_all_and_stops_anywhere_keeps_no_money() {
    let worlds = explore(WaitPolicy::AllSettled);
    println!("{worlds} worlds of a checkout that waits for all");
    let outcome = World::new().live(&checkout(WaitPolicy::AllSettled), None).unwrap();
    let ended = |word: &str| outcome.tasks.iter().filter(|task| task.contains(&format!(": {word}"))).count();
    assert_eq!((ended("failed"), ended("aborted"), ended("completed")), (2, 0, 3), "{outcome:?}");
    assert!(worlds > 120, "{worlds} worlds");
}

#[test]
fn a_checkout_that_is_told_to_stop_at_any_commit_keeps_no_money() {
    let mut worlds = 0;
    for commits in 2..=13 {
        let scenario = Cancelled(checkout(WaitPolicy::FailFast), commits);
        for stop in stops(Count::Commits).skip(usize::try_from(commits).unwrap() % 3).step_by(3) {
            let (world, when) = (World::new(), format!("told at {commits}, {stop:?}"));
            let Some(outcome) = world.explore(&scenario, &[stop]) else { break };
            assert_eq!(outcome.findings, Vec::<String>::new(), "{when}");
            assert!(outcome.tasks.iter().all(|task| !task.contains(": faulted")), "{when}: {outcome:?}");
            assert_eq!(world.ledger.balance(), 0, "{when}: {outcome:?} {:?}", world.ledger.lines());
            worlds += 1;
        }
    }
    println!("{worlds} worlds of a checkout that is told to stop");
    assert!(worlds > 80, "{worlds} worlds");
}
