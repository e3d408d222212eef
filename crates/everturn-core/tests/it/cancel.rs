//! Cancellation: who is told, and who is woken.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use everturn_core::CancelToken;

/// Counts how often it was woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait(token: &CancelToken) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut waiting = pin!(token.cancelled());
    while waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        thread::park();
    }
}

#[test]
fn a_child_is_cancelled_with_its_parent_and_never_the_other_way() {
    let session = CancelToken::new();
    let (turn, other) = (session.child(), session.child());
    let call = turn.child();
    let told = || [&session, &turn, &other, &call].map(CancelToken::is_cancelled);

    call.cancel();
    assert_eq!(told(), [false, false, false, true]);
    turn.cancel();
    assert_eq!(told(), [false, true, false, true]);
    session.cancel();
    assert_eq!(told(), [true, true, true, true]);
}

#[test]
fn a_token_between_may_be_gone() {
    let session = CancelToken::new();
    let turn = session.child();
    let calls = [turn.child(), turn.child()];
    session.cancel();
    assert!(calls.iter().all(CancelToken::is_cancelled));
}

#[test]
fn a_child_of_a_cancelled_token_is_born_cancelled() {
    let turn = CancelToken::new();
    turn.cancel();
    turn.cancel();
    assert!(turn.child().child().is_cancelled());
}

#[test]
fn clones_are_one_token() {
    let token = CancelToken::new();
    let clone = token.clone();
    let child = clone.child();
    token.cancel();
    assert!(clone.is_cancelled() && child.is_cancelled());
    assert_eq!(format!("{clone:?}"), "CancelToken { cancelled: true }");
}

#[test]
fn a_waiter_is_woken_once_and_then_ready() {
    let turn = CancelToken::new();
    let call = turn.child();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    let mut context = Context::from_waker(&waker);

    let mut waiting = pin!(call.cancelled());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(counter.0.load(Ordering::SeqCst), 0);
    turn.cancel();
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(()));

    let mut late = pin!(call.cancelled());
    assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(()), "it stays cancelled");
}

#[test]
fn a_waiter_that_went_away_takes_no_wake_from_the_others() {
    let token = CancelToken::new();
    let counters = [(); 3].map(|()| Arc::new(Counter::default()));
    let mut waiting = Vec::new();
    for counter in &counters {
        let waker = Waker::from(counter.clone());
        let mut waiter = Box::pin(token.cancelled());
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        waiting.push(waiter);
    }
    drop(waiting.remove(1));
    token.cancel();
    assert_eq!(counters.map(|counter| counter.0.load(Ordering::SeqCst)), [1, 0, 1]);
}

#[test]
fn threads_that_begin_to_wait_while_it_happens_are_all_told() {
    for _ in 0..200 {
        let session = CancelToken::new();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| wait(&session));
                // Made while the parent may be cancelled: no child slips through.
                scope.spawn(|| wait(&session.child()));
            }
            session.cancel();
        });
    }
}
