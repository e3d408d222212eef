//! A process is killed before and after every commit, and run again: what the session comes to is always the same.

use std::{os::unix::process::ExitStatusExt, path::Path, process::Command};

use everturn::{store::Store, submission::End};
use everturn_worlds::scenario::{Outcome, live};
use serde::de::DeserializeOwned;

const KILL: i32 = 9;

/// Runs a scenario of the program; gives what the session came to, or none when the program was killed.
pub(crate) fn run<T: DeserializeOwned>(
    scenario: &str,
    directory: &Path,
    kill: Option<(&str, &str)>,
) -> Option<T> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_killed"));
    command.arg(scenario).arg(directory);
    if let Some((when, which)) = kill {
        command.args([when, which]);
    }
    let output = command.output().unwrap();
    if output.status.signal() == Some(KILL) {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{kill:?}: {said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The same for the scenario of turns.
fn turns(directory: &Path, kill: Option<(&str, u64)>) -> Option<Outcome> {
    let kill = kill.map(|(moment, number)| (moment, number.to_string()));
    run("turns", directory, kill.as_ref().map(|(moment, number)| (*moment, number.as_str())))
}

pub(crate) fn check(outcome: &Outcome, when: &str) {
    let answers = ["the first answer is one", "the second answer is two", "the third answer is three"];
    let expected: Vec<(String, End)> = answers.map(|text| (text.to_owned(), End::Answered)).into();
    assert_eq!(outcome.answers, expected, "{when}");
    assert_eq!(outcome.turns, (2, 3), "{when}");
    assert_eq!(outcome.open, 0, "{when}");
    assert!(outcome.effects <= 1, "{when}: the effect happened {} times", outcome.effects);
    assert!(outcome.is_sound, "{when}");
}

#[test]
fn a_process_killed_at_any_commit_goes_on_to_the_same_end() {
    let mut number = 1;
    let mut kills = 0;
    loop {
        let mut was_killed = false;
        for moment in ["before", "after"] {
            let directory = tempfile::tempdir().unwrap();
            let when = format!("killed {moment} commit {number}");
            let outcome = match turns(directory.path(), Some((moment, number))) {
                Some(outcome) => outcome,
                None => {
                    (was_killed, kills) = (true, kills + 1);
                    turns(directory.path(), None).expect("nobody kills it now")
                }
            };
            check(&outcome, &when);
            assert!(outcome.cut <= 1, "{when}: at most one request was cut off, not {}", outcome.cut);
        }
        if !was_killed {
            break;
        }
        number += 1;
    }
    println!("{kills} kills at {} commits", number - 1);
    assert!(number > 10, "the scenario has more than ten commits");
}

#[test]
fn a_process_killed_again_and_again_gets_there() {
    // A life must be long enough for one response: the creation (repeated), the attempt before counted as cut off,
    // partial text, and the response itself. Shorter lives are for the scheduler to give up on.
    for step in [6, 8, 11] {
        let directory = tempfile::tempdir().unwrap();
        let mut kills = 0;
        let outcome = loop {
            match turns(directory.path(), Some(("after", step))) {
                Some(outcome) => break outcome,
                None => kills += 1,
            }
            assert!(kills < 200, "no progress is made in lives of {step} commits");
        };
        check(&outcome, &format!("{kills} lives of {step} commits"));
    }
}

#[tokio::test]
async fn the_scenario_comes_to_its_end_undisturbed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::new(everturn::kernel::Memory::new());
    let outcome = live(store, &directory.path().join("effects")).await.unwrap();
    check(&outcome, "undisturbed");
    assert_eq!((outcome.effects, outcome.cut), (1, 0));
}
