//! Signals of strangers: taken once, whether they come early, in time, or never.

use everturn_worlds::tasks::{Listen, Stranger};

use super::{World, explore_all};

fn explore(stranger: Stranger, hears: &str) -> usize {
    let output = World::new().live(&Listen(stranger), None).unwrap();
    let said = output.tasks[0].replace("\\\"", "\"");
    assert!(said.contains(&format!(r#"completed with "{hears}""#)), "{said}");
    explore_all(&Listen(stranger), 5, |world, stops| {
        let mut heard = world.ledger.did();
        assert!(heard.len() <= 1 + stops.len(), "{stops:?}: {heard:?}");
        heard.dedup();
        assert_eq!(heard, [hears.split(", then").next().unwrap()], "{stops:?}");
    })
}

#[test]
fn a_signal_that_comes_before_anyone_listens_is_kept_and_taken_once() {
    let worlds = explore(Stranger::Early, r#"paid {"amount":12}, then nothing"#);
    println!("{worlds} worlds of an early signal");
}

#[test]
fn a_signal_that_comes_while_someone_listens_is_taken_once() {
    let worlds = explore(Stranger::InTime, r#"paid {"amount":12}, then nothing"#);
    println!("{worlds} worlds of a signal in time");
}

#[test]
fn a_wait_for_a_signal_that_never_comes_ends_in_time() {
    let worlds = explore(Stranger::Silent, "nothing, then nothing");
    println!("{worlds} worlds of no signal");
}
