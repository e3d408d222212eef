//! What went wrong, mapped once from SQLite's codes to the kinds that callers know.

use std::fmt;

use everturn_core::error::Error;
use rusqlite::ErrorCode;

/// The result of work inside a transaction.
pub(super) type Outcome<T> = Result<T, Fault>;

/// A refusal of ours, or one of SQLite's that still lacks the words for a person.
#[derive(Debug)]
pub(super) enum Fault {
    Known(Error),
    Sql(rusqlite::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Whether the disk or the machine is to blame rather than the work: then the connection is not used again.
    pub(super) fn is_of_the_machine(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::DiskFull
                    | ErrorCode::OutOfMemory
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::FileLockingProtocolFailed
            )
        )
    }

    /// Whether there is no room.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }

    /// The error for the caller; `attempted` leads it in where SQLite was the one to refuse.
    pub(super) fn into_error(self, attempted: impl fmt::Display) -> Error {
        match self {
            Self::Known(error) => error,
            Self::Sql(error) => explain(error, &attempted),
        }
    }
}

fn explain(error: rusqlite::Error, attempted: &dyn fmt::Display) -> Error {
    let unavailable = |what: &str| Error::unavailable(format!("{attempted}: {what}"));
    match error.sqlite_error_code() {
        // The cause is left out: "database is locked" tells nobody what to do.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            unavailable("another process is writing to the store and did not finish in time; try again")
        }
        Some(ErrorCode::DiskFull) => unavailable(
            "there is no room, the disk is full or the store has reached its size limit; make room and try again",
        )
        .caused_by(error),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unavailable("the file may not be written to; check its permissions and its disk").caused_by(error)
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::CannotOpen) => {
            unavailable(&format!("{error}; nothing was stored, check the disk")).caused_by(error)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::corrupt(error.to_string(), "the database file").while_(attempted)
        }
        Some(ErrorCode::TooBig) => {
            Error::too_large(format!("{attempted}: a record is larger than SQLite can hold")).caused_by(error)
        }
        Some(ErrorCode::ConstraintViolation) => {
            Error::invalid(format!("{attempted}: {error}")).caused_by(error)
        }
        Some(_) => Error::closed(format!("{attempted}: {error}")).caused_by(error),
        None => unreadable(error, attempted),
    }
}

/// Faults that rusqlite itself raises: values that do not fit.
fn unreadable(error: rusqlite::Error, attempted: &dyn fmt::Display) -> Error {
    use rusqlite::Error as Sql;
    match &error {
        Sql::ToSqlConversionFailure(_) => {
            let message = format!("{attempted}: a number is too large to be stored: {error}");
            Error::invalid(message).caused_by(error)
        }
        Sql::FromSqlConversionFailure(..)
        | Sql::IntegralValueOutOfRange(..)
        | Sql::InvalidColumnType(..)
        | Sql::Utf8Error(..) => Error::corrupt(error.to_string(), "a row").while_(attempted),
        _ => Error::closed(format!("{attempted}: {error}")).caused_by(error),
    }
}
