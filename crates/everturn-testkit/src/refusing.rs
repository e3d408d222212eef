//! A store that refuses commits when it is told to: how a full disk looks to whoever commits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everturn_core::{Error, ErrorKind, Result};
use std::time::Duration;

/// How many of the next commits are refused. Clones share one count.
///
/// ```
/// use everturn_testkit::refusing::Refusals;
///
/// let refusals = Refusals::default();
/// refusals.refuse(1);
/// assert!(refusals.check().is_err());
/// assert!(refusals.check().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<AtomicUsize>);

impl Refusals {
    /// Refuses the next `count` commits.
    pub fn refuse(&self, count: usize) {
        self.0.store(count, Ordering::SeqCst);
    }

    /// Whether the next commit goes through.
    ///
    /// Errors: `Unavailable`, with a hint to try again at once.
    pub fn check(&self) -> Result<()> {
        let counted = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        match counted {
            Ok(_) => {
                let kind = ErrorKind::Unavailable { retry_after: Some(Duration::ZERO) };
                Err(Error::new(kind, "commit: the test refuses it"))
            }
            Err(_) => Ok(()),
        }
    }
}
