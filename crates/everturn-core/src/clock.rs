//! The ports of time and randomness. Nothing else may ask for either.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::BoxFuture;

/// A moment: milliseconds since the Unix epoch, UTC.
///
/// ```
/// use everturn_core::clock::Timestamp;
/// use std::time::Duration;
///
/// let later = Timestamp(1_000) + Duration::from_secs(2);
/// assert_eq!(later, Timestamp(3_000));
/// assert_eq!(later.since(Timestamp(1_000)), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time from `earlier` until this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Tells the time and waits.
///
/// ```
/// use everturn_core::{BoxFuture, clock::{Clock, Timestamp}};
///
/// /// A clock that stands still and never waits.
/// struct Stopped;
/// impl Clock for Stopped {
///     fn now(&self) -> Timestamp { Timestamp(1_790_000_000_000) }
///     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(async {}) }
/// }
/// assert_eq!(Stopped.now(), Timestamp(1_790_000_000_000));
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// Ends when `duration` has passed. Dropping the future stops waiting.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Gives random bytes.
///
/// ```
/// use everturn_core::clock::Entropy;
///
/// /// The same bytes each time: a world that can be played again.
/// struct Fixed;
/// impl Entropy for Fixed {
///     fn fill(&self, bytes: &mut [u8]) { bytes.fill(7); }
/// }
/// let mut bytes = [0; 2];
/// Fixed.fill(&mut bytes);
/// assert_eq!(bytes, [7, 7]);
/// ```
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with randomness.
    fn fill(&self, bytes: &mut [u8]);
}
