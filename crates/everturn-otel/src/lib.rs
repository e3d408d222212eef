//! Everturn's telemetry, sent to an OpenTelemetry collector: the spans of sessions, turns, requests and calls, and what a
//! harness counts, as OTLP over HTTP.
//!
//! ```no_run
//! # use everturn_core::{memory::Memory, storage::Store};
//! # use everturn_engine::Harness;
//! use everturn_otel::Options;
//! use tracing_subscriber::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
//! let telemetry = everturn_otel::start(Options::new("http://127.0.0.1:4318"))?;
//! tracing_subscriber::registry().with(telemetry.layer()).init();
//!
//! let harness = Harness::builder(Store::new(Memory::new())).open().await?;
//! let counted = harness.clone();
//! telemetry.metrics(move || counted.metrics());
//! // ... turns ...
//!
//! // It waits for the collector, so not on a thread that runs turns.
//! let delivered = tokio::task::spawn_blocking(|| telemetry.shutdown()).await.expect("it does not panic");
//! println!("{} spans arrived, {} did not", delivered.spans, delivered.spans_lost);
//! # Ok(()) }
//! ```
//!
//! What was asked, answered and given leaves the process only where
//! [`Settings::trace_content`](everturn_engine::Settings::trace_content) says so. No variable
//! of the environment says what is exported or where; for a collector elsewhere, the system's proxy is used.

mod names;
mod options;
mod report;
mod reporter;
mod spans;
mod telemetry;
mod wire;

pub use options::Options;
pub use telemetry::{Delivered, Telemetry, start};
