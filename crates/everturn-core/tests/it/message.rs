//! The stored form of messages, whole.

use everturn_core::{
    clock::Timestamp,
    entry::{Edit, Entry, Head},
    id::EntryId,
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, End, Message, Origin, Outcome, Part, Stop, Usage, User},
};

fn whole_answer() -> Message {
    let call = Call {
        id: CallId("c7".into()),
        provider: Some("call_9".into()),
        name: "grep".into(),
        arguments: RawJson::parse(r#"{"pattern": "fn", "limit": 1.0}"#).unwrap(),
    };
    Message::Assistant(Assistant {
        parts: vec![
            Part::Thinking("Where?".into()),
            Part::Opaque(RawJson::parse(r#"{"signature":"x", "n":10000000000000000000000}"#).unwrap()),
            Part::Text("I look.".into()),
            Part::Call(call),
        ],
        origin: Some(Origin { provider: "chat".into(), model: "qwen".into(), response: Some("r1".into()) }),
        stop: Some(Stop::Calls),
        usage: Some(Usage {
            input: Some(31),
            output: Some(9),
            cached: Some(0),
            cache_written: None,
            reasoning: Some(4),
        }),
        end: End::Aborted,
    })
}

fn result(outcome: Outcome, time: Option<Timestamp>) -> Message {
    Message::Result(CallResult { time, ..CallResult::new(CallId("c7".into()), outcome, "3 files") })
}

#[test]
fn a_message_has_one_stored_form_and_comes_back_from_it() {
    for (message, stored) in [
        (Message::system("Be brief."), r#"{"system":{"text":"Be brief."}}"#),
        (
            Message::User(User { parts: vec![Part::Text("a".into()), Part::Text("\"é\n".into())] }),
            r#"{"user":{"parts":[{"text":"a"},{"text":"\"é\n"}]}}"#,
        ),
        (Message::assistant("42"), r#"{"assistant":{"parts":[{"text":"42"}]}}"#),
        (Message::Assistant(Assistant::default()), r#"{"assistant":{}}"#),
        (
            whole_answer(),
            concat!(
                r#"{"assistant":{"parts":[{"thinking":"Where?"},"#,
                r#"{"opaque":{"signature":"x", "n":10000000000000000000000}},{"text":"I look."},"#,
                r#"{"call":{"id":"c7","provider":"call_9","name":"grep","arguments":{"pattern": "fn", "limit": 1.0}}}],"#,
                r#""origin":{"provider":"chat","model":"qwen","response":"r1"},"stop":"calls","#,
                r#""usage":{"input":31,"output":9,"cached":0,"reasoning":4},"end":"aborted"}}"#,
            ),
        ),
        (result(Outcome::Ok, None), r#"{"result":{"call":"c7","text":"3 files","outcome":"ok"}}"#),
        (
            result(Outcome::Denied { rule: "deny exec(**)".into() }, None),
            r#"{"result":{"call":"c7","text":"3 files","outcome":{"denied":{"rule":"deny exec(**)"}}}}"#,
        ),
        (
            result(Outcome::MissingResult, Some(Timestamp(9))),
            r#"{"result":{"call":"c7","text":"3 files","outcome":"missing_result","time":9}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&message).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Message>(stored).unwrap(), message);
    }
}

#[test]
fn each_word_of_a_message_is_stored_as_it_is_shown() {
    let stored = |outcome: &Outcome| serde_json::to_value(outcome).unwrap();
    for outcome in [
        Outcome::Ok,
        Outcome::Error,
        Outcome::Unavailable,
        Outcome::InvalidArguments,
        Outcome::Cancelled,
        Outcome::Unknown,
        Outcome::MissingResult,
    ] {
        assert_eq!(stored(&outcome), outcome.word());
        assert_eq!(outcome.is_error(), outcome != Outcome::Ok);
    }
    let ends = [End::Complete, End::Aborted, End::Error, End::Deferred];
    assert_eq!(serde_json::to_string(&ends).unwrap(), r#"["complete","aborted","error","deferred"]"#);
    let stops = [Stop::Answer, Stop::Calls, Stop::Length, Stop::Refused, Stop::Filtered, Stop::Paused];
    assert_eq!(
        serde_json::to_string(&stops).unwrap(),
        r#"["answer","calls","length","refused","filtered","paused"]"#
    );
}

#[test]
fn an_entry_has_one_stored_body_and_comes_back_from_it() {
    let data = RawJson::parse(r#"{"b": 1, "a": 1e400}"#).unwrap();
    for (entry, body) in [
        (Entry::new("app.note"), "{}"),
        (Entry::new("app.note").data(&data).unwrap(), r#"{"data":{"b": 1, "a": 1e400}}"#),
        (Entry::new("et.reset").head(Head::Itself), r#"{"head":"itself"}"#),
        (
            Entry::new("et.compaction").message(Message::user("so far")).head(Head::Entry(EntryId(4))),
            r#"{"messages":[{"user":{"parts":[{"text":"so far"}]}}],"head":{"entry":4}}"#,
        ),
        (
            Entry::new("app.edit")
                .edit(Edit::omit(EntryId(3)))
                .edit(Edit::replace(EntryId(4), []))
                .edit(Edit::replace(EntryId(5), [Message::system("b")])),
            concat!(
                r#"{"edits":[{"target":3},{"target":4,"messages":[]},"#,
                r#"{"target":5,"messages":[{"system":{"text":"b"}}]}]}"#
            ),
        ),
    ] {
        assert_eq!(entry.to_body().unwrap(), body);
        assert_eq!(Entry::from_body(&entry.kind, body).unwrap(), entry);
    }
}

#[test]
fn tokens_add_up_and_a_count_that_nobody_reported_stays_absent() {
    let usage = |input, cached| Usage { input, cached, ..Usage::default() };
    for (a, b, sum) in [
        (usage(Some(1), None), usage(Some(2), Some(3)), usage(Some(3), Some(3))),
        (usage(None, None), usage(None, Some(0)), usage(None, Some(0))),
        (usage(Some(u64::MAX), None), usage(Some(1), None), usage(Some(u64::MAX), None)),
    ] {
        assert_eq!(a.plus(&b), sum);
        assert_eq!(b.plus(&a), sum);
    }
}
