//! Durable tasks: their steps, and the twelve rules, each by its number.

mod aborts;
mod code;
mod ends;
mod opening;
mod probe;
mod steps;
mod storage;
mod timers;
mod tree;
mod waits;
mod work;
