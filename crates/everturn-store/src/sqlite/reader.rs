//! The readers: a few threads, each with a connection that cannot write.

#[cfg(test)]
mod tests;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use everturn_core::error::{Error, Result};
use futures_channel::oneshot;
use rusqlite::Connection;

use super::{
    connection::Place,
    fault::Outcome,
    queue::{Abandon, Queue},
};

/// How many threads read. Reads are short; more would only share the same two disks and caches.
const READERS: usize = 3;

type Job = Box<dyn FnOnce(&mut Connected<'_>) + Send>;

/// The threads that read.
pub(super) struct Readers {
    queue: Arc<Queue<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(place: &Arc<Place>) -> Self {
        let queue = Arc::new(Queue::new());
        let start = |_| {
            let (queue, place) = (Arc::clone(&queue), Arc::clone(place));
            thread::spawn(move || run(&queue, &place))
        };
        let threads = (0..READERS).map(start).collect();
        Self { queue, threads }
    }

    /// Does `work` in one read transaction, on a thread that may wait for the disk.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        attempted: String,
        work: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.queue.push(Box::new(move |connected| {
            // Nobody waits any more when the caller was dropped.
            if !answer.is_canceled() {
                let _gone = answer.send(connected.read(&attempted, work));
            }
        }));
        let closed = |_| Error::closed("the store's readers have ended");
        answered.await.map_err(closed)?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A panic of a reader was its caller's to see.
            let _panic = thread.join();
        }
    }
}

fn run(queue: &Queue<Job>, place: &Place) {
    let _last = Abandon(queue);
    let mut connected = Connected { place, connection: None };
    while let Some(Some(job)) = queue.take(std::collections::VecDeque::pop_front) {
        job(&mut connected);
    }
}

/// A connection that is opened when it is first needed, and again after the machine failed it.
struct Connected<'a> {
    place: &'a Place,
    connection: Option<Connection>,
}

impl Connected<'_> {
    /// Work that panics takes its connection along, and nothing else.
    fn read<T>(&mut self, attempted: &str, work: impl FnOnce(&Connection) -> Outcome<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(|| self.try_read(attempted, work))).unwrap_or_else(|_| {
            self.connection = None;
            Err(Error::invalid(format!("{attempted}: reading it panicked; that is a fault of the program")))
        })
    }

    fn try_read<T>(&mut self, attempted: &str, work: impl FnOnce(&Connection) -> Outcome<T>) -> Result<T> {
        let db = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.place.open_reader()?),
        };
        let outcome = in_transaction(db, work);
        if outcome.as_ref().is_err_and(super::fault::Fault::is_of_the_machine) || !db.is_autocommit() {
            self.connection = None;
        }
        outcome.map_err(|fault| fault.into_error(attempted))
    }
}

/// One view of the store for all of the work's statements.
fn in_transaction<T>(db: &Connection, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let outcome = work(db);
    db.prepare_cached("COMMIT")?.execute([])?;
    outcome
}
