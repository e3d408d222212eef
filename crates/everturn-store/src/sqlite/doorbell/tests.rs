//! A bell without a file behind it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use everturn_testkit::block_on;
use futures_util::{FutureExt, future::join};

use super::Doorbell;

/// A bell whose every look sees a change, and the number of looks.
fn counted() -> (Doorbell, Arc<AtomicU64>) {
    let looks = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&looks);
    (Doorbell::start(move || count.fetch_add(1, Ordering::SeqCst) < u64::MAX), looks)
}

#[test]
fn nobody_looks_while_nobody_waits() {
    let (doorbell, looks) = counted();
    for _ in 0..100 {
        doorbell.rope().ring();
    }
    assert_eq!(block_on(doorbell.wait(0)), 100, "who comes late need not wait");
    // Dropping it joins the thread.
    drop(doorbell);
    assert_eq!(looks.load(Ordering::SeqCst), 0);
}

#[test]
fn who_waits_is_rung_for_what_is_seen_and_then_nobody_looks_again() {
    let (doorbell, looks) = counted();
    assert!(block_on(doorbell.wait(0)) > 0);
    let seen = looks.load(Ordering::SeqCst);
    drop(doorbell);
    // One look may have been on its way when the wait ended.
    assert!(looks.load(Ordering::SeqCst) <= seen + 1);
}

#[test]
fn a_wait_that_is_dropped_is_no_wait() {
    let doorbell = Doorbell::start(|| false);
    block_on(async {
        assert!(doorbell.wait(0).now_or_never().is_none());
        assert_eq!(doorbell.shared.guests().waiting, 0);
        let (first, second) = (doorbell.wait(0), doorbell.wait(0));
        let ring = async {
            assert_eq!(doorbell.shared.guests().waiting, 2);
            doorbell.rope().ring();
        };
        let ((first, second), ()) = join(join(first, second), ring).await;
        assert_eq!((first, second), (1, 1));
        assert_eq!(doorbell.shared.guests().waiting, 0);
    });
}
