//! What a session is and what comes next: records, rules, ports, and the memory store.
//!
//! This crate is pure. It has no clock, no randomness, no files, no SQL and no HTTP: those come in through the
//! ports it declares ([`clock`], [`storage`], [`model`], [`tool`], [`mod@env`]), and adapters implement them.
//!
//! Read in this order: [`id`] and [`error`]; [`message`], [`entry`] and [`conversation`] (what is stored);
//! [`context`], [`prompt`] and [`compaction`] (from a transcript to a request); [`document`] (typed state beside the
//! transcript); [`task`], [`submission`], [`approval`], [`usage`] and [`budget`] (work and its account); [`storage`]
//! (the port below) with [`memory`] (its reference).

pub mod approval;
pub mod budget;
pub mod cancel;
pub mod clean;
pub mod clock;
pub mod compaction;
pub mod context;
pub mod conversation;
pub mod cursor;
pub mod document;
pub mod entry;
pub mod env;
pub mod error;
pub mod id;
pub mod json;
pub mod limits;
pub mod memory;
pub mod message;
pub mod model;
pub mod policy;
mod port;
pub mod prompt;
pub mod response;
pub mod retention;
pub mod storage;
pub mod submission;
pub mod task;
pub mod tool;
pub mod usage;
pub mod verify;

pub use cancel::CancelToken;
pub use error::{Error, ErrorKind, Result};

/// A boxed future, as the erased twin of a port returns it.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

// Lets the derive macros name this crate from inside it.
#[allow(unused_extern_crates)]
extern crate self as everturn_core;
