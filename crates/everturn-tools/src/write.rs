//! The tool that writes a file.

use everturn_core::{
    json::RawJson,
    policy::Act,
    tool::{CallContext, Contract, Tool, ToolOutput, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    change::{Before, is_conflict},
    check_cancel, diff,
};

/// Creates a file, or replaces all of it.
///
/// Shape: one line that says what was done. Details for people: `{path, diff}`, where both texts are text and not huge.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::Write;
///
/// let arguments = serde_json::from_str(r#"{"path":"a.txt","content":"hello\n"}"#).unwrap();
/// assert_eq!(Write.acts(&arguments), [Act::Write("a.txt".into())]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Write;

/// What [`Write`] is called with.
///
/// ```
/// let json = r#"{"path":"a.txt","content":"hello\n"}"#;
/// let arguments: everturn_tools::WriteArguments = serde_json::from_str(json).unwrap();
/// assert_eq!(arguments.content, "hello\n");
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArguments {
    /// The file. Missing directories are made.
    pub path: String,
    /// All of its text.
    pub content: String,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    type Arguments = WriteArguments;

    fn description(&self) -> &str {
        "Create a file, or replace all of it. To change a part of a file, use edit."
    }

    fn contract(&self) -> Contract {
        // In a crash's wake somebody else may have written the file; and a command beside it may want it written.
        Contract { is_sequential: true, ..Contract::default() }
    }

    fn acts(&self, arguments: &WriteArguments) -> Vec<Act> {
        vec![Act::Write(arguments.path.clone())]
    }

    async fn run(&self, cx: &CallContext, arguments: WriteArguments) -> ToolResult {
        let WriteArguments { path, content } = arguments;
        let mut is_first = true;
        loop {
            check_cancel(cx)?;
            let before = Before::of(&cx.env, &path, diff::TEXT as u64).await?;
            let size = before.size;
            let details =
                before.bytes.as_ref().and_then(|bytes| diff::details(&path, bytes, content.as_bytes()));
            let written = before.write(&cx.env, &path, content.clone().into_bytes()).await;
            if is_conflict(&written) && is_first {
                is_first = false;
                continue;
            }
            written?;
            return Ok(ToolOutput { details, ..said(&path, &content, size).into() });
        }
    }

    async fn preview(&self, cx: &CallContext, arguments: WriteArguments) -> Option<RawJson> {
        let before = Before::of(&cx.env, &arguments.path, diff::TEXT as u64).await.ok()?;
        diff::details(&arguments.path, &before.bytes?, arguments.content.as_bytes())
    }
}

/// What was done, in one line.
fn said(path: &str, content: &str, replaced: Option<u64>) -> String {
    let (bytes, lines) = (content.len(), content.lines().count());
    match replaced {
        None => format!("created {path:?}: {bytes} bytes, {lines} lines"),
        Some(size) => format!("replaced {path:?}: {bytes} bytes, {lines} lines, where {size} bytes were"),
    }
}
