//! Responses: from pieces to the message that is stored.

use everturn_core::{
    json::RawJson,
    message::{Assistant, CallId, End, Message, Stop, Usage},
    model::Delta,
    response::Response,
};
use serde_json::{Value, json};

fn text(piece: &str) -> Delta {
    Delta::Text(piece.into())
}

fn thinking(piece: &str) -> Delta {
    Delta::Thinking(piece.into())
}

fn start(call: u32) -> Delta {
    Delta::CallStart { call, provider: Some(format!("p{call}")), name: "read".into() }
}

fn piece(call: u32, piece: &str) -> Delta {
    Delta::CallArguments { call, piece: piece.into() }
}

fn end(call: u32) -> Delta {
    Delta::CallEnd { call }
}

fn response(deltas: impl IntoIterator<Item = Delta>) -> Response {
    deltas.into_iter().fold(Response::default(), |mut response, delta| {
        response.push(delta);
        response
    })
}

fn message(deltas: impl IntoIterator<Item = Delta>) -> Assistant {
    let mut last = 0;
    let mint = || {
        last += 1;
        CallId(format!("c{last}"))
    };
    response(deltas).into_message("chat", "qwen", End::Complete, mint)
}

fn parts(deltas: impl IntoIterator<Item = Delta>) -> Value {
    serde_json::to_value(message(deltas).parts).unwrap()
}

#[test]
fn pieces_of_one_part_are_joined_and_parts_keep_their_order() {
    let opaque = Delta::Opaque(RawJson::parse("[1]").unwrap());
    let deltas = [
        thinking("Where"),
        thinking("?"),
        text("I "),
        text("look."),
        thinking("Hm."),
        opaque,
        text("Done."),
        text(""),
    ];
    let so_far = response(deltas.clone());
    assert_eq!((so_far.text().as_str(), so_far.thinking().as_str()), ("I look.Done.", "Where?Hm."));
    assert_eq!(
        parts(deltas),
        json!([{"thinking": "Where?"}, {"text": "I look."}, {"thinking": "Hm."}, {"opaque": [1]}, {"text": "Done."}])
    );
}

#[test]
fn calls_whose_pieces_are_mixed_stand_in_the_order_in_which_they_began() {
    let deltas = [
        start(0),
        piece(0, r#"{"path":"#),
        start(1),
        piece(1, "{}"),
        piece(0, r#""a"}"#),
        end(1),
        text("both"),
        end(0),
    ];
    assert_eq!(
        parts(deltas),
        json!([
            {"call": {"id": "c1", "provider": "p0", "name": "read", "arguments": {"path": "a"}}},
            {"call": {"id": "c2", "provider": "p1", "name": "read", "arguments": {}}},
            {"text": "both"},
        ])
    );
}

#[test]
fn a_call_whose_end_was_not_seen_is_shown_and_never_stored() {
    let deltas = [text("a"), start(0), piece(0, "{}"), end(0), start(1), piece(1, r#"{"path"#)];
    let so_far = response(deltas.clone());
    let calls: Vec<_> = so_far.calls().map(|draft| (draft.arguments.as_str(), draft.whole)).collect();
    assert_eq!(calls, [("{}", true), (r#"{"path"#, false)]);

    let stored = message(deltas);
    assert_eq!(stored.calls().map(|call| call.id.0.as_str()).collect::<Vec<_>>(), ["c1"]);
}

#[test]
fn pieces_of_a_call_that_never_began_are_nobodys() {
    assert_eq!(parts([piece(3, "{}"), end(3)]), json!([]));
    assert!(response([piece(3, "{}"), end(3)]).is_empty());
}

#[test]
fn arguments_are_kept_as_they_came_and_broken_ones_as_a_string() {
    for (arguments, stored) in [
        ("", "{}"),
        (" \n", "{}"),
        (r#"  {"b": 1.0, "a":2} "#, r#"{"b": 1.0, "a":2}"#),
        ("null", "null"),
        (r#""text""#, r#""text""#),
        (r#"{"path": "a"#, r#""{\"path\": \"a""#),
        ("{}{}", r#""{}{}""#),
        ("NaN", r#""NaN""#),
        ("{'path': 'é'}", r#""{'path': 'é'}""#),
        ("{\"a\":\"\u{1}\"}", r#""{\"a\":\"\u0001\"}""#),
    ] {
        let stored_call = message([start(0), piece(0, arguments), end(0)]);
        let call = stored_call.calls().next().unwrap();
        assert_eq!(call.arguments.get(), stored, "{arguments:?}");

        let bytes = serde_json::to_string(&Message::Assistant(stored_call.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&bytes).unwrap(), Message::Assistant(stored_call));
    }
    let deep = "[".repeat(100_000);
    let stored = message([start(0), piece(0, &deep), end(0)]);
    assert_eq!(stored.calls().next().unwrap().arguments.get(), format!("{deep:?}"));
}

#[test]
fn what_the_provider_says_last_counts() {
    let usage = |input| Usage { input: Some(input), ..Usage::default() };
    let started = |response: Option<&str>, model: Option<&str>| Delta::Started {
        response: response.map(Into::into),
        model: model.map(Into::into),
    };
    let deltas = [
        started(Some("r1"), None),
        Delta::Usage(usage(1)),
        started(None, Some("qwen-7b")),
        text("a"),
        Delta::Usage(usage(31)),
        Delta::End(Stop::Length),
    ];
    let so_far = response(deltas.clone());
    assert_eq!((so_far.usage(), so_far.stop()), (Some(usage(31)), Some(Stop::Length)));
    assert_eq!(
        serde_json::to_value(message(deltas)).unwrap(),
        json!({
            "parts": [{"text": "a"}],
            "origin": {"provider": "chat", "model": "qwen-7b", "response": "r1"},
            "stop": "length",
            "usage": {"input": 31},
        })
    );
}

#[test]
fn a_response_of_which_nothing_came_is_an_empty_message() {
    let response = response([Delta::Usage(Usage::default())]);
    assert!(response.is_empty());
    assert_eq!(response.stop(), None);
    let message = response.into_message("chat", "qwen", End::Aborted, || unreachable!("there is no call"));
    assert_eq!(
        serde_json::to_value(message).unwrap(),
        json!({"origin": {"provider": "chat", "model": "qwen"}, "usage": {}, "end": "aborted"})
    );
}
