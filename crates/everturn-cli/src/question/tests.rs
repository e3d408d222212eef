//! What a person types, and what is shown of what others wrote.

use everturn::{
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    id::{ApprovalId, ConversationId, TaskId},
    json::RawJson,
    policy::{Act, Effect, Layer, Verdict},
};

use super::{age, lines, read};

fn call(argument: &str) -> Question {
    Question::Call {
        tool: "exec".into(),
        arguments: RawJson::of(&serde_json::json!({"argv": ["echo", argument]})).expect("JSON"),
        directory: Some("/work/\u{1b}[31m".into()),
        acts: vec![Act::Exec(vec!["echo".into(), argument.into()])],
        verdict: Verdict { effect: Effect::Ask, layer: Layer::User, rule: "ask exec(echo **)".into() },
        policy: String::new(),
        preview: Some(RawJson::of(&serde_json::json!({"diff": "-a\u{1b}[2J\n+b\n"})).expect("JSON")),
    }
}

fn person() -> Question {
    Question::Person { text: "Which?".into(), choices: vec!["red".into(), "blue".into()] }
}

fn unknown() -> Question {
    Question::Unknown { tool: "pay".into(), arguments: RawJson::empty() }
}

#[test]
fn what_is_typed_is_a_decision() {
    let deny = |reason: &str| Decision::Deny { reason: reason.into() };
    let answer = |text: &str| Decision::Answer { text: text.into() };
    for (question, line, decision) in [
        (call("x"), "y", Decision::Allow),
        (call("x"), " a ", Decision::AllowForSession),
        (call("x"), "n", deny("the person said no")),
        (call("x"), "n not on a Friday", deny("not on a Friday")),
        (call("x"), "e {\"a\":1}", Decision::Edit { arguments: RawJson::parse("{\"a\":1}").expect("JSON") }),
        (unknown(), "y it was paid", Decision::Happened { text: Some("it was paid".into()) }),
        (unknown(), "n", Decision::DidNotHappen),
        (unknown(), "s", Decision::Stop),
        (person(), "2", answer("blue")),
        (person(), "3", answer("3")),
        (person(), "yes and no", answer("yes and no")),
        (person(), "/no ask later", deny("ask later")),
    ] {
        assert_eq!(read(&question, line), Ok(decision), "{line:?}");
    }
    for (question, line) in
        [(call("x"), ""), (call("x"), "yes please"), (unknown(), "maybe"), (person(), " ")]
    {
        assert!(read(&question, line).is_err(), "{line:?} decides nothing");
    }
    assert!(read(&call("x"), "e {").is_err(), "broken JSON decides nothing");
}

#[test]
fn nothing_that_others_wrote_reaches_a_terminal_as_it_stands() {
    let record = ApprovalRecord {
        id: ApprovalId(7),
        conversation: ConversationId(3),
        call: TaskId(6),
        turn: None,
        question: call("\u{1b}]0;owned\u{7}\u{202e}"),
        state: ApprovalState::Open,
        until: None,
        time: Timestamp(0),
    };
    let shown = lines(&record);
    assert!(
        shown.iter().all(|line| !line.contains(|c: char| c.is_control() || c == '\u{202e}')),
        "{shown:?}"
    );
    assert!(
        shown.iter().any(|line| line == "+b") && shown.iter().any(|line| line.contains("conversation 3"))
    );
    assert!(shown.iter().any(|line| line == "because: ask exec(echo **) (user layer)"), "{shown:?}");
}

#[test]
fn an_age_is_told_in_one_unit() {
    for (seconds, told) in
        [(0, "0 seconds ago"), (61, "1 minute ago"), (7_300, "2 hours ago"), (90_000, "1 day ago")]
    {
        assert_eq!(age(Timestamp(5_000), Timestamp(5_000 + seconds * 1_000)), told);
    }
}
