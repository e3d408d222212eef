//! Asking, going on, looking back.

use serde_json::Value;

use crate::place::Place;

const QUESTION: &str = "which function under src returns the largest number?";

#[test]
fn a_question_about_files_is_answered_on_standard_output() {
    let place = Place::new();
    let ran = place.run(&["run", QUESTION]);
    assert!(ran.err.contains("it is no language model"), "{ran:?}");
    let answer = ran.well();
    assert!(
        answer.contains("`large`") && answer.contains("7000") && answer.contains("src/large.rs"),
        "{answer}"
    );
}

#[test]
fn a_session_goes_on_and_is_shown() {
    let place = Place::new();
    place.run(&["run", QUESTION]).well();
    let first = place.run(&["run", "--continue", "what was my first question?"]).well();
    assert!(first.to_lowercase().contains("largest number"), "{first}");
    let id = place.newest();
    place.run(&["run", "--session", &id, "hello"]).well();
    let shown = place.run(&["show", &id]).well();
    for part in [QUESTION, "what was my first question?", "hello", "· read", "answered: "] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert_eq!(place.run(&["sessions"]).well().lines().count(), 1);
}

// An answer that a full disk did not take was lost, and the exit code said that all was well.
// Guards: what was asked for and could not be written is no success.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let id = place.newest();
    for arguments in
        [&["run", "--session", &id, "hello"][..], &["run", "--json", "hello"], &["show", &id], &["sessions"]]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(arguments).stdout(full).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(6), "{arguments:?}: {error}");
        assert!(error.contains("write to standard output"), "{error}");
    }
    assert!(place.run(&["show", &id]).well().contains("hello"), "it was stored all the same");
}

#[test]
fn events_come_as_json_lines() {
    let place = Place::new();
    let out = place.run(&["run", "--json", QUESTION]).well();
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("session", "answer"));
    for kind in
        ["turn_started", "request_started", "call_proposed", "call_ended", "text", "usage", "turn_ended"]
    {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    let steps = events.last().unwrap()["steps"].as_u64().unwrap();
    let of_last = events.iter().filter(|event| event["type"] == "text" && event["step"] == steps);
    let text: String = of_last.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(text, events.last().unwrap()["text"].as_str().unwrap(), "joined deltas are the answer");
    let seqs: Vec<u64> = events
        .iter()
        .filter_map(|event| event["cursor"].as_str()?.rsplit(':').next()?.parse().ok())
        .collect();
    assert!(seqs.is_sorted(), "cursors never go back: {seqs:?}");
}

#[test]
fn standard_input_is_put_behind_the_prompt() {
    let place = Place::new();
    place.write("input.txt", "the text of the input");
    let mut command = place.command(&["run", "hello"]);
    command.stdin(std::fs::File::open(place.path().join("input.txt")).unwrap());
    crate::place::ran(command).well();
    assert!(place.run(&["show", &place.newest()]).well().contains("the text of the input"));
}

#[test]
fn control_sequences_of_files_never_reach_the_terminal() {
    let place = Place::new();
    place.write("evil.txt", "before \u{1b}]0;title\u{7}\u{1b}[2J after\n");
    let answer = place.run(&["run", "show evil.txt"]).well();
    assert!(answer.contains("before") && answer.contains("after"), "{answer}");
    assert!(!answer.contains('\u{1b}') && !answer.contains('\u{7}'), "{answer:?}");
}

#[test]
fn the_demo_proves_what_it_promises() {
    let place = Place::new();
    let out = place.run(&["demo"]).well();
    assert!(out.contains("signal: 9") && !out.contains("BROKEN"), "{out}");
}

#[cfg(unix)]
#[test]
fn the_store_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    for (path, mode) in [(".everturn", 0o700), (".everturn/store.db", 0o600)] {
        let found = std::fs::metadata(place.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path} has mode {found:o}");
    }
}
