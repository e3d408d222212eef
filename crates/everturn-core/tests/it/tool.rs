//! Tools: what a function becomes, and what the arguments of its calls are read as.

use std::time::Duration;

use everturn_core::{
    CancelToken,
    env::{Env, Nowhere},
    id::ConversationId,
    json::RawJson,
    message::{CallId, Outcome},
    policy::Act,
    tool::{AnyTool, CallContext, Keep, OnUnknown, Output, Replay, ToolError, ToolResult, tool},
};
use futures_util::FutureExt;
use serde_json::json;

fn acts(arguments: &MoveFileArguments) -> Vec<Act> {
    vec![Act::Write(arguments.from.clone()), Act::Write(arguments.to.clone())]
}

#[tool(
    name = "move",
    replay = "keyed",
    on_unknown = "pause",
    sequential,
    deadline_ms = 500,
    keep = "tail",
    acts = acts,
    crate = "everturn_core"
)]
/// Move a file.
///
/// It must exist.
async fn move_file(
    /// Where it is.
    from: String,
    cx: &CallContext,
    /// Where it goes.
    to: String,
    #[serde(default)] force: bool,
    label: Option<String>,
) -> ToolResult {
    let label = label.ok_or_else(|| ToolError::new("no label"))?;
    Ok(format!("{} {from} {to} {force} {label}", cx.key).into())
}

#[tool(crate = "everturn_core")]
/// Tells that it is there.
async fn ping() -> ToolResult {
    Ok("pong".into())
}

fn run(tool: &AnyTool, arguments: &str) -> Result<String, (String, Outcome)> {
    let cx = CallContext {
        call: CallId("c1".into()),
        conversation: ConversationId::ROOT,
        key: "k1".into(),
        cancel: CancelToken::new(),
        env: Env::new(Nowhere),
        output: Output::default(),
    };
    let arguments = RawJson::parse(arguments).unwrap();
    let result = tool.run(&cx, &arguments).now_or_never().unwrap();
    assert_eq!(tool.preview(&cx, &arguments).now_or_never().unwrap(), None);
    result.map(|output| output.text).map_err(ToolError::into_parts)
}

#[test]
fn a_function_is_offered_by_its_words_and_types() {
    let tool = AnyTool::new(move_file);
    let spec = tool.spec();
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("move", "Move a file.\n\nIt must exist."));
    let schema: serde_json::Value = spec.parameters.read().unwrap();
    let properties = &schema["properties"];
    assert_eq!(properties["from"], json!({"type": "string", "description": "Where it is."}));
    assert_eq!(properties["to"]["description"], "Where it goes.");
    assert_eq!(properties.as_object().unwrap().len(), 4, "the context is nobody's argument");
    assert_eq!(schema["required"], json!(["from", "to"]));
    let contract = tool.contract();
    assert_eq!((contract.replay, contract.on_unknown), (Replay::Keyed, OnUnknown::Pause));
    assert_eq!((contract.is_sequential, contract.keep), (true, Keep::Tail));
    assert_eq!(contract.deadline, Some(Duration::from_millis(500)));
    let plain = AnyTool::new(ping);
    assert_eq!((plain.spec().name.as_str(), plain.contract().replay), ("ping", Replay::Never));
}

#[test]
fn a_function_gets_its_arguments_and_its_context() {
    let tool = AnyTool::new(move_file);
    let arguments = r#"{"to":"b","from":"a","label":"x","unknown":1}"#;
    assert_eq!(run(&tool, arguments).unwrap(), "k1 a b false x");
    assert_eq!(run(&tool, r#"{"to":"b","from":"a"}"#).unwrap_err(), ("no label".into(), Outcome::Error));
    let acts = tool.acts(&RawJson::parse(arguments).unwrap()).unwrap();
    assert_eq!(acts, [Act::Write("a".into()), Act::Write("b".into())]);
    assert_eq!(AnyTool::new(ping).acts(&RawJson::empty()).unwrap(), []);
}

#[test]
fn arguments_that_say_nothing_are_an_empty_object() {
    for arguments in ["{}", "null", r#""""#, r#"" ""#, r#""null""#, r#""{}""#] {
        assert_eq!(run(&AnyTool::new(ping), arguments).unwrap(), "pong", "{arguments}");
    }
}

#[test]
fn arguments_that_do_not_fit_are_quoted_with_their_fault() {
    let tool = AnyTool::new(move_file);
    let long = format!(r#""{{\"from\": \"{}\", \"to\" 5}}""#, "é".repeat(1_000));
    for (arguments, words) in [
        (r#"{"from":1,"to":"b"}"#, r#"call move with {"from":1,"to":"b"}: invalid type: integer `1`"#),
        (r#"{"from":"a"}"#, r#"call move with {"from":"a"}: missing field `to`"#),
        (r#""{\"from\": \"a\"""#, r#"call move with {"from": "a": EOF while parsing an object"#),
        (r#""plain words""#, "call move with plain words: expected value"),
        (&long, r#"éé", "to" 5}: expected `:`"#),
    ] {
        let (message, outcome) = run(&tool, arguments).unwrap_err();
        assert!(message.contains(words) && message.len() < 700, "{message}");
        assert_eq!(outcome, Outcome::InvalidArguments);
    }
}
