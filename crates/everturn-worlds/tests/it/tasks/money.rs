//! Payments and checkouts: nothing is charged twice, and nothing stays charged that was not bought.

use everturn::task::WaitPolicy;
use everturn_testkit::late::{Fate, Losses};
use everturn_worlds::tasks::{Checkout, Payment};

use super::{World, explore_all, limited};

#[test]
fn a_payment_that_stops_anywhere_is_charged_once_and_its_task_is_the_receipt() {
    let worlds = explore_all(&Payment, 1, |world, stops| {
        assert_eq!(world.ledger.charges(), [12], "{stops:?}");
    });
    println!("{worlds} worlds of a payment");
    assert!(worlds > 80, "{worlds} worlds");
    let receipt = World::new().live(&Payment, None).unwrap();
    assert_eq!(receipt.tasks.len(), 1);
    assert!(receipt.tasks[0].ends_with("completed with 12"), "{receipt:?}");
}

fn checkout(policy: WaitPolicy) -> Checkout {
    Checkout { policy, soon_ms: 60_000 }
}

/// Both ways to wait for four payments of which one is declined.
fn explore(policy: WaitPolicy) -> usize {
    explore_all(&checkout(policy), 13, |world, stops| {
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
    assert!(worlds > 250, "{worlds} worlds");
}

#[test]
fn a_checkout_that_waits_for_all_and_stops_anywhere_keeps_no_money() {
    let worlds = explore(WaitPolicy::AllSettled);
    println!("{worlds} worlds of a checkout that waits for all");
    let outcome = World::new().live(&checkout(WaitPolicy::AllSettled), None).unwrap();
    let ended = |word: &str| outcome.tasks.iter().filter(|task| task.contains(&format!(": {word}"))).count();
    assert_eq!((ended("failed"), ended("aborted"), ended("completed")), (2, 0, 3), "{outcome:?}");
    assert!(worlds > 250, "{worlds} worlds");
}

#[test]
fn a_checkout_whose_answers_are_lost_keeps_no_money_and_charges_nothing_twice() {
    let expected = World::new().live(&checkout(WaitPolicy::FailFast), None).unwrap();
    let mut worlds = 0;
    for fate in [Fate::Arrived, Fate::Lost] {
        for number in 1.. {
            let (world, losses) = (World::new(), Losses::default());
            losses.lose(number, fate);
            let store = losses.around(world.memory.clone());
            let counted = everturn_testkit::counting::Counts::default();
            let store = counted.around(store);
            let outcome =
                world.life_over(store, None, |place| limited(checkout(WaitPolicy::FailFast), place)).unwrap();
            let when = format!("the answer to commit {number} is lost: {fate:?}");
            assert_eq!(outcome, expected, "{when}");
            assert_eq!(world.ledger.balance(), 0, "{when}");
            assert_eq!(world.ledger.charges().iter().sum::<i64>(), 5, "{when}");
            if counted.of("commit") < number {
                break;
            }
            worlds += 1;
        }
    }
    println!("{worlds} worlds with a lost answer");
    assert!(worlds > 20, "{worlds} worlds");
}
