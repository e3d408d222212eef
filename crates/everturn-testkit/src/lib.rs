//! What tests of Everturn share: the suites that every implementation of a port runs, what can be put around a store, a
//! scripted model, a clock of their own, and a record of what passes through any model.
//!
//! A promise of a port is a plain async function here, written once and listed once. A new backend gets them all from
//! one line: [`store_suite!`], and an environment from [`env_suite!`].
//!
//! # A backend of your own
//!
//! Implement [`Storage`](everturn_core::storage::Storage) and run the suite on it. Each promise gets a fresh, empty store,
//! opened for [`store::scene::OWNER`] where yours asks for an owner; the times that matter are in the arguments.
//! `tests/it/stranger.rs` of this crate is a whole backend that was written from the port alone: a log of what happened,
//! read again for every answer. Start from there, and run the suite behind the wrappers below too.
//!
//! ```
//! mod mine {
//!     # use everturn_core::memory::Memory as Mine;
//!     use everturn_core::storage::Store;
//!     use everturn_testkit::{faulty::Faults, retrying, slow};
//!
//!     mod bare {
//!         # use super::*;
//!         everturn_testkit::store_suite!(async { Store::new(Mine::new()) });
//!     }
//!
//!     mod slow_and_faulty {
//!         # use super::*;
//!         everturn_testkit::store_suite!(async {
//!             let slow = slow::around(Store::new(Mine::new()), 7);
//!             retrying::around(Faults::when(|_, number| number % 2 == 1).around(slow))
//!         });
//!     }
//! }
//! ```
//!
//! # Around a store
//!
//! [`faulty`] refuses, [`slow`] lets others go first, [`late`] loses answers, [`counting`] counts,
//! [`watched`] tells; [`retrying`] and [`resending`] do what a caller does about the first and the third.

mod block_on;
pub mod counting;
pub mod env;
pub mod faulty;
pub mod late;
pub mod manual;
mod operations;
pub mod recorded;
pub mod resending;
pub mod retrying;
pub mod scripted;
pub mod slow;
pub mod store;
pub mod strict;
pub mod watched;
mod yield_now;

pub use block_on::block_on;
pub use yield_now::yield_now;
