//! What is asked of a session: that nobody runs, that another process runs, that is not there.

use serde_json::json;

use everturn::{
    Harness, World,
    id::SessionId,
    store::{self, Options},
};

use crate::{
    kill::signal_after,
    place::Place,
    script::{Running, Script, results},
};

const NOBODY: &str = "0198c0de-0000-7000-8000-000000000000";

/// A session that has answered once.
fn answered() -> (Place, String) {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let id = place.newest();
    (place, id)
}

#[test]
fn a_turn_of_another_process_is_steered() {
    let (place, script) = (Place::new(), Script::new());
    let first = Running::start(&place, &["run", "read it", "--model", &script.model]);
    script.asked();
    let id = place.newest();
    let told = place.run(&["steer", &id, "in French, please", "--key", "french"]).well();
    assert!(told.starts_with("french: it waits for the next request of the turn that runs"), "{told}");
    script.calls(&[("read", json!({"path": "src/small.rs"}))]);
    let request = script.asked();
    assert!(request.to_string().contains("in French, please"), "{request}");
    let again = place.run(&["steer", &id, "in French, please", "--key", "french"]).well();
    assert!(again.contains("has it before its request 2"), "{again}");
    script.says("sept");
    assert_eq!(first.ended().well(), "sept\n");
    let again = place.run(&["steer", &id, "in French, please", "--key", "french"]).well();
    assert!(again.contains("that turn was answered"), "{again}");
}

#[test]
fn a_steer_without_a_turn_begins_one_that_nobody_runs_yet() {
    let (place, id) = answered();
    let told = place.run(&["steer", &id, "how many files are under src?", "--key", "count"]).well();
    assert!(told.contains("no turn ran, so it begins turn"), "{told}");
    assert!(told.contains(&format!("`everturn resume {id}` goes on")), "{told}");
    let again = place.run(&["steer", &id, "how many files are under src?", "--key", "count"]).well();
    assert_eq!(again, told, "twice is once, and neither runs anything");
    assert!(place.run(&["resume", &id]).well().contains("I count 2 files"));
    place.run(&["steer", &id, "x", "--late", "return"]).refused(1, "no turn runs that it could steer");
    place.run(&["steer", &id, " "]).refused(2, "the text is empty");
    assert_eq!(place.run(&["show", &id]).well().matches("answered: ").count(), 2);
}

#[test]
fn an_aborted_turn_ends_here_and_in_another_process() {
    let (place, script) = (Place::new(), Script::new());
    let first = Running::start(&place, &["run", "go", "--model", &script.model]);
    script.asked();
    let id = place.newest();
    let told = place.run(&["abort", &id]).well();
    assert!(told.starts_with("conversation 1 is aborted"), "{told}");
    first.ended().refused(130, "cancelled");

    let place = Place::new();
    assert!(signal_after(&place, 3, rustix::process::Signal::TERM));
    let id = place.newest();
    assert_eq!(place.run(&["abort", &id]).well(), "conversation 1 is aborted\n");
    assert!(
        place.run(&["show", &id]).well().contains("cancelled (the conversation was aborted)"),
        "it ended where nobody ran it"
    );
    assert!(place.run(&["resume", &id]).err.contains("nothing in session"));
}

#[test]
fn files_are_restored_here_and_by_another_process() {
    let (place, script) = (Place::new(), Script::new());
    let before = std::fs::read_to_string(place.path().join("src/small.rs")).unwrap();
    let change = |session: &[&str]| {
        let allowed = ["--allow", "write(src/**)", "--model", &script.model];
        let first = Running::start(&place, &[&["run", "change it"], session, &allowed].concat());
        script.asked();
        script.calls(&[("write", json!({"path": "src/small.rs", "content": "changed"}))]);
        let request = script.asked();
        assert!(results(&request).last().unwrap().contains("replaced"), "{request}");
        script.says("done");
        first.ended().well();
        let all = place.run(&["tasks", "--all", "--json"]).well();
        let turns = all.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let turn = turns.rev().find(|task| task["kind"] == "et.turn").unwrap();
        turn["task"].to_string()
    };
    let turn = change(&[]);
    let id = place.newest();
    let told = place.run(&["undo", &id, &turn]).well();
    assert_eq!(told, format!("restored as before turn {turn}: src/small.rs\n"));
    assert_eq!(std::fs::read_to_string(place.path().join("src/small.rs")).unwrap(), before);

    let turn = change(&["--session", &id]);
    place.write("src/small.rs", "by hand");
    place.run(&["undo", &id, &turn]).refused(1, "changed since: src/small.rs");
    place.write("src/small.rs", "changed");
    let mut chat = chat(&place, &id);
    let told = place.run(&["undo", &id, &turn]).well();
    assert_eq!(told, format!("restored as before turn {turn}: src/small.rs\n"));
    assert_eq!(std::fs::read_to_string(place.path().join("src/small.rs")).unwrap(), before);
    drop(chat.child.stdin.take());
    chat.ended().well();
    place.run(&["undo", &id, "9999"]).refused(3, "no such turn has ended");
}

/// A chat that has the session open, and waits for a line.
fn chat(place: &Place, id: &str) -> Running {
    let mut chat = Running::piped(place, &["chat", "--session", id]);
    while !chat.out.next().unwrap().unwrap().contains(id) {}
    chat
}

#[test]
fn a_conversation_is_forked_reset_and_made_shorter() {
    let (place, id) = answered();
    let fork = place.run(&["fork", &id]).well();
    let fork = fork.trim();
    place.run(&["steer", &id, "how many files are under src?", "--conversation", fork]).well();
    assert!(place.run(&["resume", &id]).well().contains("I count 2 files"));
    assert!(!place.run(&["show", &id]).well().contains("I count"), "the root is as it was");
    place.run(&["fork", &id, "--at", "9999"]).refused(2, "9999");
    place.run(&["fork", &id, "--model", "nope/x"]).refused(3, "no provider nope");
    place.run(&["compact", &id]).refused(1, "as short as it can be");
    assert!(
        place.run(&["reset", &id, "it was about files"]).well().starts_with("conversation 1 begins anew")
    );
    let asked = place.run(&["run", "--session", &id, "what was my first question?"]).well();
    assert!(!asked.contains("hello"), "{asked}");

    let mut chat = chat(&place, &id);
    assert!(place.run(&["reset", &id]).well().starts_with("conversation 1 begins anew"));
    assert!(place.run(&["fork", &id]).well().trim().parse::<u64>().is_ok());
    place.run(&["compact", &id]).refused(1, "as short as it can be");
    drop(chat.child.stdin.take());
    chat.ended().well();
    assert!(place.run(&["doctor", "--verify"]).well().contains("everything agrees"));
}

#[test]
fn a_chat_runs_what_is_said_to_it_from_elsewhere() {
    let (place, id) = answered();
    let mut chat = chat(&place, &id);
    let told = place.run(&["steer", &id, "how many files are under src?"]).well();
    assert!(told.contains("it begins turn") && told.contains("where the session runs"), "{told}");
    let answer = chat.out.by_ref().map(Result::unwrap).find(|line| line.contains("I count 2 files"));
    assert!(answer.is_some());
    drop(chat.child.stdin.take());
    chat.ended().well();
}

#[tokio::test]
async fn what_nobody_takes_waits_under_its_key() {
    let (place, id) = answered();
    let url = format!("sqlite:{}", place.path().join(".everturn/store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await.unwrap();
    let harness = Harness::builder(store).open().await.unwrap();
    let session = harness.open_session(id.parse::<SessionId>().unwrap()).await.unwrap();
    // Open, and not running: it takes no mail.
    let told = place.run(&["steer", &id, "how many files are under src?", "--key", "k"]).well();
    assert!(told.contains("it waits, under the key submit 1 k"), "{told}");
    session.close().await.unwrap();
    assert!(place.run(&["resume", &id]).well().contains("I count 2 files"));
}

#[test]
fn a_session_or_a_part_of_it_that_is_not_there_is_not_found() {
    let (place, id) = answered();
    for arguments in [
        &["steer", NOBODY, "x"][..],
        &["approvals", NOBODY],
        &["approve", NOBODY],
        &["deny", NOBODY, "--reason", "x"],
        &["abort", NOBODY],
        &["fork", NOBODY],
        &["undo", NOBODY, "3"],
        &["compact", NOBODY],
        &["reset", NOBODY],
    ] {
        place.run(arguments).refused(3, NOBODY);
    }
    place.run(&["approve", &id, "77"]).refused(3, "approval 77");
    for command in ["fork", "reset", "compact"] {
        place.run(&[command, &id, "--conversation", "99"]).refused(3, "conversation 99");
    }
    place.run(&["steer", &id, "x", "--conversation", "99"]).refused(3, "conversation 99");
    place.run(&["undo", &id, "x"]).refused(2, "not a number");
    place.run(&["deny", &id]).refused(2, "--reason");
    place.run(&["approve", &id, "--session", "--answer", "x"]).refused(2, "cannot be used with");
    place.run(&["steer", "nonsense", "x"]).refused(2, "32 hexadecimal digits");
}
