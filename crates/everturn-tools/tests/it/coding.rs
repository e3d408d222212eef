//! The tools together.

use everturn_core::{
    json::RawJson,
    policy::Act,
    tool::{Keep, Replay},
};
use everturn_tools::coding;

use crate::project::Project;

fn acts(tool: &str, arguments: &str) -> Vec<Act> {
    let tool = coding().into_iter().find(|known| known.spec().name == tool).unwrap();
    tool.acts(&RawJson::parse(arguments).unwrap()).unwrap()
}

#[test]
fn each_reading_tool_may_run_again_and_declares_the_read_of_its_path() {
    for tool in &coding()[..4] {
        assert_eq!(tool.contract().replay, Replay::Safe);
        let arguments = match tool.spec().name.as_str() {
            "read" | "list" => r#"{"path":"src"}"#,
            _ => r#"{"path":"src","pattern":"x"}"#,
        };
        assert_eq!(acts(&tool.spec().name, arguments), [Act::Read("src".into())], "{}", tool.spec().name);
    }
}

#[test]
fn each_changing_tool_declares_what_it_changes_and_is_never_repeated() {
    assert_eq!(acts("write", r#"{"path":"a","content":""}"#), [Act::Write("a".into())]);
    assert_eq!(acts("edit", r#"{"path":"a","edits":[]}"#), [Act::Read("a".into()), Act::Write("a".into())]);
    assert_eq!(acts("exec", r#"{"argv":["rm","a"]}"#), [Act::Exec(vec!["rm".into(), "a".into()])]);
    for tool in &coding()[4..] {
        assert_eq!(tool.contract().replay, Replay::Never);
        let is_exec = tool.spec().name == "exec";
        assert_eq!(tool.contract().is_sequential, !is_exec, "edits follow one another");
        assert_eq!(tool.contract().keep == Keep::Both, is_exec);
    }
}

#[test]
fn the_schemas_name_the_arguments_and_take_no_others() {
    for (tool, names) in coding().iter().zip([
        &["limit", "offset", "path"][..],
        &["path"],
        &["path", "pattern"],
        &["glob", "ignore_case", "path", "pattern"],
        &["content", "path"],
        &["edits", "path"],
        &["argv", "directory", "timeout_ms"],
    ]) {
        let schema: serde_json::Value = tool.spec().parameters.read().unwrap();
        let mut known: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        known.sort();
        assert_eq!(known, names);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["description"], serde_json::Value::Null, "what Rust reads is not for the model");
    }
}

#[tokio::test]
async fn null_is_as_good_as_absent() {
    let project = Project::new(&[("a.txt", "word")]);
    let read = project.call("read", r#"{"path":"a.txt","offset":null,"limit":null}"#).await;
    assert_eq!(read.unwrap(), "     1\tword");
    assert_eq!(project.call("list", r#"{"path":null}"#).await.unwrap(), "a.txt");
    assert_eq!(project.call("glob", r#"{"pattern":"*","path":null}"#).await.unwrap(), "a.txt");
    let grep = project.call("grep", r#"{"pattern":"word","path":null,"glob":null,"ignore_case":null}"#).await;
    assert_eq!(grep.unwrap(), "a.txt:1:word");
}
