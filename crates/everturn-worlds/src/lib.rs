//! Worlds in which Everturn is tried out: processes that are killed, and benches. Not published.

pub mod kernel;
pub mod leaping;
pub mod notebook;
pub mod operations;
pub mod scenario;
pub mod session;
pub mod still;
pub mod tasks;
