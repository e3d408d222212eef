//! Bad input: each its own error with what to do, its exit code, and nothing touched.

use std::fs;

use crate::place::Place;

const NOBODY: &str = "0198c0de-0000-7000-8000-000000000000";

#[test]
fn an_unknown_session_is_not_found() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    for arguments in [&["show", NOBODY][..], &["resume", NOBODY], &["run", "--session", NOBODY, "x"]] {
        place.run(arguments).refused(3, NOBODY);
    }
    place.run(&["show", "nonsense"]).refused(2, "32 hexadecimal digits");
    assert_eq!(place.run(&["sessions"]).well().lines().count(), 1, "nothing was created on the way");
}

#[test]
fn a_store_that_is_not_there_is_not_created_by_looking() {
    let place = Place::new();
    for arguments in [&["sessions"][..], &["show", NOBODY], &["resume", NOBODY], &["run", "--continue", "x"]]
    {
        place.run(arguments).refused(3, "there is no such file");
    }
    assert!(!place.path().join(".everturn").exists());
}

#[test]
fn a_foreign_file_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let text = "no database at all\n".repeat(100);
    place.write("text.db", &text);
    let foreign = rusqlite::Connection::open(place.path().join("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE other (x)").unwrap();
    drop(foreign);
    let before = fs::read(place.path().join("foreign.db")).unwrap();
    for command in [&["sessions"][..], &["run", "x"]] {
        let with = |store: &'static str| [&["--store", store], command].concat();
        place.run(&with("text.db")).refused(4, "not a SQLite database");
        place.run(&with("foreign.db")).refused(4, "another application");
        place.run(&with("src")).refused(4, "src");
        place.run(&with("mongodb://x")).refused(4, "sqlite:PATH");
    }
    assert_eq!(fs::read_to_string(place.path().join("text.db")).unwrap(), text);
    assert_eq!(fs::read(place.path().join("foreign.db")).unwrap(), before);
}

#[test]
fn a_newer_store_is_not_opened() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let store = place.path().join(".everturn/store.db");
    let database = rusqlite::Connection::open(&store).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    place.run(&["sessions"]).refused(4, "newer");
    place.run(&["run", "x"]).refused(4, "newer");
}

#[test]
fn a_damaged_record_is_named() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let id = place.newest();
    let database = rusqlite::Connection::open(place.path().join(".everturn/store.db")).unwrap();
    database.execute("UPDATE entry SET body = replace(body, 'hello', 'jello')", []).unwrap();
    drop(database);
    let ran = place.run(&["show", &id]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains("entry"), "{ran:?}");
}

#[test]
fn a_root_that_is_none_is_refused() {
    let place = Place::new();
    place.run(&["--root", "nowhere", "run", "x"]).refused(2, "there is no such directory");
    place.run(&["--root", "src/small.rs", "run", "x"]).refused(2, "it is a file");
}

#[test]
fn a_broken_configuration_says_where() {
    let place = Place::new();
    for (text, says) in [
        ("modle = \"demo\"", "did you mean model?"),
        ("model = ", "line 1"),
        ("model = \"/x\"", "PROVIDER/MODEL"),
        ("store = \"x.db\"", "not in a project's"),
    ] {
        place.write("everturn.toml", text);
        place.run(&["run", "x"]).refused(2, says);
    }
    assert!(!place.path().join(".everturn").exists());
}

// A named pipe in a project's directory kept the command waiting for ever before it did anything.
// Guards: what is no file is not opened as one.
#[cfg(unix)]
#[test]
fn a_configuration_that_is_a_pipe_is_refused() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo").arg(place.path().join("everturn.toml")).status();
    assert!(made.unwrap().success());
    place.run(&["run", "x"]).refused(2, "it is not a regular file");
}

#[test]
fn a_model_that_is_not_there_fails_the_turn_and_loses_nothing() {
    let place = Place::new();
    place.run(&["run", "x", "--model", "nope/x"]).refused(2, "there is no provider nope");
    place.run(&["run", "x", "--model", "chat/x@http://127.0.0.1:9/v1"]).refused(1, "127.0.0.1:9");
    place.run(&["run", "x", "--model", "/x"]).refused(2, "PROVIDER/MODEL");
    assert_eq!(
        place.run(&["sessions"]).well().lines().count(),
        1,
        "the question that could be asked is kept"
    );
    place.run(&["run", "--continue", "hello", "--model", "demo"]).well();
}

#[test]
fn an_empty_prompt_is_refused() {
    let place = Place::new();
    place.run(&["run", "  "]).refused(2, "the prompt is empty");
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused_at_once() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let id = place.newest();
    let chat = place
        .command(&["chat", "--session", &id])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut chat = chat.unwrap();
    // The greeting names the session once it is open.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(chat.stdout.take().unwrap()));
    while !lines.next().unwrap().unwrap().contains(&id) {}
    place.run(&["run", "--session", &id, "x"]).refused(5, "owns it until");
    assert!(place.run(&["show", &id]).well().contains("hello"), "it can be read all the same");
    chat.kill().unwrap();
    chat.wait().unwrap();
    place.run(&["run", "--session", &id, "hello again"]).well();
}
