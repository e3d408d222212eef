//! Runs Everturn sessions: the line of commits, documents, tasks and turns.
//!
//! [`session`] is the kernel: a durable, typed store for conversations that knows nothing of models or tools.

pub mod session;
mod world;

pub use session::{Opener, Session, Transaction};
pub use world::{SystemClock, SystemEntropy, World};
