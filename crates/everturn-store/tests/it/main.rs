//! The SQLite store: the promises of the port, and those of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod blobs;
mod crash;
mod damage;
mod deleted;
mod ends;
mod files;
mod format;
mod group;
#[cfg(target_os = "linux")]
mod machine;
mod migration;
mod opening;
mod places;
mod reference;
mod search;
mod sharing;
mod size;
mod suite;
mod trouble;
mod upkeep;
