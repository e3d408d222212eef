//! Durable tasks: their steps, and the twelve rules.

mod ends;
mod probe;
mod rules;
mod steps;
mod storage;
mod timers;
mod work;
