//! What tests of Everturn share: the suites that every implementation of a port runs, a scripted model, and a record of
//! what passes through any model.
//!
//! A promise of a port is a plain async function here, written once and listed once. A new backend gets them all from
//! one line: [`store_suite!`].

mod block_on;
pub mod recorded;
pub mod refusing;
pub mod scripted;
pub mod store;
pub mod watched;
mod yield_now;

pub use block_on::block_on;
pub use yield_now::yield_now;
