//! What a store's keeper asks for: removing what nobody needs, giving room back, proof that the file is whole.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use everturn_core::{
    clock::Timestamp,
    error::{Error, Result},
    id::SessionId,
    storage::{Durability, Swept},
    verify::Finding,
};
use futures_channel::oneshot;
use rusqlite::Connection;

use super::{
    Sqlite, blobs,
    checkpoint::Bell,
    connection::overwriting,
    fault::Outcome,
    places, session,
    writer::{Answer, Ticket, Whose},
};

/// Whether a slice of some work left more to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Yes,
    No,
}

impl Answer for More {
    fn is_commit(&self) -> bool {
        false
    }
}

/// How many were removed.
pub(super) struct Removed(pub(super) u64);

impl Answer for Removed {
    fn is_commit(&self) -> bool {
        false
    }
}

impl Sqlite {
    /// Does work in small transactions, between which others have their turn, until none is left.
    pub(super) async fn in_slices(
        &self,
        attempted: String,
        whose: Whose,
        work: impl Fn(&Connection) -> Outcome<More> + Clone + Send + 'static,
    ) -> Result<()> {
        loop {
            let ticket =
                Ticket { attempted: attempted.clone(), whose, durability: Durability::Relaxed, proof: None };
            if self.writer.write(ticket, work.clone()).await? == More::No {
                return Ok(());
            }
        }
    }

    /// Does work that reads for long, on a thread and a connection of its own. When the caller goes it ends soon.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let caller = Caller::default();
        let (gone, place) = (Arc::clone(&caller.gone), Arc::clone(&self.place));
        thread::spawn(move || {
            let done = place.open_reader().and_then(|mut db| {
                let is_gone = move || gone.load(Ordering::Relaxed);
                let watched = db.progress_handler(STEPS, Some(is_gone));
                watched.map_err(|fault| super::fault::Fault::Sql(fault).into_error("begin to read"))?;
                work(&db)
            });
            let _gone = answer.send(done);
        });
        let closed = |_| Error::closed("reading the store ended early");
        answered.await.map_err(closed)?
    }

    /// Finishes deletions, and removes blobs and uploads that nobody needs.
    pub(super) async fn sweep_now(&self, before: Timestamp) -> Result<Swept> {
        let ended = self.readers.read("look for what deletions left".to_owned(), ended).await?;
        let mut swept = Swept { blobs: 0, sessions: ended.len() as u64 };
        for session in ended {
            self.remove_contents(session).await?;
        }
        swept.blobs = self.give_up_unused(before).await?;
        self.remove_given_up().await?;
        Ok(swept)
    }

    /// Has nobody find unneeded blobs any more; tells how many they were.
    async fn give_up_unused(&self, Timestamp(before): Timestamp) -> Result<u64> {
        let (mut given_up, mut last) = (0, 0);
        loop {
            let attempted = "look for blobs that nobody needs".to_owned();
            let find = move |db: &Connection| blobs::unused(db, before, last);
            let found = self.readers.read(attempted.clone(), find).await?;
            let Some(bid) = found.last() else { return Ok(given_up) };
            last = *bid;
            let ticket =
                Ticket { attempted, whose: Whose::Keeper, durability: Durability::Relaxed, proof: None };
            let give_up = move |db: &Connection| blobs::give_up_unused(db, before, &found);
            given_up += self.writer.write(ticket, give_up).await?.0;
        }
    }

    /// Removes the bytes of blobs and uploads that were given up.
    pub(super) async fn remove_given_up(&self) -> Result<()> {
        let bell = self.bell.clone();
        let remove = move |db: &Connection| {
            let more = overwriting(db, || blobs::remove_some(db))?;
            if more == More::Yes {
                bell.soil();
            }
            Ok(more)
        };
        self.in_slices("remove blobs that nobody needs".to_owned(), Whose::Keeper, remove).await
    }

    /// Rewrites the file without its free pages.
    ///
    /// Errors: `Unavailable` while another process has it open, for its commits would wait all the while.
    pub(super) async fn vacuum_now(&self) -> Result<()> {
        let attempted = "vacuum the store".to_owned();
        if let Some(other) = self.owners.other() {
            return Err(Error::unavailable(format!(
                "{attempted}: {other} has it open too; close it there, and try again"
            )));
        }
        let ticket = Ticket { attempted, whose: Whose::Alone, durability: Durability::Durable, proof: None };
        let bell = self.bell.clone();
        self.writer.write(ticket, move |db| vacuum(db, &bell)).await
    }

    /// What SQLite itself finds to be wrong.
    pub(super) async fn check_now(&self) -> Result<Vec<Finding>> {
        let explain = |fault: super::fault::Fault| fault.into_error("check the store");
        self.aside(move |db| check(db).map_err(explain)).await
    }
}

/// How many steps of SQLite's own machine lie between two looks at whether the caller is still there.
const STEPS: std::ffi::c_int = 10_000;

/// Says that it is gone when it is dropped.
#[derive(Default)]
struct Caller {
    gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// Sessions that have ended and have contents.
fn ended(db: &Connection) -> Outcome<Vec<SessionId>> {
    let sql = "SELECT id FROM session INDEXED BY session_deleted WHERE deleted = 0 ORDER BY sid";
    let mut find = db.prepare_cached(sql)?;
    let found = find.query_map([], |row| session::id_at(row, 0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn vacuum(db: &Connection, bell: &Bell) -> Outcome<()> {
    let free: i64 = db.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free == 0 {
        return Ok(());
    }
    // The copy that SQLite makes on the way may be larger than the memory.
    db.pragma_update(None, "temp_store", "FILE")?;
    let vacuumed = db.execute_batch("VACUUM");
    db.pragma_update(None, "temp_store", "MEMORY")?;
    vacuumed?;
    Ok(bell.wipe(db)?)
}

fn check(db: &Connection) -> Outcome<Vec<Finding>> {
    let mut lines = db.prepare("PRAGMA integrity_check(100)")?;
    let lines = lines.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let wrong = lines.into_iter().filter(|line| line != "ok");
    let mut findings: Vec<_> =
        wrong.map(|what| Finding { record: "the database file".to_owned(), what }).collect();
    let mut orphans = db.prepare("PRAGMA foreign_key_check")?;
    let orphans = orphans.query_map([], |row| {
        let (table, row_id, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let row_id = row_id.map_or_else(String::new, |row_id| format!(", row {row_id}"));
        let what = format!("the {parent} that it refers to is not there");
        Ok(Finding { record: format!("table {table}{row_id}"), what })
    })?;
    findings.extend(orphans.collect::<Result<Vec<_>, _>>()?);
    let astray = places::astray(db)?.into_iter().map(|rid| Finding {
        record: format!("table entry, row {rid}"),
        what: "the row and its place do not know each other".to_owned(),
    });
    findings.extend(astray);
    Ok(findings)
}
