//! The command.

#[allow(dead_code, reason = "what writes to the terminal comes later")]
mod clean;

fn main() {}
