//! Keeping a store from the command line: labels, search, archives, ends, backups.

use std::fs;

use crate::place::Place;

fn asked(question: &str) -> (Place, String) {
    let place = Place::new();
    place.run(&["run", question]).well();
    let id = place.newest();
    (place, id)
}

#[test]
fn sessions_are_labelled_and_found_by_labels_and_words() {
    let (place, id) = asked("hello pump");
    place.run(&["run", "another thing"]).well();
    place.run(&["label", &id, "--title", "pumps", "team=north"]).well();
    let listed = place.run(&["sessions", "--label", "team=north"]).well();
    assert!(listed.contains(&id) && listed.contains("pumps") && listed.lines().count() == 1, "{listed}");
    let none = place.run(&["sessions", "--label", "team=south"]);
    assert!(none.out.is_empty() && none.err.contains("no session has these labels"), "{none:?}");
    let found = place.run(&["search", "PUMP"]).well();
    assert!(found.contains(&id) && found.contains("hello pump"), "{found}");
    place.run(&["search", "nowhere"]).refused(3, "no message has all of these words");
    place.run(&["search", "?!"]).refused(2, "there is no word in it");
    place.run(&["label", &id, "north"]).refused(2, "NAME=VALUE");
}

#[test]
fn a_session_goes_out_to_a_file_and_comes_back() {
    let (place, id) = asked("hello");
    let before = place.run(&["show", &id]).well();
    place.run(&["archive", &id, "out.jsonl", "--delete"]).well();
    place.run(&["show", &id]).refused(3, "it was deleted");
    place.run(&["archive", &id, "again.jsonl"]).refused(3, "it was deleted");
    assert!(!place.path().join("again.jsonl").exists(), "what is not written is not there");
    assert_eq!(place.run(&["restore", "out.jsonl"]).well().trim(), id);
    assert_eq!(place.run(&["show", &id]).well(), before);
    place.run(&["restore", "out.jsonl"]).refused(1, "the store has it");
    place.run(&["archive", &id, "out.jsonl", "--delete"]).refused(2, "write out.jsonl");
    assert_eq!(place.run(&["show", &id]).well(), before, "what is not in a file is not deleted");
    place.run(&["run", "--session", &id, "and on it goes"]).well();
    let text = fs::read_to_string(place.path().join("out.jsonl")).unwrap();
    place.write("changed.jsonl", &text.replacen("hello", "jello", 1));
    place.run(&["delete", &id, "--yes"]).well();
    place.run(&["restore", "changed.jsonl"]).refused(1, "it was changed");
    assert!(place.run(&["doctor", "--verify"]).well().contains("0 sessions"));
}

#[test]
fn what_is_taken_away_for_good_has_to_be_said_twice() {
    let (place, id) = asked("the key is topsecret1234");
    place.run(&["delete", &id]).refused(2, "--yes");
    let shown = place.run(&["show", &id, "--ids"]).well();
    let lines: Vec<_> = shown.lines().collect();
    let at = lines.iter().rposition(|line| line.contains("topsecret1234")).unwrap();
    let entry = lines[..at].iter().rev().find_map(|line| line.trim().strip_prefix("entry ")).unwrap();
    place.run(&["purge", &id, entry, "--yes"]).well();
    assert!(!place.run(&["show", &id]).well().contains("topsecret1234"));
    place.run(&["purge", &id, "9999", "--yes"]).refused(3, "entry 9999");
    assert!(place.run(&["doctor", "--verify"]).well().contains("everything agrees"));
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let (place, id) = asked("hello");
    place.run(&["backup", "copy.db"]).well();
    place.run(&["backup", "copy.db"]).refused(1, "copy.db");
    let listed = place.run(&["sessions", "--store", "copy.db"]).well();
    assert!(listed.contains(&id), "{listed}");
    place.run(&["run", "--store", "copy.db", "--session", &id, "go on in the copy"]).well();
    place.run(&["vacuum"]).well();
    assert!(place.run(&["doctor", "--verify"]).well().contains("everything agrees"));
}
