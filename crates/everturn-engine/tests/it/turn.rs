//! Turns, theme by theme: each test proves beside its own sentence that no request was illegal.

mod agent;
mod approvals;
mod budget;
mod children;
mod compaction;
mod control;
mod deadline;
mod gates;
mod inbox;
mod letters;
mod output;
mod prompt;
mod reload;
mod retry;
mod structured;
mod undo;
