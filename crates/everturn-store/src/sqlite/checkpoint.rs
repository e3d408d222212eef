//! The checkpointer: moves pages from the write-ahead log into the file, behind the writer's back.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use everturn_core::error::Result;
use rusqlite::{Connection, MAIN_DB, Transaction, TransactionBehavior, wal::CheckpointMode};

use super::{
    connection::Place,
    queue::{Abandon, Queue},
    schema,
};

/// By how many pages the log grows before it is checkpointed: about 4 MB.
pub(super) const GROWN_PAGES: u32 = 1_000;

/// From how many pages on the writer itself checkpoints and cuts the log: 64 MB.
pub(super) const CAP_PAGES: u32 = 16_384;

/// Up to how many pages of log its file is kept when the store closes: 16 MB.
const KEPT_PAGES: u32 = 4_096;

/// What the writer and the checkpointer tell each other. Neither waits for the other.
#[derive(Clone)]
pub(super) struct Bell {
    rung: Arc<Queue<()>>,
    swept: Arc<AtomicBool>,
    /// Whether something lies in the log that was taken away.
    soiled: Arc<AtomicBool>,
    /// Held while the checkpointer is at work.
    broom: Arc<Mutex<()>>,
}

impl Bell {
    /// Wakes the checkpointer.
    pub(super) fn ring(&self) {
        self.rung.push(());
    }

    /// Whether the checkpointer came to the end of the log since this was last asked.
    ///
    /// SQLite starts the log over when all of it is in the file. While commits keep coming the checkpointer alone
    /// never gets there; what is left when it has just been through takes the writer a moment.
    pub(super) fn has_swept(&self) -> bool {
        self.swept.swap(false, Ordering::Relaxed)
    }

    /// Says that the log holds what was taken away, and has to be cut.
    pub(super) fn soil(&self) {
        self.soiled.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_soiled(&self) -> bool {
        self.soiled.load(Ordering::SeqCst)
    }

    /// Cuts a soiled log. What goes wrong leaves it soiled.
    pub(super) fn wipe(&self, connection: &Connection) -> rusqlite::Result<()> {
        let cut = self.cut(connection);
        self.soiled.store(cut.is_err(), Ordering::SeqCst);
        cut
    }

    /// Copies all of the log and cuts it, when the checkpointer is not at work any more.
    ///
    /// SQLite refuses a second checkpoint at once, without waiting for the first.
    pub(super) fn cut(&self, connection: &Connection) -> rusqlite::Result<()> {
        let _mine = self.broom.lock().unwrap_or_else(PoisonError::into_inner);
        connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::TRUNCATE).map(drop)
    }
}

/// The thread that checkpoints.
pub(super) struct Checkpointer {
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(place: &Place) -> Result<Self> {
        let connection = place.open_checkpointer()?;
        let bell = Bell {
            rung: Arc::new(Queue::new()),
            swept: Arc::new(AtomicBool::new(false)),
            soiled: Arc::new(AtomicBool::new(false)),
            broom: Arc::default(),
        };
        let rung = bell.clone();
        let thread = thread::spawn(move || run(&connection, &rung));
        Ok(Self { bell, thread: Some(thread) })
    }

    pub(super) fn bell(&self) -> Bell {
        self.bell.clone()
    }
}

impl Drop for Checkpointer {
    /// Checkpoints a last time, when writer and readers are gone.
    fn drop(&mut self) {
        self.bell.rung.close();
        if let Some(thread) = self.thread.take() {
            let _panic = thread.join();
        }
    }
}

fn run(connection: &Connection, bell: &Bell) {
    let _last = Abandon(&bell.rung);
    while bell.rung.take(VecDeque::clear).is_some() {
        {
            let _mine = bell.broom.lock().unwrap_or_else(PoisonError::into_inner);
            checkpoint(connection);
        }
        bell.swept.store(true, Ordering::Relaxed);
    }
    rest(connection, bell.is_soiled());
}

/// Leaves a log behind that the next to open the store need not read: all of it copied, and started over.
///
/// Another process that is reading keeps the log as it is, and closes it in its turn.
fn rest(connection: &Connection, is_soiled: bool) {
    let rest = || {
        connection.busy_timeout(Duration::ZERO)?;
        let grown = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE)?.0;
        let mode = match u32::try_from(grown) {
            Ok(pages) if is_soiled || pages > KEPT_PAGES => CheckpointMode::TRUNCATE,
            _ => CheckpointMode::RESTART,
        };
        connection.wal_checkpoint_v2(Some(MAIN_DB), mode)?;
        // SQLite starts the log over with the next write. This one changes nothing, and need not last. In one
        // transaction, for another process may be about to bring the schema up to date.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let write = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        write.pragma_update(None, "user_version", schema::version(&write)?)?;
        write.commit()
    };
    let _left_to_others = rest();
}

/// Copies what no reader needs any more. What cannot be copied now waits for the next time; the log has it all.
pub(super) fn checkpoint(connection: &Connection) {
    let _later = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE);
}
