//! What only the whole can show.

#![allow(
    clippy::unwrap_used,
    reason = "what a test's helpers find is for the test to fail on"
)]

mod tidy;
