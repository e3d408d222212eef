//! Errors, told apart by what the caller should do.

use std::{fmt, sync::Arc, time::Duration};

use crate::{clock::Timestamp, id::OwnerId};

/// The result of an Everturn operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Arc<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong: a [kind](ErrorKind) that says what to do, and a message for the person who reads it.
///
/// Shape: the message says what was attempted, on which thing, and what was found.
///
/// ```
/// use everturn_core::{Error, ErrorKind};
///
/// let error = Error::not_found("open session 0198: the store has no such session");
/// assert!(matches!(error.kind(), ErrorKind::NotFound));
/// assert_eq!(error.to_string(), "open session 0198: the store has no such session");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Source>,
    is_deleted: bool,
}

/// What the caller of a failed operation should do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The change or the argument is wrong. Nothing was stored; mend it.
    Invalid,
    /// Something is over its limit. Nothing was stored; the message names the record and the number.
    TooLarge,
    /// The thing asked for does not exist.
    NotFound,
    /// The change is outdated, or collides with what is there. Nothing was stored; read again and decide again.
    Conflict,
    /// The caller holds an open transaction and asked for what would wait for it. Use that transaction.
    Nested,
    /// The transaction was held too long and was rolled back. Begin again, and be brief.
    Expired,
    /// Storage refused with certainty: nothing was stored, the same change may be tried again.
    Unavailable {
        /// How long to wait first, where that is known.
        retry_after: Option<Duration>,
    },
    /// Someone else owns the session. Read it, or come back.
    Owned {
        /// Who holds the lease.
        by: OwnerId,
        /// When the lease ends, unless it is renewed.
        until: Timestamp,
    },
    /// Another owner holds a newer epoch: this handle can write no more. Open the session again.
    Fenced,
    /// Stored bytes contradict themselves. The session is closed and the store is left as it is.
    Corrupt {
        /// What was found to be wrong.
        what: String,
        /// The table and row.
        where_: String,
    },
    /// The session or store was closed. Open it again.
    Closed {
        /// Why it was closed.
        why: String,
    },
    /// The store or a document was written by a newer version. It was not touched; use that version.
    Newer {
        /// The version found.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new($kind, message)
        })*
    };
}

impl Error {
    /// An error of `kind` with its message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, is_deleted: false }
    }

    constructors! {
        /// A wrong change or argument.
        invalid => ErrorKind::Invalid;
        /// Something over its limit.
        too_large => ErrorKind::TooLarge;
        /// A thing that does not exist.
        not_found => ErrorKind::NotFound;
        /// An outdated or colliding change.
        conflict => ErrorKind::Conflict;
        /// A certain refusal by storage, without a hint how long to wait.
        unavailable => ErrorKind::Unavailable { retry_after: None };
        /// A writer that a newer epoch has shut out.
        fenced => ErrorKind::Fenced;
    }

    /// Stored bytes that contradict themselves: `what` is wrong at `where_` (table and row).
    pub fn corrupt(what: impl Into<String>, where_: impl Into<String>) -> Self {
        let (what, where_) = (what.into(), where_.into());
        let message = format!("read {where_}: {what}; the store was left as it is, restore it from a backup");
        Self::new(ErrorKind::Corrupt { what, where_ }, message)
    }

    /// A thing that does not exist any more, because it was deleted: `NotFound`, and the message says so.
    pub fn deleted(attempted: impl fmt::Display) -> Self {
        Self { is_deleted: true, ..Self::not_found(format!("{attempted}: it was deleted")) }
    }

    /// Whether the thing was there and was deleted.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether storage refused for now: the same may go through another time.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable { .. })
    }

    /// How long to wait before the same is tried again, where storage refused for now and said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ErrorKind::Unavailable { retry_after } => retry_after,
            _ => None,
        }
    }

    /// Something that was closed, and why.
    pub fn closed(why: impl Into<String>) -> Self {
        let why = why.into();
        let message = format!("the session is closed: {why}; open it again");
        Self::new(ErrorKind::Closed { why }, message)
    }

    /// The same error with the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error, its message led in by what was attempted.
    #[must_use]
    pub fn while_(mut self, attempted: impl fmt::Display) -> Self {
        self.message = format!("{attempted}: {}", self.message);
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
