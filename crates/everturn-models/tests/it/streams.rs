//! Every stream fixture, cut in every way.

use std::{fs, path::Path};

use everturn_core::{
    message::Stop,
    model::{Delta, Fault, FaultClass},
};
use everturn_models::{chat::Decoder, sse::Limits};
use serde_json::{Value, json};

use crate::fold::Folded;

/// Decodes a body that comes in these pieces.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Result<Delta, Fault>> {
    let mut decoder = Decoder::new(Limits::default());
    let mut deltas = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        deltas.extend(std::iter::from_fn(|| decoder.pop()));
    }
    decoder.finish();
    deltas.extend(std::iter::from_fn(|| decoder.pop()));
    deltas
}

fn folded(body: &str) -> Folded {
    Folded::of(decode([body.as_bytes()]))
}

/// One event with this chunk.
fn event(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

fn delta(delta: &Value) -> String {
    event(&json!({"id": "r1", "choices": [{"index": 0, "delta": delta}]}))
}

fn finish(reason: &str) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

/// The ways in which a body may come.
fn ways(body: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let crlf = body.replace('\n', "\r\n");
    let between = crlf.split_inclusive('\r').map(|piece| piece.as_bytes().to_vec());
    let commented: String = body
        .split_inclusive('\n')
        .map(|line| {
            let named = line.starts_with("event:") || line.starts_with("data:");
            if named { format!(": x\n{line}") } else { line.to_owned() }
        })
        .collect();
    let mut ways = vec![
        ("whole".to_owned(), vec![body.as_bytes().to_vec()]),
        ("CR LF".to_owned(), vec![crlf.as_bytes().to_vec()]),
        ("cut between CR and LF".to_owned(), between.collect()),
        ("with comments".to_owned(), vec![commented.into_bytes()]),
    ];
    for size in [1, 2, 3, 7, 1021] {
        let pieces = body.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
        ways.push((format!("in pieces of {size}"), pieces));
    }
    ways
}

#[test]
fn every_chat_stream_gives_what_it_says_however_it_is_cut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams/chat");
    let mut files = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sse") {
            check_stream(&path);
            files += 1;
        }
    }
    assert_eq!(files, 44, "a fixture is missing or new");
}

fn check_stream(path: &Path) {
    let body = fs::read_to_string(path).unwrap();
    let expectation = fs::read_to_string(path.with_extension("expect.json")).unwrap();
    let mut expected: Value = serde_json::from_str(&expectation).unwrap();
    let fields = expected.as_object_mut().unwrap();
    fields.remove("why");
    let class = fields.remove("error_class");
    fields.entry("opaque").or_insert(json!([]));
    let ended_badly = fields["stop"] == "error" || fields["stop"] == "cut";
    if ended_badly {
        fields["stop"] = json!("fault");
    }
    for (way, pieces) in ways(&body) {
        let place = format!("{}, {way}", path.display());
        let folded = Folded::of(decode(pieces.iter().map(Vec::as_slice)));
        assert_eq!(folded.to_expectation(), expected, "{place}");
        if let Some(class) = &class {
            assert_eq!(json!(folded.fault_class()), *class, "{place}");
        }
    }
}

#[test]
fn opaque_items_keep_their_bytes() {
    let item = r#"{"type":"reasoning.encrypted", "n":1.0,"data":"a\/b"}"#;
    let body = format!("data: {{\"choices\":[{{\"delta\":{{\"reasoning_details\":[{item}]}}}}]}}\n\n");
    assert_eq!(folded(&body).opaque, [item]);
}

#[test]
fn a_call_whose_arguments_are_broken_never_ends_but_stops_for_calls() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weigh", "arguments": "{\"item"}}]});
    let folded = folded(&(delta(&call) + &finish("tool_calls")));
    assert_eq!((folded.calls(), folded.stop), (json!([]), Some(Stop::Calls)));
}

#[test]
fn a_call_that_names_no_tool_is_malformed() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]});
    let folded = folded(&(delta(&call) + &finish("tool_calls")));
    assert_eq!(folded.fault_class(), Some(FaultClass::Malformed));
}

#[test]
fn whole_calls_without_ids_and_indexes_are_told_apart_by_their_names() {
    let call = |item: &str| {
        let arguments = format!("{{\"item\":\"{item}\"}}");
        delta(&json!({"tool_calls": [{"index": 0, "function": {"name": "weigh", "arguments": arguments}}]}))
    };
    let folded = folded(&(call("fig") + &call("nut") + &finish("stop")));
    let call = |item: &str| json!({"name": "weigh", "arguments": {"item": item}, "provider_id": null});
    assert_eq!(folded.calls(), json!([call("fig"), call("nut")]));
}

#[test]
fn arguments_may_come_as_an_object() {
    let call = json!({"tool_calls": [{"index": 0, "function": {"name": "weigh", "arguments": {"n": 1}}}]});
    let folded = folded(&(delta(&call) + &finish("stop")));
    assert_eq!(folded.calls(), json!([{"name": "weigh", "arguments": {"n": 1}, "provider_id": null}]));
}

#[test]
fn two_blocks_of_thinking_are_parted_by_a_newline() {
    let body = [json!({"reasoning": "One, "}), json!({"reasoning": "two."}), json!({"content": "A"})];
    let body: String = body.iter().chain([&json!({"reasoning": "Three."})]).map(delta).collect();
    assert_eq!(folded(&(body + &finish("stop"))).thinking, "One, two.\nThree.");
}

#[test]
fn text_in_parts_is_text() {
    let body = delta(&json!({"content": [{"type": "text", "text": "Parts."}]})) + &finish("stop");
    assert_eq!(folded(&body).text, "Parts.");
}

#[test]
fn half_a_character_becomes_a_replacement_character() {
    let body = r#"data: {"choices":[{"delta":{"content":"\ud83d, \\ud83d, \ud83d\ude00, \ude00"},"finish_reason":"stop"}]}"#;
    assert_eq!(folded(&format!("{body}\n\n")).text, "\u{FFFD}, \\ud83d, 😀, \u{FFFD}");
}

#[test]
fn what_is_no_json_is_malformed_and_unknown_events_are_counted() {
    assert_eq!(folded("data: hello\n\n").fault_class(), Some(FaultClass::Malformed));

    let mut decoder = Decoder::new(Limits::default());
    decoder.push(b"data: {\"type\":\"ping\"}\n\ndata: {\"new\":[1]}\n\n");
    assert_eq!(decoder.skipped(), 2);
    assert_eq!(decoder.pop(), None);
}

#[test]
fn a_line_over_its_limit_ends_the_answer_behind_what_came_before() {
    let mut decoder = Decoder::new(Limits { line: 200, ..Limits::default() });
    decoder.push((delta(&json!({"content": "A"})) + "data: " + &"x".repeat(300)).as_bytes());
    decoder.finish();
    let folded = Folded::of(std::iter::from_fn(|| decoder.pop()));
    assert_eq!((folded.text.as_str(), folded.fault_class()), ("A", Some(FaultClass::Malformed)));
}

#[test]
fn a_connection_that_breaks_behind_the_finish_reason_broke_nothing() {
    let broken = || Fault::new(FaultClass::Transient, "reset");
    let answer = |body: String| {
        let mut decoder = Decoder::new(Limits::default());
        decoder.push(body.as_bytes());
        decoder.break_off(broken());
        Folded::of(std::iter::from_fn(|| decoder.pop()))
    };
    let text = delta(&json!({"content": "A"}));
    assert_eq!(answer(text.clone() + &finish("stop")).stop, Some(Stop::Answer));
    assert_eq!(answer(text).fault, Some(broken()));
}
