//! How the command ends: its exit codes, which scripts rely on.

use std::process::ExitCode;

use everturn::{Error, ErrorKind, id::SessionId};

/// An exit code. The numbers are documented in `--help` and in the README, and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Answered = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Store = 4,
    Owned = 5,
    Unavailable = 6,
    Waits = 7,
    Cancelled = 130,
    Stopped = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why the command could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    /// Wrong arguments or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Standard output that takes no more.
    pub(crate) fn output(fault: &std::io::Error) -> Self {
        Self { exit: Exit::Unavailable, message: format!("write to standard output: {fault}") }
    }

    /// A session that was left in the middle of a turn.
    pub(crate) fn stopped(session: SessionId) -> Self {
        Self {
            exit: Exit::Stopped,
            message: format!("stopped in mid-turn; `everturn resume {session}` goes on"),
        }
    }

    /// A store that cannot be used.
    pub(crate) fn store(error: &Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Unavailable { .. } => Exit::Unavailable,
            _ => Exit::Store,
        };
        Self { exit, message: error.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Owned { .. } | ErrorKind::Fenced => Exit::Owned,
            ErrorKind::Corrupt { .. } | ErrorKind::Newer { .. } => Exit::Store,
            ErrorKind::Unavailable { .. } => Exit::Unavailable,
            ErrorKind::Closed { .. } => Exit::Stopped,
            _ => Exit::Failed,
        };
        Self { exit, message: error.to_string() }
    }
}

impl From<std::io::Error> for Failure {
    fn from(fault: std::io::Error) -> Self {
        Self { exit: Exit::Failed, message: fault.to_string() }
    }
}
