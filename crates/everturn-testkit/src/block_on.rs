//! Waits for a future without a runtime.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which sleeps while there is nothing to do.
///
/// ```
/// assert_eq!(everturn_testkit::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            // A waker that was called in between lets the thread pass at once.
            Poll::Pending => thread::park(),
        }
    }
}
