//! Requests as they go over the wire.

use std::sync::Arc;

use everturn_core::{
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, Message, Origin, Outcome, Part, User},
    model::{Request, Thinking},
    tool::ToolSpec,
};
use everturn_models::chat::{Quirks, encode};
use serde_json::{Value, json};

fn body(request: &Request) -> Value {
    serde_json::from_slice(&encode(request, Quirks::default())).unwrap()
}

fn messages(messages: impl IntoIterator<Item = Message>) -> Value {
    body(&Request::new("qwen", messages))["messages"].clone()
}

fn call(id: &str, provider: Option<&str>) -> Part {
    Part::Call(Call {
        id: CallId(id.into()),
        provider: provider.map(str::to_owned),
        name: "weigh".into(),
        arguments: RawJson::parse(r#"{"b":1, "a":1.0}"#).unwrap(),
    })
}

fn answer(parts: Vec<Part>, model: &str) -> Message {
    let origin = Origin { provider: "chat".into(), model: model.into(), response: None };
    Message::Assistant(Assistant { parts, origin: Some(origin), ..Assistant::default() })
}

fn result(call: &str) -> Message {
    Message::Result(CallResult::new(CallId(call.into()), Outcome::Ok, "3 g"))
}

#[test]
fn a_request_with_everything() {
    let mut request = Request::new(
        "qwen",
        [
            Message::system("Be brief."),
            Message::user("weigh it"),
            answer(
                vec![Part::Thinking("Hm.".into()), Part::Text("Yes.".into()), call("c1", Some("call_a"))],
                "qwen",
            ),
            result("c1"),
            Message::User(User { parts: vec![Part::Text("and".into()), Part::Text("again".into())] }),
        ],
    );
    request.thinking = Thinking::High;
    request.tools = Arc::from([ToolSpec {
        name: "weigh".into(),
        description: "Weighs.".into(),
        parameters: RawJson::parse(r#"{"type":"object"}"#).unwrap(),
    }]);
    let expected = json!({
        "model": "qwen",
        "stream": true,
        "stream_options": {"include_usage": true},
        "reasoning_effort": "high",
        "tools": [{"type": "function", "function": {
            "name": "weigh", "description": "Weighs.", "parameters": {"type": "object"},
        }}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "weigh it"},
            {"role": "assistant", "content": "Yes.", "tool_calls": [{"id": "call_a", "type": "function", "function": {
                "name": "weigh", "arguments": r#"{"b":1, "a":1.0}"#,
            }}]},
            {"role": "tool", "tool_call_id": "call_a", "content": "3 g"},
            {"role": "user", "content": [{"type": "text", "text": "and"}, {"type": "text", "text": "again"}]},
        ],
    });
    assert_eq!(body(&request), expected);
    assert_eq!(encode(&request, Quirks::default()), encode(&request.clone(), Quirks::default()));
}

#[test]
fn a_server_that_takes_no_stream_options_gets_none() {
    let bytes = encode(&Request::new("m", [Message::user("a")]), Quirks { include_usage: false });
    let expected = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "a"}]});
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
}

#[test]
fn opaque_items_go_back_to_the_model_that_made_them_and_to_no_other() {
    let raw = r#"{"type":"reasoning.encrypted", "data":"a\/b","n":1.0}"#;
    let item = || Part::Opaque(RawJson::parse(raw).unwrap());
    let request = |model: &str| Request::new("qwen", [answer(vec![item(), Part::Text("A".into())], model)]);
    let bytes = |model: &str| String::from_utf8(encode(&request(model), Quirks::default())).unwrap();
    assert!(bytes("qwen").contains(&format!(r#""reasoning_details":[{raw}]"#)));
    assert!(!bytes("other").contains("reasoning"));
    let nobody = Message::Assistant(Assistant { parts: vec![item()], ..Assistant::default() });
    assert_eq!(messages([nobody]), json!([{"role": "assistant", "content": ""}]));
}

#[test]
fn ids_on_the_wire_are_unique_whatever_the_provider_sent() {
    let sent = messages([
        answer(
            vec![call("c1", Some("x")), call("c2", Some("x")), call("c3", Some("")), call("c4", None)],
            "qwen",
        ),
        result("c2"),
        result("c1"),
        result("c3"),
        result("c4"),
        answer(vec![call("c5", Some("c6")), call("c6", Some("x"))], "qwen"),
        result("c5"),
        result("c6"),
    ]);
    let calls: Vec<_> = [0, 5].iter().flat_map(|at| sent[at]["tool_calls"].as_array().unwrap()).collect();
    let calls: Vec<_> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(calls, ["x", "c2", "c3", "c4", "c6", "c6_"]);
    let results: Vec<_> =
        [1, 2, 3, 4, 6, 7].map(|at: usize| sent[at]["tool_call_id"].as_str().unwrap()).into();
    assert_eq!(results, ["c2", "x", "c3", "c4", "c6", "c6_"]);
}

#[test]
fn each_request_begins_with_the_bytes_of_the_one_before() {
    // The provider gives the same id in every turn, so that uniqueness in the whole request would rewrite the first.
    let turn = |n: u32| {
        let id = format!("c{n}");
        [
            Message::user(format!("question {n}")),
            answer(vec![call(&id, Some("call_0"))], "qwen"),
            result(&id),
            Message::assistant("done"),
        ]
    };
    let bytes = |turns: u32| encode(&Request::new("qwen", (0..turns).flat_map(turn)), Quirks::default());
    for turns in 1..20 {
        let (shorter, longer) = (bytes(turns), bytes(turns + 1));
        let end = shorter.len() - "]}".len();
        assert_eq!(shorter[..end], longer[..end]);
    }
}
