//! The tool that finds files by name.

use everturn_core::{
    policy::Act,
    tool::{CallContext, Contract, Tool, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{at, limit::Output, pattern::Pattern, text, walk::Walk};

/// How many files are counted beyond those shown before the tool says "at least".
const COUNTED: usize = 10_000;

/// Finds files by a pattern, sorted by bytes.
///
/// Shape: one path a line, from the root of the environment, so that the other tools take it. Ignore files are
/// respected, hidden names are passed over unless the pattern names them, `.git` always is; links to directories
/// are not entered.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::Glob;
///
/// let arguments = serde_json::from_str(r#"{"pattern":"**/*.rs"}"#).unwrap();
/// assert_eq!(Glob.acts(&arguments), [Act::Read(".".into())]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Glob;

/// What [`Glob`] is called with.
///
/// ```
/// let json = r#"{"pattern":"*.toml","path":"crates"}"#;
/// let arguments: everturn_tools::GlobArguments = serde_json::from_str(json).unwrap();
/// assert_eq!(arguments.pattern, "*.toml");
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobArguments {
    /// The pattern, relative to path: `*` within a name, `**` for any directories, `{a,b}` for either.
    pub pattern: String,
    /// The directory to look below; the root if absent.
    pub path: Option<String>,
}

impl Tool for Glob {
    const NAME: &'static str = "glob";
    type Arguments = GlobArguments;

    fn description(&self) -> &str {
        "Find files by a pattern such as **/*.rs, sorted. Ignored files are left out, and so are hidden ones unless \
         the pattern names them, as in .github/**."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    fn acts(&self, arguments: &GlobArguments) -> Vec<Act> {
        vec![Act::Read(at(arguments.path.as_ref()))]
    }

    async fn run(&self, cx: &CallContext, arguments: GlobArguments) -> ToolResult {
        let pattern = Pattern::new(&arguments.pattern)?;
        let mut walk = Walk::new(cx, &at(arguments.path.as_ref()), &pattern).await?;
        let (mut output, mut more) = (Output::default(), 0);
        while let Some(file) = walk.next().await? {
            if more > 0 || !output.push(&text::name(&file.path)) {
                more += 1;
            }
            if more == COUNTED {
                break;
            }
        }
        if more > 0 {
            output.note(format!("{}{more} more", if more == COUNTED { "at least " } else { "" }));
        } else if output.lines() == 0 {
            output.note("no file matches");
        }
        if walk.unreadable() > 0 {
            output.note(format!("{} directories could not be read", walk.unreadable()));
        }
        Ok(output.finish().into())
    }
}
