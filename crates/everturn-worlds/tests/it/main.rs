//! Whole worlds: real processes that are killed.
#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod killed;
