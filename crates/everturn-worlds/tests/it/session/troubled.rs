//! A session over a store that loses answers.

use everturn_testkit::{
    counting::Counts,
    late::{Fate, Losses},
};
use everturn_worlds::session::Outcome;

use super::{Session, check_against, undisturbed};

/// A life that loses the answer to a commit comes to the same end, and nothing is cut off. Gives how many commits it
/// asked for.
fn lose(number: u64, fate: Fate, expected: &Outcome) -> u64 {
    let (losses, counts) = (Losses::default(), Counts::default());
    losses.lose(number, fate);
    let count = counts.clone();
    let session = Session::with(move |store| count.around(losses.around(store)));
    let outcome = session.life(None).expect("nobody stops it");
    let when = format!("the answer to commit {number} is lost: {fate:?}");
    check_against(&outcome, expected, &when);
    assert_eq!((outcome.cut, outcome.unknown), (0, 0), "{when}");
    counts.of("commit")
}

#[test]
fn a_session_whose_answers_are_lost_comes_to_the_same_end() {
    let expected = undisturbed();
    for fate in [Fate::Arrived, Fate::Lost] {
        let lost = (1..).take_while(|number| lose(*number, fate, &expected) >= *number).count();
        println!("{lost} answers were lost: {fate:?}");
        assert!(lost > 60, "{lost} answers");
    }
}
