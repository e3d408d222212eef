//! What `run` and the configuration are told about a turn: rules, budgets, schemas.

use serde_json::json;

use crate::{
    place::Place,
    script::{Running, Script, results},
};

#[test]
fn a_structured_answer_is_the_value_and_nothing_else() {
    let (place, script) = (Place::new(), Script::new());
    place.write(
        "schema.json",
        r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#,
    );
    let arguments = ["run", "count", "--output-schema", "schema.json", "--model", &script.model];
    let first = Running::start(&place, &arguments);
    script.asked();
    script.says("It is many.");
    script.asked();
    script.says(r#"{"n": 5}"#);
    assert_eq!(first.ended().well(), "{\"n\": 5}\n", "what did not fit was asked again");
    place.run(&["run", "x", "--output-schema", "nowhere.json"]).refused(2, "nowhere.json");
    place.write("schema.json", "5");
    place.run(&["run", "x", "--output-schema", "schema.json"]).refused(2, "no JSON object");
}

// The value went through what cleans text for terminals: characters that JSON may hold as they are were taken out of it.
// Guards: a program reads exactly what the model gave.
#[test]
fn a_structured_answer_is_printed_as_it_is_where_no_terminal_reads_it() {
    let (place, script) = (Place::new(), Script::new());
    place.write("schema.json", r#"{"type": "object"}"#);
    let arguments = ["run", "go", "--output-schema", "schema.json", "--model", &script.model];
    let first = Running::start(&place, &arguments);
    script.asked();
    let escaped = r#""escaped": "\u001b[31m \ud83d\ude00", "looks": "\\ud83d \\u001b""#;
    let value = format!("{{{escaped},\t\"raw\": \"a\u{7f}b\u{9b}c\u{202e}d\"}}");
    script.says(&value);
    assert_eq!(first.ended().well(), format!("{value}\n"));
}

#[test]
fn a_budget_that_is_used_up_fails_the_turn() {
    let (place, script) = (Place::new(), Script::new());
    let first = Running::start(&place, &["run", "go", "--budget", "steps=1", "--model", &script.model]);
    script.asked();
    script.calls(&[("read", json!({"path": "src/small.rs"}))]);
    first.ended().refused(1, "out_of_budget");
    place.run(&["run", "go", "--budget", "step=1"]).refused(2, "they are steps");
}

#[test]
fn rules_of_files_and_arguments_are_gone_by() {
    let (place, script) = (Place::new(), Script::new());
    place.write("home/.config/everturn/everturn.toml", "[policy]\nrules = [\"allow write(*.txt)\"]\n");
    place.write("everturn.toml", "[policy]\nrules = [\"deny write(a.txt)\", \"allow write(c.rs)\"]\n");
    let arguments = ["run", "go", "--deny", "write(d.txt)", "--model", &script.model];
    let first = Running::start(&place, &arguments);
    script.asked();
    let write = |path: &str| ("write", json!({"path": path, "content": "x"}));
    script.calls(&[write("a.txt"), write("b.txt"), write("c.rs"), write("d.txt")]);
    let results = results(&script.asked());
    for (result, says) in results.iter().zip([
        "deny write(a.txt)",
        "created",
        // A project's file only tightens.
        "Refused by policy",
        "deny write(d.txt)",
    ]) {
        assert!(result.contains(says), "{says:?} is not in {result}");
    }
    script.says("done");
    first.ended().well();

    let shown = place.run(&["config", "show", "--origin"]).well();
    for part in [
        "policy.rules, user layer: allow write(*.txt)  # ",
        "policy.rules, project layer: deny write(a.txt)  # ",
        "allow write(c.rs) (does not count: a project's file cannot allow)",
        "model = demo  # default",
        "home/.config/everturn/everturn.toml\n",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(!place.run(&["config", "show"]).well().contains('#'));
}

#[test]
fn a_wrong_rule_names_its_file_and_itself() {
    let place = Place::new();
    place.write("everturn.toml", "[policy]\nrules = [\"deny fly(home)\"]\n");
    let ran = place.run(&["run", "x"]);
    ran.refused(2, "deny fly(home)");
    ran.refused(2, "everturn.toml");
    place.write("everturn.toml", "");
    place.run(&["run", "x", "--allow", "fly(home)"]).refused(2, "allow fly(home)");
    place.run(&["chat", "--deny", "write("]).refused(2, "deny write(");
}

#[test]
fn models_are_listed_with_their_sources_and_own_rows_go_first() {
    let place = Place::new();
    let listed = place.run(&["models"]).well();
    assert!(
        listed.contains("anthropic/claude-opus-5  window 1000000, answer 128000, $5 in, $25 out"),
        "{listed}"
    );
    assert!(listed.lines().all(|line| line.contains(", 2026-")), "each has a date: {listed}");

    let directory = place.path().join("home/.config/everturn");
    std::fs::create_dir_all(&directory).unwrap();
    let own =
        r#"[{"provider":"anthropic","model":"claude-opus-5","window":7,"source":"us","date":"2026-11-30"}]"#;
    std::fs::write(directory.join("models.json"), own).unwrap();
    let listed = place.run(&["models"]).well();
    assert!(
        listed.starts_with("anthropic/claude-opus-5  window 7, answer ?, price unknown  (us, 2026-11-30)"),
        "{listed}"
    );
    assert_eq!(listed.matches("anthropic/claude-opus-5 ").count(), 1, "{listed}");

    std::fs::write(directory.join("models.json"), own.replace("\"window\"", "\"windows\"")).unwrap();
    place.run(&["models"]).refused(2, "unknown field `windows`");
}
