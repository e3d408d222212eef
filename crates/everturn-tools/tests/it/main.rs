//! The tools and the directory, on real files.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod coding;
mod directory;
mod edit;
mod exec;
mod glob;
mod grep;
mod list;
mod paths;
mod project;
mod promises;
mod race;
mod read;
#[cfg(target_os = "linux")]
mod tree;
mod write;
