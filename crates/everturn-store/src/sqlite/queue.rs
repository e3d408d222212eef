//! Work that waits for a thread.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// A line in which work waits until a thread takes it, or until the line is closed.
pub(super) struct Queue<T> {
    line: Mutex<Line<T>>,
    changed: Condvar,
}

struct Line<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let line = Line { waiting: VecDeque::new(), closed: false };
        Self { line: Mutex::new(line), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work. When the line is closed the work is dropped, and with it the sender of its answer.
    pub(super) fn push(&self, work: T) {
        let mut line = self.lock();
        if !line.closed {
            line.waiting.push_back(work);
            self.changed.notify_one();
        }
    }

    /// Waits for work and takes of it; none when the line is closed and empty.
    pub(super) fn take<R>(&self, take: impl FnOnce(&mut VecDeque<T>) -> R) -> Option<R> {
        let mut line = self.lock();
        while line.waiting.is_empty() {
            if line.closed {
                return None;
            }
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        Some(take(&mut line.waiting))
    }

    /// Lets what waits be taken, and nothing more in.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes the line and drops what waits: for a thread that ends before its time.
    pub(super) fn abandon(&self) {
        self.close();
        let abandoned = std::mem::take(&mut self.lock().waiting);
        drop(abandoned);
    }
}

/// Abandons a queue when its thread ends, by whatever road, so that nobody waits for it.
pub(super) struct Abandon<'a, T>(pub(super) &'a Queue<T>);

impl<T> Drop for Abandon<'_, T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
