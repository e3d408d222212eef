//! Answers of Chat Completions beyond the fixtures.

use everturn_core::{
    message::Stop,
    model::{Fault, FaultClass},
};
use everturn_models::{chat::Decoder, sse::Limits};
use serde_json::{Value, json};

use crate::fold::Folded;

fn folded(body: &str) -> Folded {
    let mut decoder = Decoder::new(Limits::default());
    decoder.push(body.as_bytes());
    decoder.finish();
    Folded::of(std::iter::from_fn(|| decoder.pop()))
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
