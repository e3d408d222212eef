//! Tools that read and write files and run programs, through the call's environment.
//!
//! [`coding`] gives the tools; [`Directory`] is an environment for them: a directory of this machine (Unix). A tool
//! never opens a file or starts a process itself, so each works as well in a sandbox or a container.
//!
//! This crate knows nothing of sessions, models or policy: a tool declares its acts, and whoever calls it judges them.

mod change;
mod diff;
#[cfg(unix)]
mod directory;
mod edit;
mod exec;
mod glob;
mod grep;
mod limit;
mod list;
mod near;
mod pattern;
mod read;
mod text;
mod walk;
mod write;

use everturn_core::{
    message::Outcome,
    tool::{AnyTool, CallContext, ToolError},
};

#[cfg(unix)]
pub use directory::Directory;
pub use edit::{Edit, EditArguments, Replacement};
pub use exec::{Exec, ExecArguments};
pub use glob::{Glob, GlobArguments};
pub use grep::{Grep, GrepArguments};
pub use list::{List, ListArguments};
pub use read::{Read, ReadArguments};
pub use write::{Write, WriteArguments};

/// The tools of the extension `coding`, in the order in which a model is shown them.
///
/// ```
/// let names: Vec<_> = everturn_tools::coding().iter().map(|tool| tool.spec().name.clone()).collect();
/// assert_eq!(names, ["read", "list", "glob", "grep", "write", "edit", "exec"]);
/// ```
pub fn coding() -> Vec<AnyTool> {
    vec![
        AnyTool::new(Read),
        AnyTool::new(List),
        AnyTool::new(Glob),
        AnyTool::new(Grep),
        AnyTool::new(Write),
        AnyTool::new(Edit),
        AnyTool::new(Exec),
    ]
}

/// Ends a call that was told to stop; tools ask between pieces of work.
fn check_cancel(cx: &CallContext) -> Result<(), ToolError> {
    if cx.cancel.is_cancelled() {
        return Err(ToolError::outcome("stopped before it was done", Outcome::Cancelled));
    }
    Ok(())
}

/// Where a tool works: at the path of its call, or at the root. Models write `null` for what they leave out.
fn at(path: Option<&String>) -> String {
    path.map_or(".", String::as_str).into()
}
