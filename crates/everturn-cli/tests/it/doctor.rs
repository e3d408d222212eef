//! `everturn doctor --verify`: a store damaged in many ways, each named, none mended.

use std::fs;

use crate::place::Place;

/// Ways to damage a store behind our back, and what has to be said of each.
const DAMAGES: [(&str, &str); 16] = [
    ("UPDATE entry SET body = replace(body, 'hello', 'jello') WHERE kind = 'et.user'", "table entry"),
    ("UPDATE task SET body = replace(body, 'et.turn', 'et.torn')", "table task"),
    ("UPDATE submission SET body = replace(body, 'answered', 'cancelled')", "table submission"),
    ("UPDATE usage SET body = replace(body, 'demo', 'demi')", "table usage"),
    ("UPDATE conversation SET body = replace(body, '1', '2')", "table conversation"),
    ("UPDATE document SET record = replace(record, 'et.agent', 'et.urgent')", "table document"),
    ("UPDATE revision SET body = replace(body, 'demo', 'demi')", "table revision"),
    ("DELETE FROM conversation", "conversation 1: the root is not there"),
    ("DELETE FROM task", "task "),
    ("DELETE FROM entry WHERE kind = 'et.user'", "its entry, "),
    ("UPDATE session SET head = 1", "is beyond the session's last, 1"),
    ("UPDATE session SET minted = 1", "is beyond the greatest that was given out, 1"),
    ("UPDATE entry SET seq = 1 WHERE kind = 'et.turn'", "its commit, 1, is before that of entry"),
    (
        "INSERT INTO usage (sid, seq, crc, body) SELECT sid, seq, crc, body FROM usage",
        "the request is there twice",
    ),
    ("DELETE FROM usage", "and the ledger"),
    ("UPDATE entry SET conversation = 77 WHERE kind = 'et.assistant'", "its conversation, 77, is not there"),
];

#[test]
fn every_damage_is_named_and_nothing_is_mended() {
    let whole = Place::new();
    whole.run(&["run", "hello"]).well();
    assert!(whole.run(&["doctor", "--verify"]).well().contains("everything agrees with itself"));
    for (damage, says) in DAMAGES {
        let place = Place::new();
        fs::create_dir(place.path().join(".everturn")).unwrap();
        let store = place.path().join(".everturn/store.db");
        fs::copy(whole.path().join(".everturn/store.db"), &store).unwrap();
        let database = rusqlite::Connection::open(&store).unwrap();
        database.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE").unwrap();
        assert!(database.execute(damage, []).unwrap() > 0, "{damage} damages something");
        drop(database);
        let ran = place.run(&["doctor", "--verify"]);
        assert_eq!(ran.code, Some(4), "{damage}: {ran:?}");
        assert!(ran.out.contains(says), "{damage}: {says:?} is not in {ran:?}");
        let again = place.run(&["doctor", "--verify"]);
        assert_eq!(again.out, ran.out, "{damage}: looking mends nothing");
    }
}

#[test]
fn a_store_is_described_without_reading_it_all() {
    let place = Place::new();
    place.run(&["doctor"]).refused(3, "there is no such file");
    place.run(&["run", "hello"]).well();
    let said = place.run(&["doctor"]).well();
    assert!(said.contains("1 sessions") && said.contains("--verify"), "{said}");
}
