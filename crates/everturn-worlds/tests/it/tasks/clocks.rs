//! Tickers and alarms: what is behind a memo happens once, and clocks may be set.

use std::time::Duration;

use everturn::{Result, task::Status};
use everturn_testkit::watched::Moment;
use everturn_worlds::tasks::{Alarm, Life, Place, Ticker};

use super::{Count, World, check_kept, explore_all, limited, opened, stops};

#[test]
fn a_ticker_that_stops_anywhere_ticks_on_and_repeats_no_tick_that_was_kept() {
    let worlds = explore_all(&Ticker(Duration::from_secs(60)), 11, |world, stops| {
        let when = format!("{stops:?}");
        check_kept(&world.ledger, &when);
        let (did, ticks) = (world.ledger.did(), usize::try_from(Ticker::TICKS).unwrap());
        // What was cut off before it was kept happens again; a stop behind a commit cuts off nothing of that kind.
        let cuts = stops.iter().filter(|stop| stop.of == Count::All || stop.moment == Moment::Before).count();
        assert!((ticks..=ticks + cuts).contains(&did.len()), "{when}: {did:?}");
        let mut each = did;
        each.sort();
        each.dedup();
        assert_eq!(each.len(), ticks, "{when}: {each:?}");
    });
    println!("{worlds} worlds of a ticker");
    assert!(worlds > 150, "{worlds} worlds");
}

/// What an alarm is about when it is left alone: whether it sleeps.
async fn rests(place: Place) -> Result<bool> {
    let life = opened(Alarm, place).await?;
    life.session.quiescent().await?;
    let graph = life.session.inspect().await?;
    life.session.close().await?;
    Ok(graph.tasks.iter().all(|task| matches!(task.status, Status::Sleeping { .. })))
}

#[test]
fn an_alarm_wakes_at_once_when_its_moment_passed_while_nobody_had_it_open() {
    let world = World::new();
    assert!(world.life(None, rests).unwrap());
    assert_eq!(world.ledger.did(), Vec::<String>::new());
    let clock = world.clock.world().clock;
    let late = clock.now() + 2 * Alarm::SLEEP;
    world.clock.set(late);
    assert!(world.life(None, rests).unwrap(), "it rang, and sleeps again");
    assert_eq!(world.ledger.did(), ["ring 1"]);
    assert!(clock.now().since(late) < Duration::from_secs(1), "nobody had to wait");
    assert_eq!(world.live(&Alarm, None).unwrap().findings, Vec::<String>::new());
    assert_eq!(world.ledger.did(), ["ring 1", "ring 2"]);
}

#[test]
fn an_alarm_sleeps_on_when_the_clock_was_set_back_and_is_not_lost() {
    let world = World::new();
    let clock = world.clock.world().clock;
    let began = clock.now();
    world.clock.set(began + Alarm::SLEEP);
    assert!(world.life(None, rests).unwrap());
    world.clock.set(began);
    assert!(world.life(None, rests).unwrap(), "it sleeps on");
    assert_eq!(world.ledger.did(), Vec::<String>::new());
    assert_eq!(world.live(&Alarm, None).unwrap().findings, Vec::<String>::new());
    assert_eq!(world.ledger.did(), ["ring 1", "ring 2"]);
    let slept = clock.now().since(began);
    assert!(
        (3 * Alarm::SLEEP..4 * Alarm::SLEEP).contains(&slept),
        "until its moment, by the clock: {slept:?}"
    );
}

#[test]
fn an_open_alarm_finds_out_within_a_minute_that_the_clock_was_set() {
    let world = World::new();
    let set = world.clock.clone();
    let rang = world.life(None, |place| async move {
        let (clock, ledger) = (place.world.clock.clone(), place.ledger.clone());
        let life: Life = opened(Alarm, place).await?;
        life.session.quiescent().await?;
        let late = clock.now() + 2 * Alarm::SLEEP;
        set.set(late);
        life.until(|_| !ledger.did().is_empty()).await?;
        Ok(clock.now().since(late))
    });
    assert!(rang.unwrap() <= Duration::from_secs(60), "{rang:?}");
    assert_eq!(world.ledger.did(), ["ring 1"]);
}

#[test]
fn an_alarm_that_stops_anywhere_and_whose_clock_is_set_meanwhile_rings_twice() {
    let expected = World::new().live(&Alarm, None).unwrap();
    let mut worlds = 0;
    for is_back in [false, true] {
        for first in stops(Count::Commits) {
            let world = World::new();
            if world.live(&Alarm, Some(first)).is_some() {
                break;
            }
            let now = world.clock.world().clock.now();
            let hour_ms = 3_600_000;
            world.clock.set(everturn::clock::Timestamp(now.0 + if is_back { -hour_ms } else { hour_ms }));
            let outcome = world.life(None, |place| limited(Alarm, place)).unwrap();
            assert_eq!(outcome, expected, "{first:?}, back: {is_back}");
            let mut rings = world.ledger.did();
            let again = usize::from(first.moment == Moment::Before);
            assert!((2..=2 + again).contains(&rings.len()), "{first:?}, back: {is_back}: {rings:?}");
            rings.dedup();
            assert_eq!(rings, ["ring 1", "ring 2"], "{first:?}, back: {is_back}");
            worlds += 1;
        }
    }
    println!("{worlds} worlds whose clock is set");
    assert!(worlds > 20, "{worlds} worlds");
}
