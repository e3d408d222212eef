//! The command as a person and a script use it.
#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod approvals;
mod ask;
mod bad_input;
mod doctor;
mod flags;
mod keeping;
mod kill;
mod letters;
mod place;
mod script;
mod tasks;
#[cfg(feature = "otel")]
mod telemetry;
mod terminal;
mod watching;
mod wire;
