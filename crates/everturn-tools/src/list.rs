//! The tool that lists a directory.

use everturn_core::{
    env::{DirectoryEntry, FileKind, ListDirectory},
    policy::Act,
    tool::{CallContext, Contract, Tool, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{at, check_cancel, limit::Output, near, text};

/// How many names are asked for at once.
const PAGE: usize = 10_000;

/// How many names are counted before the tool says "at least".
const COUNTED: usize = 100_000;

/// Lists the names in a directory, one a line, sorted by bytes.
///
/// Shape: a directory has `/` behind its name, a link `@`. What does not fit is counted in the last line, in
/// parentheses.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::List;
///
/// let arguments = serde_json::from_str(r#"{"path":"src"}"#).unwrap();
/// assert_eq!(List.acts(&arguments), [Act::Read("src".into())]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct List;

/// What [`List`] is called with.
///
/// ```
/// let arguments: everturn_tools::ListArguments = serde_json::from_str("{}").unwrap();
/// assert_eq!(arguments.path, None);
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    /// The directory; the root if absent.
    pub path: Option<String>,
}

impl Tool for List {
    const NAME: &'static str = "list";
    type Arguments = ListArguments;

    fn description(&self) -> &str {
        "List the names in a directory, one a line, sorted. A directory ends with /, a link with @."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    fn acts(&self, arguments: &ListArguments) -> Vec<Act> {
        vec![Act::Read(at(arguments.path.as_ref()))]
    }

    async fn run(&self, cx: &CallContext, arguments: ListArguments) -> ToolResult {
        let path = at(arguments.path.as_ref());
        let mut output = Output::default();
        let (mut names, mut after, mut is_full) = (0, None, false);
        loop {
            check_cancel(cx)?;
            let list = ListDirectory { path: path.clone(), after, limit: PAGE };
            let page = match cx.env.list(list).await {
                Ok(page) => page,
                Err(error) => return Err(near::explain(cx, &path, error).await),
            };
            names += page.len();
            for entry in &page {
                is_full = is_full || !output.push(&line(entry));
            }
            let is_last = page.len() < PAGE;
            if is_last || names >= COUNTED {
                let more = names - output.lines();
                if more > 0 {
                    output.note(format!("{}{more} more", if is_last { "" } else { "at least " }));
                }
                break;
            }
            after = page.into_iter().next_back().map(|entry| entry.name);
        }
        if names == 0 {
            output.note("the directory is empty");
        }
        Ok(output.finish().into())
    }
}

fn line(entry: &DirectoryEntry) -> String {
    let mark = match entry.kind {
        FileKind::Directory => "/",
        FileKind::Link => "@",
        FileKind::File | FileKind::Other => "",
    };
    format!("{}{mark}", text::name(&entry.name))
}
