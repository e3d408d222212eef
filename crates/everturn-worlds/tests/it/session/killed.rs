//! The same on a file, with real processes and SIGKILL; and the example of a live session, which kills itself.

use std::{path::Path, process::Command};

use everturn_worlds::session::Outcome;

use super::check_against;
use crate::killed::run;

/// Every so many commits a process is killed.
const EVERY: usize = 6;

fn life(directory: &Path, kill: Option<(&str, usize)>) -> Option<Outcome> {
    let kill = kill.map(|(moment, number)| (moment, number.to_string()));
    run("session", directory, kill.as_ref().map(|(moment, number)| (*moment, number.as_str())))
}

#[test]
fn a_session_whose_process_is_killed_comes_to_the_same_end() {
    let directory = tempfile::tempdir().unwrap();
    let expected = life(directory.path(), None).expect("nobody kills it");
    let mut kills = 0;
    for number in (1..).step_by(EVERY) {
        let moment = if kills % 2 == 0 { "before" } else { "after" };
        let directory = tempfile::tempdir().unwrap();
        if life(directory.path(), Some((moment, number))).is_some() {
            break;
        }
        kills += 1;
        let outcome = life(directory.path(), None).expect("nobody kills it now");
        check_against(&outcome, &expected, &format!("killed {moment} commit {number}"));
    }
    println!("{kills} kills of a session");
    assert!(kills > 8, "{kills} kills");
}

/// What the example says last; none when it was killed.
fn example(directory: &Path, kill_at: Option<usize>) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_b_session_live"));
    if let Some(number) = kill_at {
        command.args(["--kill-at", &number.to_string()]);
    }
    let output = command.arg(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Some(said.lines().last().unwrap().to_owned()),
        Some(_) => panic!("{kill_at:?}: {}", String::from_utf8_lossy(&output.stderr)),
        None => None,
    }
}

#[test]
fn the_example_of_a_live_session_killed_at_any_commit_comes_to_the_same_end() {
    let directory = tempfile::tempdir().unwrap();
    let expected = example(directory.path(), None).expect("nobody kills it");
    for number in 1.. {
        let directory = tempfile::tempdir().unwrap();
        if example(directory.path(), Some(number)).is_some() {
            println!("{} kills of the example", number - 1);
            assert!(number > 20, "it has more than twenty commits");
            return;
        }
        let said = example(directory.path(), None).expect("nobody kills it now");
        assert_eq!(said, expected, "killed at commit {number}");
    }
}
