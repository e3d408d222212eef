//! Runs Everturn sessions: the line of commits, documents, tasks and turns.
//!
//! [`session`] is the kernel: a durable, typed store for conversations that knows nothing of models or tools.
//! [`task`] runs what must finish, whatever happens to the process: durable state machines of the application's own.
//! [`harness`] is built on both in the open: turns and calls are tasks, what an agent is is a document, what happened is
//! entries.

mod archive;
pub mod extension;
pub mod harness;
mod keeping;
pub mod metrics;
mod registry;
pub mod session;
pub mod task;
pub mod tool;
mod world;

pub use extension::Extension;
pub use harness::{
    Agent, AgentChange, Answer, ApproveAll, Approver, Branch, CallOrder, Choice, ConversationHandle,
    ConversationView, Current, Ended, Event, EventKind, Events, Harness, Input, Letter, LiveSession, Models,
    QueueMode, Sender, SessionSpec, Settings, Submission, Taking, TaskHandle, Todo, TodoItem, TodoStatus,
    TurnEnd, TurnOptions, TurnRecord, TurnView, WhenBusy, Worker, WorkerSettings, session_tools, view,
};
pub use metrics::{Metrics, Observer, TurnStatus, TurnSummary};
pub use registry::Registry;
pub use session::{BlobWriter, NewTask, Opener, Session, SessionReader, Transaction, WorkContext, watch};
pub use task::{Step, Task, TaskContext, TaskError};
pub use world::{SystemClock, SystemEntropy, World};
