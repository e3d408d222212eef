//! What tests of Everturn share: the suites that every implementation of a port runs, what can be put around a store, a
//! scripted model, and a record of what passes through any model.
//!
//! A promise of a port is a plain async function here, written once and listed once. A new backend gets them all from
//! one line: [`store_suite!`].
//!
//! Around a store: [`faulty`] refuses, [`slow`] lets others go first, [`late`] loses answers, [`counting`] counts,
//! [`watched`] tells; [`retrying`] and [`resending`] do what a caller does about the first and the third.

mod block_on;
pub mod counting;
pub mod faulty;
pub mod late;
mod operations;
pub mod recorded;
pub mod resending;
pub mod retrying;
pub mod scripted;
pub mod slow;
pub mod store;
pub mod watched;
mod yield_now;

pub use block_on::block_on;
pub use yield_now::yield_now;
