//! Tasks over a store that is in trouble: it loses answers, refuses for a while, or takes its time.

use std::time::Duration;

use everturn::task::WaitPolicy;
use everturn_testkit::{
    counting::Counts,
    faulty::Faults,
    late::{Fate, Losses},
    slow,
};
use everturn_worlds::tasks::{Checkout, Line, Listen, Outcome, Scenario, Stranger, Ticker};

use super::{Count, World, check_kept, money::checkout, stops};

const TICKER: Ticker = Ticker(Duration::from_secs(60));

/// What holds in each world here: nothing was cut off, so nothing was done twice.
fn check(world: &World, when: &str) {
    check_kept(&world.ledger, when);
    assert_eq!(world.ledger.balance(), 0, "{when}");
    let lines = world.ledger.lines();
    for (at, line) in
        lines.iter().enumerate().filter(|(_, line)| matches!(line, Line::Did(_) | Line::Asked(_)))
    {
        assert!(!lines[..at].contains(line), "{when}: {line:?} was done twice: {lines:?}");
    }
}

fn undisturbed<S: Scenario + Clone>(scenario: &S) -> Outcome {
    World::new().live(scenario, None).unwrap()
}

/// Loses the answer to each commit; how many.
fn lose<S: Scenario + Clone>(scenario: &S, fate: Fate) -> u64 {
    let expected = undisturbed(scenario);
    for number in 1.. {
        let (losses, counts) = (Losses::default(), Counts::default());
        losses.lose(number, fate);
        let count = counts.clone();
        let world = World::with(move |store| count.around(losses.around(store)));
        let when = format!("the answer to commit {number} is lost: {fate:?}");
        assert_eq!(world.live(scenario, None).unwrap(), expected, "{when}");
        check(&world, &when);
        if counts.of("commit") < number {
            return number - 1;
        }
    }
    0
}

#[test]
fn tasks_whose_answers_are_lost_come_to_the_same_end_and_do_nothing_twice() {
    for fate in [Fate::Arrived, Fate::Lost] {
        let lost = lose(&TICKER, fate) + lose(&checkout(WaitPolicy::FailFast), fate);
        println!("{lost} answers were lost: {fate:?}");
        assert!(lost > 20, "{lost} answers");
    }
}

#[test]
fn tasks_whose_store_refuses_for_a_while_come_to_the_same_end_and_do_nothing_twice() {
    fn refuse<S: Scenario + Clone>(scenario: &S, times: u64) -> u64 {
        let expected = undisturbed(scenario);
        // The first one creates the task, for someone who tries again by himself.
        for number in 2.. {
            let counts = Counts::default();
            let count = counts.clone();
            let is_refused = move |name, at| name == "commit" && (number..number + times).contains(&at);
            let faults = Faults::when(is_refused);
            let world = World::with(move |store| count.around(faults.around(store)));
            let when = format!("commit {number} is refused {times} times");
            assert_eq!(world.live(scenario, None).unwrap(), expected, "{when}");
            check(&world, &when);
            if counts.of("commit") < number {
                return number - 2;
            }
        }
        0
    }
    for times in [1, 20] {
        let refused = refuse(&TICKER, times) + refuse(&checkout(WaitPolicy::FailFast), times);
        println!("{refused} commits were refused {times} times");
        assert!(refused > 20, "{refused} commits");
    }
}

#[test]
fn tasks_whose_store_takes_its_time_and_stops_come_to_the_same_end() {
    fn slowly<S: Scenario + Clone>(scenario: &S, seeds: u64) -> u64 {
        let expected = undisturbed(scenario);
        let mut worlds = 0;
        for seed in 0..seeds {
            let world = World::with(move |store| slow::around(store, seed));
            let stop = stops(Count::Commits).nth(usize::try_from(seed).unwrap() % 30).unwrap();
            let Some(outcome) = world.explore(scenario, &[stop]) else { continue };
            let when = format!("seed {seed}, {stop:?}");
            assert_eq!(outcome, expected, "{when}");
            check_kept(&world.ledger, &when);
            worlds += 1;
        }
        worlds
    }
    let policies = [WaitPolicy::FailFast, WaitPolicy::AllSettled];
    let checkouts: [Checkout; 2] = policies.map(checkout);
    let worlds = slowly(&TICKER, 30) + slowly(&checkouts[0], 60) + slowly(&checkouts[1], 60);
    let listens = [Stranger::Early, Stranger::InTime].map(|stranger| slowly(&Listen(stranger), 30));
    let worlds = worlds + listens.iter().sum::<u64>();
    println!("{worlds} slow worlds");
    assert!(worlds > 100, "{worlds} worlds");
}
