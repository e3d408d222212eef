//! Suites over Everturn's ports, and a scripted model.

pub mod scripted;
