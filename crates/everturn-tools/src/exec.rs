//! The tool that runs a program.

use std::{num::NonZeroU64, time::Duration};

use everturn_core::{
    env::{self, Exit},
    json::RawJson,
    message::Outcome,
    policy::Act,
    tool::{CallContext, Contract, Keep, Tool, ToolError, ToolResult},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::at;

/// How long a program may run where the call does not say, and at most.
const DEADLINE_MS: u64 = 120_000;
const DEADLINE_MS_MAX: u64 = 600_000;

/// Runs a program without a shell, and streams its output.
///
/// Shape: the output as it comes, then one line that says how the program ended. Another end than exit code 0 is an
/// error, with the same line.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::Exec;
///
/// let arguments = serde_json::from_str(r#"{"argv":["cargo","test"]}"#).unwrap();
/// assert_eq!(Exec.acts(&arguments), [Act::Exec(vec!["cargo".into(), "test".into()])]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exec;

/// What [`Exec`] is called with.
///
/// ```
/// let json = r#"{"argv":["cargo","test"],"timeout_ms":60000}"#;
/// let arguments: everturn_tools::ExecArguments = serde_json::from_str(json).unwrap();
/// assert_eq!(arguments.argv.len(), 2);
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecArguments {
    /// The program, and each of its arguments. No shell reads them: no quotes, pipes or variables.
    pub argv: Vec<String>,
    /// The directory in which it runs; the root if absent.
    pub directory: Option<String>,
    /// How long it may run, in milliseconds; 120,000 if absent, at most 600,000.
    pub timeout_ms: Option<NonZeroU64>,
}

/// What people are shown of a run that has not begun.
#[derive(Serialize)]
struct Preview<'a> {
    argv: &'a [String],
    directory: String,
}

impl Tool for Exec {
    const NAME: &'static str = "exec";
    type Arguments = ExecArguments;

    fn description(&self) -> &str {
        "Run a program with arguments, without a shell, and wait for its end. What it leaves running is ended with it."
    }

    fn contract(&self) -> Contract {
        Contract { keep: Keep::Both, ..Contract::default() }
    }

    fn acts(&self, arguments: &ExecArguments) -> Vec<Act> {
        vec![Act::Exec(arguments.argv.clone())]
    }

    async fn run(&self, cx: &CallContext, arguments: ExecArguments) -> ToolResult {
        let time = arguments.timeout_ms.map_or(DEADLINE_MS, NonZeroU64::get).min(DEADLINE_MS_MAX);
        let exec = env::Exec {
            directory: at(arguments.directory.as_ref()),
            deadline: Some(Duration::from_millis(time)),
            cancel: cx.cancel.clone(),
            output: cx.output.clone(),
            ..env::Exec::new(arguments.argv)
        };
        said(&cx.env.exec(exec).await?, time)
    }

    async fn preview(&self, _: &CallContext, arguments: ExecArguments) -> Option<RawJson> {
        let directory = at(arguments.directory.as_ref());
        RawJson::of(&Preview { argv: &arguments.argv, directory }).ok()
    }
}

/// How a program ended, in one line.
fn said(exit: &Exit, time: u64) -> ToolResult {
    if exit.was_cancelled {
        return Err(ToolError::outcome("stopped before it was done", Outcome::Cancelled));
    }
    if exit.timed_out {
        return Err(ToolError::outcome(format!("timed out after {time} ms"), Outcome::TimedOut));
    }
    match (exit.code, exit.signal) {
        (Some(0), _) => Ok("exit code 0".into()),
        (Some(code), _) => Err(ToolError::new(format!("exit code {code}"))),
        (None, Some(signal)) => Err(ToolError::new(format!("killed by signal {signal}"))),
        (None, None) => Err(ToolError::new("ended, and nobody can say how")),
    }
}
