//! Processes, as an environment speaks of them.

use std::{collections::BTreeMap, time::Duration};

use crate::{CancelToken, tool::Output};

/// A program to run, without a shell.
///
/// Shape: the program is looked up on `PATH` unless it has a `/`. Its environment holds `PATH`, `HOME`, `USER`, `LANG`,
/// `LC_*` and `TMPDIR` as they are, `TERM=dumb`, what the environment marks its processes with, and `variables`; nothing
/// else of what the host was given.
///
/// ```
/// use everturn_core::env::Exec;
///
/// let exec = Exec { directory: "src".into(), ..Exec::new(["wc", "-l", "a.rs"]) };
/// assert_eq!(exec.argv[0], "wc");
/// ```
#[derive(Clone, Debug)]
pub struct Exec {
    /// The program, and its arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub directory: String,
    /// Variables that it is given besides those above, or instead.
    pub variables: BTreeMap<String, String>,
    /// What it may read; nothing where there is none.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub deadline: Option<Duration>,
    /// Fires when it should stop.
    pub cancel: CancelToken,
    /// Where its output goes, piece by piece as it comes: what it says and what it complains of, in one line.
    pub output: Output,
}

impl Exec {
    /// A run at the root, without input, deadline or anybody who looks.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            directory: ".".into(),
            variables: BTreeMap::new(),
            stdin: Vec::new(),
            deadline: None,
            cancel: CancelToken::new(),
            output: Output::default(),
        }
    }
}

/// How a run ended.
///
/// ```
/// use everturn_core::env::Exit;
/// assert!(Exit { code: Some(0), ..Exit::default() }.is_success());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The exit code of the program, where it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was stopped because its time was over.
    pub timed_out: bool,
    /// Whether it was stopped because it was cancelled.
    pub was_cancelled: bool,
}

impl Exit {
    /// Whether it ended by itself, with code 0.
    pub fn is_success(&self) -> bool {
        self.code == Some(0) && !self.timed_out && !self.was_cancelled
    }
}
