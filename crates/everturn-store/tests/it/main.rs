//! The SQLite store: the promises of the port, and those of its own.

mod files;
mod suite;
