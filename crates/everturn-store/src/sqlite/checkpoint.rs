//! The checkpointer: moves pages from the write-ahead log into the file, behind the writer's back.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use everturn_core::error::Result;
use rusqlite::{Connection, MAIN_DB, wal::CheckpointMode};

use super::{
    connection::Place,
    queue::{Abandon, Queue},
};

/// By how many pages the log grows before it is checkpointed: about 4 MB.
pub(super) const GROWN_PAGES: u32 = 1_000;

/// From how many pages on the writer itself checkpoints and cuts the log: 64 MB.
pub(super) const CAP_PAGES: u32 = 16_384;

/// Wakes the checkpointer. Ringing is cheap and never waits.
#[derive(Clone)]
pub(super) struct Bell(Arc<Queue<()>>);

impl Bell {
    pub(super) fn ring(&self) {
        self.0.push(());
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
        let bell = Bell(Arc::new(Queue::new()));
        let rung = Arc::clone(&bell.0);
        let thread = thread::spawn(move || run(&connection, &rung));
        Ok(Self {
            bell,
            thread: Some(thread),
        })
    }

    pub(super) fn bell(&self) -> Bell {
        self.bell.clone()
    }
}

impl Drop for Checkpointer {
    /// Checkpoints a last time, when writer and readers are gone.
    fn drop(&mut self) {
        self.bell.0.close();
        if let Some(thread) = self.thread.take() {
            let _panic = thread.join();
        }
    }
}

fn run(connection: &Connection, rung: &Queue<()>) {
    let _last = Abandon(rung);
    while rung.take(std::collections::VecDeque::clear).is_some() {
        checkpoint(connection);
    }
    checkpoint(connection);
}

/// Copies what no reader needs any more. What cannot be copied now waits for the next time; the log has it all.
fn checkpoint(connection: &Connection) {
    let _later = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE);
}
