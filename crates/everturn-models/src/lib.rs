//! The model providers behind Everturn's model port ([`everturn_core::model`]).
//!
//! Own thin clients over one HTTP seam: a durable log needs the provider's items as they came. Each provider is a
//! folder with the same files: `wire` (its JSON), `encode` (a request to bytes) and `decode` (bytes to deltas), the
//! latter two pure.
//!
//! | feature | adds |
//! | --- | --- |
//! | `chat` | [`chat`]: Chat Completions at any base URL, over HTTP |
//! | `demo` | [`demo`]: the model of the first run, in process |
//!
//! This crate knows no session, store or tool, and reads no environment: keys and addresses are handed to it.

#[cfg(feature = "chat")]
pub mod answer;
#[cfg(feature = "chat")]
pub mod chat;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(feature = "chat")]
mod escapes;
#[cfg(feature = "chat")]
mod http;
pub mod sse;

#[cfg(feature = "chat")]
pub use chat::{Chat, ChatConfig};
#[cfg(feature = "demo")]
pub use demo::Demo;
