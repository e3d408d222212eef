//! Code of others that runs while the session's line is held: it has its time, and no more.

use std::time::Duration;

use everturn_core::clock::Clock;

/// How long a section, a preview or the resolving of a path may take.
const WITHIN: Duration = Duration::from_secs(1);

/// What code gives that is done in time; none where it is not.
pub(super) async fn within<T>(clock: &dyn Clock, code: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = code => Some(done),
        () = clock.sleep(WITHIN) => None,
    }
}
