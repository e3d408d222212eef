//! What the writer's thread holds: its connection, and how a group becomes a transaction.

#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use everturn_core::{
    error::{Error, Result},
    storage::Durability,
};
use rusqlite::Connection;

use super::{Counts, Request, Whose};
use crate::sqlite::{
    checkpoint::{Bell, CAP_PAGES, GROWN_PAGES, checkpoint},
    connection::Place,
    doorbell::Rope,
    fault::{Fault, Outcome},
    file, session,
};

/// The connection that writes, and what is known of its log.
pub(super) struct Line {
    place: Arc<Place>,
    /// None after an I/O error: nothing is tried again on a connection that has seen one.
    connection: Option<Connection>,
    /// The file that was opened, whatever its name stands for later.
    identity: Option<(u64, u64)>,
    /// Whether the log may lack what it seems to hold: a sync failed, and it was not cut since.
    is_doubtful: bool,
    durability: Durability,
    wal: Wal,
    /// Tells who waits for changes.
    rope: Rope,
    counts: Arc<Counts>,
}

/// The size of the write-ahead log, in pages, and when the checkpointer was last called.
struct Wal {
    pages: Arc<AtomicU32>,
    called_at: u32,
    /// From how many pages on the writer cuts the log itself.
    cap: u32,
    bell: Bell,
}

/// Why no request of a group has its answer yet.
enum Stop {
    /// No transaction began: the file is busy, or cannot be opened.
    Unbegun(Error),
    /// Nothing was stored, and that is certain.
    Refused(Error),
    /// The answer to COMMIT was an I/O error: what is stored has to be looked up.
    Uncertain(Fault),
}

impl Line {
    pub(super) fn new(
        connection: Connection,
        place: Arc<Place>,
        (bell, rope): (Bell, Rope),
        counts: Arc<Counts>,
    ) -> Self {
        let wal = Wal { pages: Arc::new(AtomicU32::new(0)), called_at: 0, cap: CAP_PAGES, bell };
        let identity = file::identity(place.path());
        let mut line = Self {
            place,
            connection: None,
            identity,
            is_doubtful: false,
            durability: Durability::Durable,
            wal,
            rope,
            counts,
        };
        // Without the hook the log is checkpointed when the store closes.
        line.connection = line.wal.watch(connection).ok();
        // What was there before may have been left by a crash.
        line.wipe_log();
        line
    }

    /// Stores a group and answers it.
    pub(super) fn commit(&mut self, mut group: Vec<Request>) {
        let stored = match &mut group[..] {
            [request] if request.ticket.whose == Whose::Alone => self.do_alone(request),
            group => self.store(group),
        };
        match stored {
            Ok(()) => group.into_iter().for_each(|request| request.reply(None)),
            Err(Stop::Unbegun(error)) => group.into_iter().for_each(|request| request.reply(Some(&error))),
            Err(Stop::Refused(error)) if group.len() == 1 => {
                group.into_iter().for_each(|request| request.reply(Some(&error)));
            }
            // One of them may be to blame, so each gets a transaction of its own.
            Err(Stop::Refused(_)) => group.into_iter().for_each(|request| self.commit(vec![request])),
            Err(Stop::Uncertain(fault)) => self.look_up(group, fault),
        }
        if self.connection.as_ref().is_some_and(|connection| self.wal.after_commit(connection)) {
            self.at_once(Wal::cut);
        }
    }

    /// Does what SQLite does not do inside of a transaction.
    fn do_alone(&mut self, request: &mut Request) -> Result<(), Stop> {
        self.check_place().map_err(Stop::Unbegun)?;
        self.reopen().map_err(Stop::Unbegun)?;
        self.set_durability(Durability::Durable).map_err(unbegun)?;
        let connection = self.connection.as_ref().expect("it was just reopened");
        if let Err(fault) = request.job.run(connection) {
            if fault.is_of_the_machine() || !connection.is_autocommit() {
                self.connection = None;
            }
            request.failure = Some(fault.into_error(&request.ticket.attempted));
        }
        Ok(())
    }

    fn store(&mut self, group: &mut [Request]) -> Result<(), Stop> {
        self.check_place().map_err(Stop::Unbegun)?;
        self.reopen().map_err(Stop::Unbegun)?;
        let durability = group.iter().map(|request| request.ticket.durability).max();
        self.set_durability(durability.unwrap_or(Durability::Durable)).map_err(unbegun)?;
        let connection = self.connection.as_ref().expect("it was just reopened");
        execute(connection, "BEGIN IMMEDIATE").map_err(unbegun)?;
        let before = connection.total_changes();
        if let Err(stop) = write(connection, group) {
            let _rolled_back = execute(connection, "ROLLBACK");
            self.connection = None;
            return Err(stop);
        }
        let wrote = connection.total_changes() > before;
        if wrote {
            self.rope.ring();
        }
        let commits = group.iter().filter(|request| request.failure.is_none() && request.job.is_commit());
        let commits = commits.count() as u64;
        self.counts.add(commits, wrote && self.durability == Durability::Durable);
        self.wipe_log();
        Ok(())
    }

    /// Cuts a log in which something lies that was taken away. While a reader needs the log, that waits for the next
    /// commit, or for the end.
    fn wipe_log(&mut self) {
        if self.wal.bell.is_soiled() {
            self.at_once(|wal, connection| {
                let _later = wal.bell.wipe(connection);
            });
        }
    }

    /// Does work on the log for which no commit has to wait: who reads for long puts it off.
    fn at_once(&mut self, work: impl FnOnce(&mut Wal, &Connection)) {
        let Some(connection) = self.connection.as_mut() else { return };
        if self.place.at_once(connection, |connection| work(&mut self.wal, connection)).is_err() {
            self.connection = None;
        }
    }

    /// A file whose name was taken away is gone when we close it, and so would be what is committed to it now.
    fn check_place(&self) -> Result<()> {
        let path = self.place.path();
        if file::identity(path) == self.identity {
            return Ok(());
        }
        Err(Error::corrupt("it was removed or replaced while it was open", path.display().to_string()))
    }

    /// Sets what COMMIT waits for. SQLite takes it between transactions only.
    fn set_durability(&mut self, durability: Durability) -> Outcome<()> {
        if let Some(connection) = self.connection.as_ref()
            && self.durability != durability
        {
            let synchronous = match durability {
                Durability::Durable => "FULL",
                Durability::Relaxed => "NORMAL",
            };
            connection.pragma_update(None, "synchronous", synchronous)?;
            self.durability = durability;
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        if self.connection.is_none() {
            let connection = self.place.open_writer()?;
            let watched = self.wal.watch(connection);
            let explain = |fault: Fault| fault.into_error("reopen the store");
            self.connection = Some(watched.map_err(explain)?);
            self.durability = Durability::Durable;
        }
        if self.is_doubtful { self.cut_log() } else { Ok(()) }
    }

    /// Answers a group whose COMMIT met an I/O error.
    ///
    /// A sync that failed is never tried again: the log's pages count as written then, whether they are or not. A new
    /// connection moves the log into the file instead and cuts it, so that what it shows afterwards is what is stored.
    /// Until that succeeds no request is answered by what the log shows, and nothing is written to it.
    fn look_up(&mut self, group: Vec<Request>, fault: Fault) {
        self.is_doubtful = true;
        let cut = self.reopen();
        let cause = fault.into_error("commit");
        // It may be stored.
        self.rope.ring();
        for request in group {
            match &cut {
                _ if request.failure.is_some() => request.reply(None),
                Ok(()) => self.settle(request, &cause),
                Err(_) => request.leave_open(&cause),
            }
        }
    }

    fn cut_log(&mut self) -> Result<()> {
        let connection = self.connection.as_ref().expect("it was just reopened");
        let cut = self.wal.bell.cut(connection);
        self.is_doubtful = cut.is_err();
        if self.is_doubtful {
            self.connection = None;
        }
        cut.map_err(|fault| Fault::Sql(fault).into_error("empty the log after the disk failed"))
    }

    /// Finds out what became of a request, once the log was cut.
    fn settle(&mut self, mut request: Request, cause: &Error) {
        let (Whose::Session(session), Some(proof)) = (request.ticket.whose, request.ticket.proof) else {
            return self.repeat(request, cause);
        };
        let held = self.connection.as_ref().map(|connection| session::holds(connection, session, proof));
        match held {
            Some(Ok(true)) => self.counts.add(u64::from(request.job.is_commit()), true),
            Some(Ok(false)) => {
                let attempted = &request.ticket.attempted;
                let message = format!("{attempted}: {cause}; it was looked up and is not stored, try again");
                request.failure = Some(Error::unavailable(message).caused_by(cause.clone()));
            }
            Some(Err(_)) | None => return request.leave_open(cause),
        }
        request.reply(None);
    }

    /// Does again what does no harm when it is done twice, and tells nobody whether it is stored.
    fn repeat(&mut self, request: Request, cause: &Error) {
        let mut again = [request];
        let stored = self.store(&mut again);
        self.is_doubtful |= matches!(stored, Err(Stop::Uncertain(_)));
        let [request] = again;
        match stored {
            Ok(()) => request.reply(None),
            Err(_) => request.leave_open(cause),
        }
    }
}

fn unbegun(fault: Fault) -> Stop {
    Stop::Unbegun(fault.into_error("begin to write"))
}

fn refused(fault: Fault) -> Stop {
    Stop::Refused(fault.into_error("write"))
}

/// Writes a group in the transaction that has begun, and commits it.
fn write(db: &Connection, group: &mut [Request]) -> Result<(), Stop> {
    let alone = group.len() == 1;
    for request in &mut *group {
        let guarded = if alone { request.job.run(db) } else { guarded(db, request) };
        match guarded {
            Ok(()) => {}
            Err(fault) if fault.is_of_the_machine() || db.is_autocommit() => return Err(refused(fault)),
            Err(fault) => request.failure = Some(fault.into_error(&request.ticket.attempted)),
        }
    }
    if group.iter().all(|request| request.failure.is_some()) {
        return execute(db, "ROLLBACK").map_err(refused);
    }
    execute(db, "COMMIT").map_err(|fault| match fault {
        // The frame that commits is the last to be written, and there was no room for it.
        full if full.is_full() => refused(full),
        other => Stop::Uncertain(other),
    })
}

/// Runs a request so that its failure takes back what it wrote, and nothing else.
fn guarded(db: &Connection, request: &mut Request) -> Outcome<()> {
    execute(db, "SAVEPOINT batch")?;
    let outcome = request.job.run(db);
    if outcome.is_err() && !db.is_autocommit() {
        execute(db, "ROLLBACK TO batch")?;
    }
    if !db.is_autocommit() {
        execute(db, "RELEASE batch")?;
    }
    outcome
}

fn execute(db: &Connection, sql: &str) -> Outcome<()> {
    db.prepare_cached(sql)?.execute([])?;
    Ok(())
}

impl Wal {
    /// Has the connection tell the size of the log after each commit.
    fn watch(&mut self, mut connection: Connection) -> Outcome<Connection> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut _, now: std::ffi::c_int| {
            pages.store(u32::try_from(now).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(connection)
    }

    /// Keeps the log short: calls the checkpointer, and finishes what it left over. Whether it grew too long all the
    /// same, and is to be cut.
    fn after_commit(&mut self, connection: &Connection) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.called_at {
            (self.called_at, self.cap) = (0, CAP_PAGES);
        }
        if self.bell.has_swept() {
            checkpoint(connection);
        } else if pages >= self.cap {
            return true;
        } else if pages - self.called_at >= GROWN_PAGES {
            self.called_at = pages;
            self.bell.ring();
        }
        false
    }

    fn cut(&mut self, connection: &Connection) {
        // Who reads too long puts it off until the log has grown some more, so that not each commit tries.
        self.cap = match self.bell.cut(connection) {
            Ok(()) => CAP_PAGES,
            Err(_) => self.pages.load(Ordering::Relaxed) + CAP_PAGES / 4,
        };
    }
}
