//! The doorbell: rings when this store committed something, and when another process did.
//!
//! What this store commits, the writer rings for. What others commit is only seen by looking, so one thread looks, but
//! only while someone waits.

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use event_listener::Event;
use rusqlite::Connection;

use super::{connection::Place, fault::Outcome};

/// How long the thread rests between two looks.
const REST: Duration = Duration::from_millis(25);

/// The bell, and the thread that looks for what others commit.
pub(super) struct Doorbell {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// By what the writer rings.
#[derive(Clone)]
pub(super) struct Rope(Arc<Shared>);

#[derive(Default)]
struct Shared {
    rung: AtomicU64,
    bell: Event,
    guests: Mutex<Guests>,
    changed: Condvar,
}

/// Who waits at the door.
#[derive(Default)]
struct Guests {
    waiting: usize,
    closed: bool,
}

impl Doorbell {
    /// A bell that rings by its rope, and, while someone waits, whenever `look` says that something changed.
    pub(super) fn start(mut look: impl FnMut() -> bool + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let door = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            while door.is_awaited() {
                if look() {
                    door.ring();
                }
                door.rest();
            }
        });
        Self { shared, thread: Some(thread) }
    }

    pub(super) fn rope(&self) -> Rope {
        Rope(Arc::clone(&self.shared))
    }

    /// Waits until it rang since `heard`.
    pub(super) async fn wait(&self, heard: u64) -> u64 {
        loop {
            let rings = self.shared.bell.listen();
            match self.shared.rung.load(Ordering::SeqCst) {
                rung if rung == heard => {
                    let _waits = Guest::of(&self.shared);
                    rings.await;
                }
                rung => return rung,
            }
        }
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        self.shared.guests().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _panic = thread.join();
        }
    }
}

impl Rope {
    pub(super) fn ring(&self) {
        self.0.ring();
    }
}

impl Shared {
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.bell.notify(usize::MAX);
    }

    /// Returns when there is a guest, and says no when the store closes instead.
    fn is_awaited(&self) -> bool {
        let is_quiet = |guests: &mut Guests| guests.waiting == 0 && !guests.closed;
        let guests = self.changed.wait_while(self.guests(), is_quiet);
        !guests.unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Looking costs little, but not nothing: guests that come and go do not make it more often.
    fn rest(&self) {
        let is_open = |guests: &mut Guests| !guests.closed;
        drop(self.changed.wait_timeout_while(self.guests(), REST, is_open));
    }
}

/// Someone who waits, until dropped.
struct Guest<'a>(&'a Shared);

impl<'a> Guest<'a> {
    fn of(shared: &'a Shared) -> Self {
        shared.guests().waiting += 1;
        shared.changed.notify_all();
        Self(shared)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.0.guests().waiting -= 1;
    }
}

/// Looks whether anyone else committed to the file since it last looked. The first look cannot know, and says so.
pub(super) fn look(place: Arc<Place>) -> impl FnMut() -> bool + Send + 'static {
    let mut connection: Option<Connection> = None;
    let mut seen = None;
    move || {
        let Ok(version) = version(&place, &mut connection) else {
            // What cannot be looked at now is looked at anew the next time.
            (connection, seen) = (None, None);
            return false;
        };
        seen.replace(version) != Some(version)
    }
}

/// A number that changes with each commit of any connection but the one that asks.
fn version(place: &Place, connection: &mut Option<Connection>) -> Outcome<i64> {
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(place.open_reader()?),
    };
    Ok(connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}
