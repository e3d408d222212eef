//! Runs Everturn sessions: the line of commits, documents, tasks and turns.
//!
//! [`session`] is the kernel: a durable, typed store for conversations that knows nothing of models or tools.
//! [`harness`] is built on it in the open: turns and calls are tasks, what an agent is is a document, what happened is
//! entries.

mod archive;
pub mod harness;
mod keeping;
pub mod session;
mod world;

pub use harness::{
    Agent, AgentChange, Answer, ConversationHandle, Current, Event, EventKind, Events, Extension, Harness,
    Input, LiveSession, Models, Registry, SessionSpec, Settings, Submission, TurnEnd, TurnRecord, TurnView,
    WhenBusy,
};
pub use session::{BlobWriter, NewTask, Opener, Session, SessionReader, Transaction, WorkContext, watch};
pub use world::{SystemClock, SystemEntropy, World};
