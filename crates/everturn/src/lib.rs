//! A durable agent harness: sessions that survive whatever ends the process.
//!
//! This crate is the one dependency to name: it re-exports the others by concept and has no code of its own.
//!
//! | to | see |
//! | --- | --- |
//! | run agents | [`Harness`], [`LiveSession`], [`Submission`], [`Event`] |
//! | do work that must finish | [`Task`], [`TaskHandle`], [`task`] |
//! | run what nobody has open | [`Worker`] |
//! | keep typed state beside a conversation | [`Document`], [`Transaction`] |
//! | keep conversations without agents | [`kernel`] |
//! | follow what happens | [`Events`], [`view`], [`watch`], [`Cursor`] |
//! | count what happens | [`Metrics`], [`Observer`]; for a collector, `otel` behind the feature of that name |
//! | choose a store | [`store`] |
//! | choose a model | [`models`], [`model`] |
//! | write tools | [`tool`], [`tools`] |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn::Result<()> {
//! use everturn::{Harness, Input, Models, SessionSpec, SystemClock, World, models::Demo, store};
//! use std::{sync::Arc, time::Duration};
//!
//! let models = Models::new().provider("demo", Demo::new(Arc::new(SystemClock), Duration::ZERO));
//! let store = store::open("memory:", store::Options::new(World::system().owner())).await?;
//! let harness = Harness::builder(store).models(models).open().await?;
//! let session = harness.create(SessionSpec::model("demo".parse()?)).await?;
//! let asked = session.current().await?.submit(Input::text("hello")).await?;
//! assert!(asked.answer().await?.is_answered());
//! # Ok(()) }
//! ```

pub use everturn_core::{
    BoxFuture, CancelToken, Error, ErrorKind, Result, approval, budget, clean, clock, context, conversation,
    cursor::Cursor, document, document::Document, entry, env, id, json, limits, message, model, policy,
    prompt, retention, storage, submission, usage, verify,
};
pub use everturn_engine::{
    Agent, AgentChange, Answer, ApproveAll, Approver, Branch, CallOrder, Choice, ConversationHandle,
    ConversationView, Current, Ended, Event, EventKind, Events, Extension, Harness, Input, Letter,
    LiveSession, Metrics, Models, NewTask, Observer, QueueMode, Registry, Sender, SessionReader, SessionSpec,
    Settings, Step, Submission, SystemClock, SystemEntropy, Taking, Task, TaskContext, TaskError, TaskHandle,
    Todo, TodoItem, TodoStatus, Transaction, TurnEnd, TurnOptions, TurnRecord, TurnStatus, TurnSummary,
    TurnView, WhenBusy, Worker, WorkerSettings, World, extension, metrics, session_tools, view, watch,
};

/// Work that must finish, whatever happens to the process.
pub mod task {
    pub use everturn_core::task::*;
    pub use everturn_engine::task::*;
}

/// What models call: tools, and those that need the session.
pub mod tool {
    pub use everturn_core::tool::*;
    pub use everturn_engine::tool::*;
}

/// Sessions without agents: a durable, typed store for conversations.
pub mod kernel {
    pub use everturn_core::memory::Memory;
    pub use everturn_engine::{
        BlobWriter, NewTask, Opener, Session, SessionReader, Transaction, WorkContext,
    };
}

/// Where sessions are kept.
pub mod store {
    pub use everturn_core::storage::Store;
    #[cfg(feature = "sqlite")]
    pub use everturn_store::*;
}

/// Who answers.
pub mod models {
    #[cfg(feature = "demo")]
    pub use everturn_models::Demo;
    #[cfg(feature = "anthropic")]
    pub use everturn_models::anthropic::{self, Anthropic};
    #[cfg(feature = "chat")]
    pub use everturn_models::chat::{self, Chat};
    #[cfg(feature = "gemini")]
    pub use everturn_models::gemini::{self, Gemini};
    #[cfg(feature = "openai")]
    pub use everturn_models::openai::{self, OpenAi};
    #[cfg(any(feature = "anthropic", feature = "chat", feature = "gemini", feature = "openai"))]
    pub use everturn_models::{Catalogue, ClientConfig, catalogue};
}

/// What agents can do.
#[cfg(feature = "coding")]
pub mod tools {
    pub use everturn_tools::*;
}

/// Spans and metrics for an OpenTelemetry collector.
#[cfg(feature = "otel")]
pub mod otel {
    pub use everturn_otel::*;
}
