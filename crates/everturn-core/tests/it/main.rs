//! Everything that the crate promises, tested at its edge.

#![allow(clippy::unwrap_used, reason = "what a test's helpers find is for the test to fail on")]

mod approval;
mod budget;
mod cancel;
mod compaction;
mod context;
mod document;
mod id;
mod message;
mod policy;
mod response;
mod tool;
mod verify;
