//! What only the whole can show: worlds that stop, processes that are killed, and a tree that is tidy.
#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod explorer;
mod kernel;
mod killed;
mod old;
mod processes;
mod providers;
mod session;
mod tasks;
mod tidy;
