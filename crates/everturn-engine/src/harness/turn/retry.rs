//! How long to wait before a request is sent again.

use std::time::Duration;

use everturn_core::{clock::Entropy, model::Fault};

use crate::world::millis;

/// The longest wait before the first retry of our own accord; it doubles with each.
const FIRST: Duration = Duration::from_secs(2);
/// The longest wait of our own accord.
const LONGEST: Duration = Duration::from_secs(60);

/// How long to wait after a fault: as the server asks, else anything up to a bound that doubles with each retry, so that
/// requests that failed together do not come back together.
pub(in crate::harness) fn wait(fault: &Fault, retries: u32, entropy: &dyn Entropy) -> Duration {
    fault.wait().unwrap_or_else(|| {
        let bound = FIRST.saturating_mul(2_u32.saturating_pow(retries)).min(LONGEST);
        let bound = millis(bound);
        let mut random = [0; 8];
        entropy.fill(&mut random);
        Duration::from_millis(u64::from_le_bytes(random) % (bound + 1))
    })
}
