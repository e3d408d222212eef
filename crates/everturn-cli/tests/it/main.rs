//! The command as a person and a script use it.
#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod ask;
mod bad_input;
mod doctor;
mod keeping;
mod kill;
mod place;
mod tasks;
mod watching;
mod wire;
