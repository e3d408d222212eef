//! What the model providers promise, shown on fixtures and over a loopback socket.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod chat;
mod client;
mod clock;
mod demo;
mod encode_chat;
mod fold;
mod retry;
mod sse;
mod streams;
mod switch;
