//! The model providers behind Everturn's model port ([`everturn_core::model`]).
//!
//! Own thin clients over one HTTP seam: a durable log needs the provider's items as they came. Each provider is a
//! folder with the same files: `wire` (its JSON), `encode` (a request to bytes) and `decode` (bytes to deltas), the
//! latter two pure; what all have in common is the [client](Client) and the [decoder](decoder::Decoder).
//!
//! | feature | adds |
//! | --- | --- |
//! | `anthropic` | [`anthropic`]: Messages, with signed thinking and cache marks |
//! | `chat` | [`chat`]: Chat Completions at any base URL, over HTTP |
//! | `demo` | [`demo`]: the model of the first run, in process |
//! | `gemini` | [`gemini`]: `streamGenerateContent`, with signed parts |
//! | `openai` | [`openai`]: Responses, with encrypted reasoning |
//!
//! This crate knows no session, store or tool, and reads no environment: keys and addresses are handed to it.

#[cfg(feature = "http")]
pub mod answer;
#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "http")]
pub mod catalogue;
#[cfg(feature = "chat")]
pub mod chat;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
pub mod decoder;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(feature = "http")]
mod dialect;
#[cfg(feature = "http")]
mod escapes;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(feature = "http")]
mod history;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod ids;
#[cfg(feature = "http")]
mod json;
#[cfg(feature = "openai")]
pub mod openai;
pub mod sse;

#[cfg(feature = "anthropic")]
pub use anthropic::Anthropic;
#[cfg(feature = "http")]
pub use catalogue::Catalogue;
#[cfg(feature = "chat")]
pub use chat::Chat;
#[cfg(feature = "http")]
pub use client::{Client, ClientConfig};
#[cfg(feature = "demo")]
pub use demo::Demo;
#[cfg(feature = "gemini")]
pub use gemini::Gemini;
#[cfg(feature = "openai")]
pub use openai::OpenAi;
