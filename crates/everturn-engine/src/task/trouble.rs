//! What keeps a run from giving what it was to give, and what passes by itself.

use std::time::Duration;

use everturn_core::{Error, ErrorKind, task::TaskFailure};

use super::TaskError;

/// How much is kept of what escaped, in bytes.
const FAILURE_MAX: usize = 16 << 10;

/// What kept a run from giving what it was to give.
pub(super) enum Trouble {
    /// An error escaped.
    Escaped(TaskError),
    /// What it gave could not be stored.
    Refused(Error),
    /// It panicked.
    Panicked(String),
    /// Its deadline passed.
    TimedOut(Duration),
    /// It was told to stop, and did not.
    GivenUp,
}

impl Trouble {
    /// What a record says of it.
    pub(super) fn failure(&self) -> TaskFailure {
        match self {
            Self::Escaped(error) => within_limit(error.failure()),
            Self::Refused(error) => within_limit(TaskError::from(error.clone()).failure()),
            Self::Panicked(message) => within_limit(&TaskFailure::new("panic", message)),
            Self::TimedOut(after) => {
                TaskFailure::new("timed_out", format!("its step had not ended after {after:?}"))
            }
            Self::GivenUp => TaskFailure::new("given_up", "it was told to stop and did not"),
        }
    }

    /// After how long the same is tried again; none where it is the code that is wrong. Where code asked storage and storage
    /// refused for now, or a transaction was lost on the way to be stored, nothing is wrong with it.
    pub(super) fn passes(&self) -> Option<Passing> {
        let error = match self {
            Self::Escaped(error) => error.engine()?,
            Self::Refused(error) => error,
            Self::Panicked(_) | Self::TimedOut(_) | Self::GivenUp => return None,
        };
        // What collides in the code's own hands is its business; a transaction that expired there may have been anyone's.
        let is_lost = match self {
            Self::Refused(_) => is_loss(error),
            _ => matches!(error.kind(), ErrorKind::Expired),
        };
        match is_lost {
            true => Some(Passing::Loss(error.clone())),
            false => error.is_passing().then(|| Passing::Refusal(error.clone())),
        }
    }
}

/// What passes by itself.
pub(super) enum Passing {
    /// Storage refuses for now.
    Refusal(Error),
    /// A transaction was lost.
    Loss(Error),
}

/// A failure that can be kept, whatever its code put into it.
fn within_limit(failure: &TaskFailure) -> TaskFailure {
    let cut = |text: &str, limit: usize| text[..text.floor_char_boundary(limit)].to_owned();
    let detail = failure.detail.clone().filter(|detail| detail.get().len() <= FAILURE_MAX);
    TaskFailure { kind: cut(&failure.kind, 256), message: cut(&failure.message, FAILURE_MAX), detail }
}

/// Whether an error says that nothing was stored, for want of a transaction that still held: a process that was stopped in
/// the middle of it, or commits that the power took away.
pub(super) fn is_loss(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Expired | ErrorKind::Conflict)
}
