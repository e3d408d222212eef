//! Turns, theme by theme: each test proves beside its own sentence that no request was illegal.

mod agent;
mod approvals;
mod children;
mod control;
mod gates;
mod inbox;
mod output;
mod prompt;
mod reload;
mod retry;
mod structured;
mod undo;
