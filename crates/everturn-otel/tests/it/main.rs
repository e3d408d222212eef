//! What a collector gets of real turns.
#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod collector;
mod delivered;
mod lost;
mod scene;
