//! What is asked while a turn runs, and answered from elsewhere.

use serde_json::{Value, json};

use crate::{
    place::Place,
    script::{Running, Script, results},
};

const WAITS: &str = "it waits for a decision";
const EVIL: &str = "one\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}two\n";

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({"path": path, "content": content}))
}

fn open(place: &Place) -> Vec<Value> {
    let listed = place.run(&["approvals", "--json"]).well();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A turn of another process that waits for what it has called.
fn asking(place: &Place, script: &Script, calls: &[(&str, Value)]) -> Running {
    let mut first = Running::start(place, &["run", "--ask", "go", "--model", &script.model]);
    script.asked();
    script.calls(calls);
    for _ in calls {
        first.told(WAITS);
    }
    first
}

fn read(path: &str) -> (&'static str, Value) {
    ("read", json!({"path": path}))
}

#[test]
fn approvals_are_answered_out_of_order_from_another_process() {
    let (place, script) = (Place::new(), Script::new());
    // A project may tighten.
    place.write("everturn.toml", "[policy]\nrules = [\"ask read(src/**)\"]\n");
    let first = asking(&place, &script, &[read("src/small.rs"), read("src/large.rs")]);
    let id = place.newest();
    let listed = open(&place);
    let (small, large) = (listed[0]["approval"].to_string(), listed[1]["approval"].to_string());
    assert_eq!(listed[0]["acts"], json!([{"read": "src/small.rs"}]));
    assert_eq!((&listed[0]["session"], &listed[0]["kind"]), (&json!(id), &json!("call")));
    assert_eq!((&listed[0]["rule"], &listed[0]["layer"]), (&json!("ask read(src/**)"), &json!("project")));

    let several = place.run(&["approve", &id]);
    several.refused(2, "2 questions are open");
    several.refused(2, &format!("{large}  may read run? read(src/large.rs)"));
    let allowed = place.run(&["approve", &id, &large]).well();
    assert!(allowed.contains("allowed; it goes on where the session runs"), "{allowed}");
    let denied = place.run(&["deny", &id, "--reason", "not that one"]).well();
    assert!(denied.contains(&format!("approval {small}: denied: not that one")), "now one is left: {denied}");

    let results = results(&script.asked());
    assert!(results[0].contains("Declined by local: not that one"), "{results:?}");
    assert!(results[1].contains("7_000"), "{results:?}");
    place.run(&["approve", &id, &small]).refused(1, "local has decided it: denied: ");
    script.says("done");
    assert_eq!(first.ended().well(), "done\n");
    let none = place.run(&["approvals", &id]);
    assert!(none.out.is_empty() && none.err.contains("nothing waits"), "{none:?}");
    place.run(&["approve", &id]).refused(3, "nothing waits");
}

#[test]
fn what_would_happen_is_shown_and_nothing_of_it_reaches_the_terminal_as_it_stands() {
    let (place, script) = (Place::new(), Script::new());
    let argv = ("exec", json!({"argv": ["echo", EVIL]}));
    let first = asking(&place, &script, &[write("src/small.rs", EVIL)]);
    let id = place.newest();
    let is_raw = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    let shown = place.run(&["approvals", &id]).well();
    for part in
        ["may write run? write(src/small.rs)", "-    7", "because: no rule allows write(src/small.rs)"]
    {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(!shown.contains(is_raw), "{shown:?}");
    assert!(open(&place)[0]["diff"].as_str().unwrap().contains("-    7"));
    place.run(&["deny", &id, "--reason", EVIL]).well();
    script.asked();
    script.calls(&[argv]);
    let mut first = first;
    let told = first.told(WAITS);
    assert!(!told.contains(is_raw), "{told:?}");
    let listed = place.run(&["approvals", "--json"]).well();
    assert!(!listed.contains(|c: char| c.is_control() && c != '\n'), "{listed:?}");
    assert_eq!(open(&place)[0]["argv"], json!(["echo", EVIL]));
    let shown = place.run(&["approvals"]).well();
    assert!(shown.contains("exec(echo one") && !shown.contains(is_raw), "{shown:?}");
    place.run(&["deny", &id, "--reason", "no"]).well();
    script.asked();
    script.says("done");
    first.ended().well();
}

#[test]
fn what_a_killed_process_had_asked_is_answered_and_goes_on() {
    let (place, script) = (Place::new(), Script::new());
    asking(&place, &script, &[write("b.txt", "b")]).kill();
    let id = place.newest();
    let approval = open(&place)[0]["approval"].to_string();
    place.run(&["resume", &id]).refused(7, &format!("everturn approve {id} {approval}"));
    place.run(&["approve", &id, "--answer", "yes"]).refused(2, "or deny it with --reason");
    place.run(&["approve", &id, "--edit", "{\"path\": 5}"]).refused(2, "path");

    let allowed = place.run(&["approve", &id]).well();
    assert!(allowed.contains(&format!("`everturn resume {id}` goes on")), "{allowed}");
    assert!(!place.path().join("b.txt").exists(), "deciding runs nothing");
    place.run(&["approve", &id, &approval]).refused(1, "local has decided it: allowed");

    let resumed = Running::start(&place, &["resume", &id]);
    let results = results(&script.asked());
    assert!(results[0].contains("created"), "{results:?}");
    script.says("done");
    assert_eq!(resumed.ended().well(), "done\n");
    assert!(place.path().join("b.txt").exists());
    assert!(place.run(&["doctor", "--verify"]).well().contains("everything agrees"));
}

#[test]
fn other_arguments_are_allowed_and_its_like_for_the_session() {
    let (place, script) = (Place::new(), Script::new());
    let mut first = asking(&place, &script, &[write("a.txt", "a")]);
    let id = place.newest();
    place.run(&["approve", &id, "--edit", r#"{"path": "c.txt", "content": "c"}"#]).well();
    script.asked();
    assert!(place.path().join("c.txt").exists() && !place.path().join("a.txt").exists());
    script.calls(&[write("b.txt", "b")]);
    first.told(WAITS);
    place.run(&["approve", &id, "--session"]).well();
    script.asked();
    script.calls(&[write("b.txt", "more")]);
    let results = results(&script.asked());
    assert!(results.last().unwrap().contains("replaced"), "it is not asked about again: {results:?}");
    script.says("done");
    first.ended().well();
}

#[test]
fn a_question_to_the_person_is_answered_from_another_process() {
    let (place, script) = (Place::new(), Script::new());
    let question = json!({"question": "which \u{1b}[31mcolour?", "choices": ["red", "blue"]});
    let first = asking(&place, &script, &[("ask", question)]);
    let id = place.newest();
    let shown = place.run(&["approvals"]).well();
    assert!(
        shown.contains("which colour?") && shown.contains("2. blue") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    place.run(&["approve", &id]).refused(2, "--answer TEXT");
    place.run(&["approve", &id, "--answer", "blue"]).well();
    let results = results(&script.asked());
    assert!(results[0].contains("blue"), "{results:?}");
    script.says("blue it is");
    assert_eq!(first.ended().well(), "blue it is\n");
}

#[test]
fn where_nobody_can_be_asked_what_would_be_asked_is_refused() {
    let (place, script) = (Place::new(), Script::new());
    let first = Running::start(&place, &["run", "go", "--model", &script.model]);
    script.asked();
    script.calls(&[
        write("b.txt", "b"),
        ("ask", json!({"question": "may I?"})),
        ("agent", json!({"prompt": "x"})),
    ]);
    let results = results(&script.asked());
    assert!(
        results[0].contains("Refused by policy") && results[0].contains("nobody can be asked"),
        "{results:?}"
    );
    assert!(results[1].contains("nobody can be asked here"), "{results:?}");
    assert!(results[2].contains("Refused by policy: no rule allows spawn(agent)"), "{results:?}");
    script.says("then not");
    assert_eq!(first.ended().well(), "then not\n");
    assert!(!place.path().join("b.txt").exists() && open(&place).is_empty());
}

#[test]
fn a_steer_that_declines_answers_what_is_asked() {
    let (place, script) = (Place::new(), Script::new());
    let first = asking(&place, &script, &[write("b.txt", "b")]);
    let id = place.newest();
    place.run(&["steer", &id, "write nothing", "--declining"]).well();
    let request = script.asked();
    assert!(results(&request)[0].contains("Declined by local: write nothing"), "{request}");
    script.says("done");
    first.ended().well();
}

// Approved from elsewhere while its process was gone, a call was refused after all by the next `run`, for want of anyone to ask.
#[test]
fn what_a_rule_of_resume_allows_goes_on_without_being_asked_again() {
    let (place, script) = (Place::new(), Script::new());
    asking(&place, &script, &[write("b.txt", "b")]).kill();
    let id = place.newest();
    place.run(&["resume", &id, "--allow", "write(other/**)"]).refused(7, "everturn approve");
    let resumed = Running::start(&place, &["resume", &id, "--allow", "write(**)"]);
    let results = results(&script.asked());
    assert!(results[0].contains("created"), "{results:?}");
    script.says("done");
    assert_eq!(resumed.ended().well(), "done\n");
    assert_eq!(open(&place), Vec::<Value>::new());
}

// Guards: a decision that was made stands, whoever goes on.
#[test]
fn what_was_approved_runs_also_where_nobody_can_be_asked() {
    let (place, script) = (Place::new(), Script::new());
    asking(&place, &script, &[write("b.txt", "b")]).kill();
    let id = place.newest();
    place.run(&["approve", &id]).well();
    assert!(!place.path().join("b.txt").exists(), "deciding runs nothing");

    let next = Running::start(&place, &["run", "--session", &id, "and then?", "--model", &script.model]);
    let results = results(&script.asked());
    assert!(results[0].contains("created"), "{results:?}");
    script.says("b is there");
    script.asked();
    script.says("nothing more");
    assert_eq!(next.ended().well(), "nothing more\n");
    assert!(place.path().join("b.txt").exists());
}
