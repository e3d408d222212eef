//! The tool that changes parts of a file.

mod place;
mod why;

use everturn_core::{
    Error, Result,
    json::RawJson,
    policy::Act,
    tool::{CallContext, Contract, Tool, ToolError, ToolOutput, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

use self::place::{Ending, replace};
use crate::{
    change::{Before, is_conflict},
    check_cancel, diff, near,
};

/// How many bytes a file may have to be edited.
const BYTES: u64 = 16 * 1024 * 1024;

/// What stands at the beginning of some files to say that they are UTF-8.
const BOM: &str = "\u{feff}";

/// Replaces exact pieces of a file, several at once, all or none.
///
/// Shape: the pieces are replaced in their order, each in what the one before left. Ends of lines and a byte order mark
/// stay as the file has them. Details for people: `{path, diff}`.
/// Errors: what was not found, or was found more than once, is said with what is near it; the file is left alone.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::Edit;
///
/// let arguments = serde_json::from_str(r#"{"path":"a.txt","edits":[{"old":"a","new":"b"}]}"#).unwrap();
/// assert_eq!(Edit.acts(&arguments), [Act::Read("a.txt".into()), Act::Write("a.txt".into())]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Edit;

/// What [`Edit`] is called with.
///
/// ```
/// let json = r#"{"path":"a.txt","edits":[{"old":"a","new":"b","all":true}]}"#;
/// let arguments: everturn_tools::EditArguments = serde_json::from_str(json).unwrap();
/// assert_eq!(arguments.edits.len(), 1);
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditArguments {
    /// The file.
    pub path: String,
    /// What to replace, in this order: all of it, or nothing.
    pub edits: Vec<Replacement>,
}

/// A piece of text, and what comes in its place.
///
/// ```
/// let json = r#"{"old":"a","new":"b"}"#;
/// let replacement: everturn_tools::Replacement = serde_json::from_str(json).unwrap();
/// assert_eq!(replacement.all, None);
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The text as it stands in the file, white space and all. It must be there once.
    pub old: String,
    /// The text that comes in its place.
    pub new: String,
    /// Whether it is replaced wherever it stands.
    pub all: Option<bool>,
}

/// What edits make of a file.
struct Edited {
    before: Before,
    old: Vec<u8>,
    new: Vec<u8>,
    places: usize,
}

impl Tool for Edit {
    const NAME: &'static str = "edit";
    type Arguments = EditArguments;

    fn description(&self) -> &str {
        "Replace exact pieces of a text file, several at once, all or none. Copy each piece from the file as it is, \
         without line numbers, and with enough around it that it stands there once."
    }

    fn contract(&self) -> Contract {
        // Edits of one file in one response follow one another.
        Contract { is_sequential: true, ..Contract::default() }
    }

    fn acts(&self, arguments: &EditArguments) -> Vec<Act> {
        vec![Act::Read(arguments.path.clone()), Act::Write(arguments.path.clone())]
    }

    async fn run(&self, cx: &CallContext, arguments: EditArguments) -> ToolResult {
        let path = &arguments.path;
        let mut is_first = true;
        loop {
            check_cancel(cx)?;
            let Edited { before, old, new, places } = edited(cx, &arguments).await?;
            let details = diff::details(path, &old, &new);
            let written = before.write(&cx.env, path, new).await;
            if is_conflict(&written) && is_first {
                is_first = false;
                continue;
            }
            written?;
            let count = if places == 1 { "1 place".to_owned() } else { format!("{places} places") };
            return Ok(ToolOutput { details, ..format!("edited {path:?}: replaced {count}").into() });
        }
    }

    async fn preview(&self, cx: &CallContext, arguments: EditArguments) -> Option<RawJson> {
        let Edited { old, new, .. } = edited(cx, &arguments).await.ok()?;
        diff::details(&arguments.path, &old, &new)
    }
}

/// Reads the file and makes the edits, without writing it.
async fn edited(cx: &CallContext, arguments: &EditArguments) -> Result<Edited, ToolError> {
    let path = &arguments.path;
    let mut before = Before::of(&cx.env, path, BYTES).await?;
    if before.size.is_none() {
        let error = Error::not_found(format!("edit {path:?}: no such file; write creates one"));
        return Err(near::explain(cx, path, error).await);
    }
    let Some(old) = before.bytes.take() else {
        let size = before.size.unwrap_or_default();
        return Err(ToolError::new(format!(
            "edit {path:?}: it has {size} bytes, and at most {BYTES} can be edited"
        )));
    };
    let text = std::str::from_utf8(&old).map_err(|fault| {
        let at = fault.valid_up_to();
        let byte = old.get(at).copied().unwrap_or_default();
        ToolError::new(format!("edit {path:?}: it is not UTF-8 text: byte {at} is 0x{byte:02X}"))
    })?;
    let (new, places) = edit(text, &arguments.edits)
        .map_err(|why| ToolError::new(format!("edit {path:?}: {why}; nothing was changed")))?;
    Ok(Edited { before, old, new: new.into_bytes(), places })
}

/// The text after all edits, and how many places they replaced; or why one of them cannot be made.
fn edit(text: &str, edits: &[Replacement]) -> Result<(String, usize), String> {
    if edits.is_empty() {
        return Err("no edit was given".into());
    }
    let body = text.strip_prefix(BOM).unwrap_or(text);
    let bom = &text[..text.len() - body.len()];
    let ending = Ending::of(body);
    let (mut body, mut places) = (body.to_owned(), 0);
    for (number, edit) in (1..).zip(edits) {
        let (changed, count) = replace(&body, edit, ending).map_err(|why| {
            let which =
                if edits.len() == 1 { String::new() } else { format!("edit {number} of {}: ", edits.len()) };
            format!("{which}{why}")
        })?;
        body = changed;
        places += count;
    }
    Ok((format!("{bom}{body}"), places))
}

#[cfg(test)]
mod tests;
