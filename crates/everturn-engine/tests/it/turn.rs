//! Turns, theme by theme: each test proves beside its own sentence that no request was illegal.

mod agent;
mod gates;
mod inbox;
mod prompt;
mod reload;
mod retry;
mod structured;
