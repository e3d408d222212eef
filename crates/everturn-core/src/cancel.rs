//! Cancellation: one token that tells running work to stop.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

use event_listener::Event;

/// Tells running work to stop. Clones share one state; a [child](Self::child) is cancelled with its parent.
///
/// Promise: once cancelled, a token stays cancelled, and everyone who waits is woken.
///
/// ```
/// use everturn_core::CancelToken;
///
/// let turn = CancelToken::new();
/// let call = turn.child();
/// turn.cancel();
/// assert!(call.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Default)]
struct State {
    cancelled: AtomicBool,
    event: Event,
    children: Mutex<Vec<Weak<State>>>,
}

impl State {
    fn cancel(&self) {
        if self.cancelled.swap(true, Ordering::AcqRel) {
            return;
        }
        self.event.notify(usize::MAX);
        let children = std::mem::take(&mut *self.children.lock().unwrap_or_else(PoisonError::into_inner));
        children.iter().filter_map(Weak::upgrade).for_each(|child| child.cancel());
    }
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is cancelled when this one is; cancelling it leaves this one alone.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::new();
        let mut children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        drop(children);
        // The parent may have been cancelled before the child was on its list.
        if self.is_cancelled() {
            child.cancel();
        }
        child
    }

    /// Tells the work to stop. Doing so again changes nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether the work was told to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Ends when the work is told to stop.
    pub async fn cancelled(&self) {
        while !self.is_cancelled() {
            let listener = self.0.event.listen();
            if self.is_cancelled() {
                return;
            }
            listener.await;
        }
    }
}

impl std::fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}
