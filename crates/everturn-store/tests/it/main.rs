//! The SQLite store: the promises of the port, and those of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod blobs;
mod crash;
mod damage;
mod ends;
mod files;
mod format;
mod group;
mod opening;
mod search;
mod sharing;
mod size;
mod suite;
mod trouble;
mod upkeep;
