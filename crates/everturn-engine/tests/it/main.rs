//! What sessions and turns promise, over the memory store.
#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod abort;
mod calls;
mod documents;
mod events;
mod failures;
mod keeping;
mod kernel;
mod metrics;
mod spans;
mod support;
mod tasks;
mod transaction;
mod trouble;
mod turn;
mod turns;
mod watch;
