//! The turn: a task that is moved by one pure decision.

mod advance;
mod partial;
mod request;
mod state;
#[cfg(test)]
mod tests;

pub(super) use advance::{Turn, admit, user_entry};
pub(super) use partial::Partial;
pub(super) use request::{Attempt, step};
pub(super) use state::{Ending, FAULTED, Phase, Reason};

/// The kind of turns as tasks.
pub(crate) const KIND: &str = "et.turn";
/// The version of their records.
pub(crate) const VERSION: u32 = 1;
