//! What escapes a task's code.

use std::{any::Any, fmt};

use everturn_core::{Error, ErrorKind, task::TaskFailure};

/// What escaped a task's code. Takes any error by `?`, and keeps the engine's own apart: where storage refused or the
/// session closed, the run of the code ends and not the task. Any other error faults the task.
///
/// A task that is to fail in order returns [`Step::fail`](super::Step::fail) instead.
///
/// ```
/// use everturn_engine::task::TaskError;
///
/// fn parse(text: &str) -> Result<u32, TaskError> {
///     Ok(text.parse()?)
/// }
/// let error = parse("x").unwrap_err();
/// assert_eq!(error.failure().kind, "error");
/// assert!(error.to_string().contains("invalid digit"));
/// assert_eq!(TaskError::new("declined", "no money").to_string(), "declined: no money");
/// ```
#[derive(Clone, Debug)]
pub struct TaskError(Box<Escaped>);

#[derive(Clone, Debug)]
struct Escaped {
    failure: TaskFailure,
    engine: Option<Error>,
}

impl TaskError {
    /// An error of a kind, in one word, and what happened.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Box::new(Escaped { failure: TaskFailure::new(kind, message), engine: None }))
    }

    /// What a task's record says of it.
    pub fn failure(&self) -> &TaskFailure {
        &self.0.failure
    }

    /// The engine's own error, where it is one.
    pub fn engine(&self) -> Option<&Error> {
        self.0.engine.as_ref()
    }
}

impl<E: std::error::Error + 'static> From<E> for TaskError {
    fn from(error: E) -> Self {
        let engine = (&error as &dyn Any).downcast_ref::<Error>().cloned();
        let kind = engine.as_ref().map_or("error", |error| word(error.kind()));
        Self(Box::new(Escaped { failure: TaskFailure::new(kind, error.to_string()), engine }))
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.failure.kind.as_str() {
            "error" => f.write_str(&self.0.failure.message),
            _ => write!(f, "{}", self.0.failure),
        }
    }
}

/// What kind of failure an engine's error is, in one word.
pub(crate) fn word(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::TooLarge => "too_large",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Nested => "nested",
        ErrorKind::Expired => "expired",
        ErrorKind::Unavailable { .. } => "unavailable",
        ErrorKind::Owned { .. } => "owned",
        ErrorKind::Fenced => "fenced",
        ErrorKind::Corrupt { .. } => "corrupt",
        ErrorKind::Closed { .. } => "closed",
        ErrorKind::Newer { .. } => "newer",
        _ => "error",
    }
}
