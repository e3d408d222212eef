//! Lets others go first.

use std::{future::poll_fn, task::Poll};

/// Gives the executor one chance to run something else.
///
/// ```
/// everturn_testkit::block_on(async { everturn_testkit::yield_now().await });
/// ```
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
