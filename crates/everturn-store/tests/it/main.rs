//! The SQLite store: the promises of the port, and those of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod crash;
mod damage;
mod deleted;
mod files;
mod format;
mod group;
mod migration;
mod opening;
mod reference;
mod sharing;
mod size;
mod suite;
mod trouble;
