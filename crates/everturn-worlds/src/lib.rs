//! Worlds in which Everturn is tried out: processes that are killed, and benches. Not published.

pub mod scenario;
