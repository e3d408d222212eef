//! Killed while it runs, and resumed by its id.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

const QUESTION: &str = "which function under src returns the largest number?";

/// Starts a question and gives it a signal behind its `lines`-th line of events; false when it ended before.
pub(crate) fn signal_after(place: &Place, lines: usize, signal: Signal) -> bool {
    let mut command = place.command(&["run", "--json", QUESTION]);
    let mut child: Child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..lines {
        if events.next().is_none() {
            child.wait().unwrap();
            return false;
        }
    }
    // The process may have ended just now: then there is nobody to signal.
    let _ = kill_process(Pid::from_child(&child), signal);
    // What it still says is read, so that a full pipe keeps it from nothing.
    events.for_each(drop);
    child.wait().unwrap();
    true
}

#[test]
fn a_question_killed_behind_any_event_is_answered_by_resume() {
    // Every third event: the steps between have the same kinds.
    for lines in (1..).step_by(3) {
        let place = Place::new();
        if !signal_after(&place, lines, Signal::KILL) {
            assert!(lines > 10, "the question has more than ten events");
            break;
        }
        let id = place.newest();
        let resumed = place.run(&["resume", &id]).well();
        let shown = place.run(&["show", &id]).well();
        let answer = "`large` returns the largest number: 7000";
        assert!(
            resumed.contains(answer) || shown.contains(answer),
            "behind event {lines}: {resumed}\n{shown}"
        );
        assert_eq!(shown.matches("answered: ").count(), 1, "behind event {lines}: answered once\n{shown}");
    }
}

#[test]
fn a_question_that_is_told_to_end_goes_on_later() {
    let place = Place::new();
    assert!(signal_after(&place, 3, Signal::TERM));
    let id = place.newest();
    let shown = place.run(&["show", &id]).well();
    assert!(shown.contains("goes on"), "{shown}");
    assert!(place.run(&["resume", &id]).well().contains("7000"));
}

#[test]
fn a_question_that_is_interrupted_is_cancelled() {
    let place = Place::new();
    assert!(signal_after(&place, 3, Signal::INT));
    let id = place.newest();
    let shown = place.run(&["show", &id]).well();
    assert!(shown.contains("cancelled: "), "{shown}");
    assert_eq!(place.run(&["resume", &id]).code, Some(0), "there is nothing left to do");
}
