//! How things end: a session with all of its contents, an entry's contents, a session's older history.

#[cfg(test)]
mod tests;

use everturn_core::{
    entry::EntryRecord,
    error::{Error, Result},
    id::{Epoch, OwnerId, Seq, SessionId, TaskId},
    storage::Durability,
    task::TaskRecord,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    Sqlite,
    body::Body,
    commit::Target,
    connection::overwriting,
    fault::Outcome,
    places, search, session, tasks,
    upkeep::More,
    writer::{Proof, Ticket, Whose},
};

/// How much of a session one transaction removes, so that nobody waits long for it.
const ROWS_AT_ONCE: u64 = 64;
const BYTES_AT_ONCE: u64 = 512 << 10;

impl Sqlite {
    /// Ends a session for everyone at once, and then removes its contents.
    pub(super) async fn end(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let ticket = Ticket {
            attempted: format!("delete session {session}"),
            whose: Whose::Session(session),
            durability: Durability::Durable,
            proof: Some(Proof::Tombstone),
        };
        self.writer.write(ticket, move |db| mark(db, session, owner, epoch)).await?;
        // The session has ended, whatever happens now; the next sweep removes what this leaves.
        let _rest = self.remove_contents(session).await;
        Ok(())
    }

    /// Removes what a session that has ended left, in many small transactions.
    pub(super) async fn remove_contents(&self, session: SessionId) -> Result<()> {
        let bell = self.bell.clone();
        let attempted = format!("remove the contents of session {session}");
        self.in_slices(attempted, Whose::Session(session), move |db| {
            let more = overwriting(db, || remove_some(db, session))?;
            if more == More::No {
                bell.soil();
            }
            Ok(more)
        })
        .await
    }
}

/// Takes everything from a session's row but what keeps its id and its epochs from being used again.
fn mark(db: &Connection, session: SessionId, owner: OwnerId, epoch: Epoch) -> Outcome<()> {
    let found = session::ownership(db, session)?;
    if !found.is_held_by(owner, epoch) {
        return Err(Error::fenced(format!(
            "delete session {session} in epoch {epoch}: the session is in epoch {}; open it again",
            found.epoch
        ))
        .into());
    }
    let sql = "UPDATE session SET deleted = 0, owner = NULL, until = NULL, due = NULL, request = NULL,
        parent = NULL, title = NULL, labels = '{}' WHERE sid = ?1";
    db.prepare_cached(sql)?.execute([found.sid])?;
    Ok(())
}

/// Rows of a session: how some of them are found, with their keys and sizes, and how one is removed.
struct Rows {
    find: &'static str,
    remove: &'static str,
}

macro_rules! rows {
    ($table:literal, $key:literal, $size:literal) => {
        Rows {
            find: concat!("SELECT ", $key, ", ", $size, " FROM ", $table, " WHERE sid = ?1 LIMIT ?2"),
            remove: concat!("DELETE FROM ", $table, " WHERE sid = ?1 AND ", $key, " = ?2"),
        }
    };
}

/// What a session has beside its entries. Revisions refer to documents and go first.
const ROWS: [Rows; 10] = [
    Rows {
        find: "SELECT rid, octet_length(body) FROM revision
            WHERE did IN (SELECT did FROM document WHERE sid = ?1) LIMIT ?2",
        remove: "DELETE FROM revision WHERE rid = ?2
            AND EXISTS (SELECT 1 FROM document WHERE document.did = revision.did AND sid = ?1)",
    },
    rows!("document", "did", "octet_length(record)"),
    rows!("task", "id", "octet_length(body)"),
    rows!("submission", "id", "octet_length(body)"),
    rows!("approval", "id", "octet_length(body)"),
    rows!("usage", "rid", "octet_length(body)"),
    rows!("mail", "mid", "octet_length(body)"),
    rows!("conversation", "id", "octet_length(body)"),
    rows!("epoch", "epoch", "0"),
    rows!("blob_use", "bid", "0"),
];

/// Removes some of the contents of a session that has ended; notes in its row when nothing is left.
fn remove_some(db: &Connection, session: SessionId) -> Outcome<More> {
    let sql = "SELECT sid FROM session WHERE id = ?1 AND deleted = 0";
    let found = db.prepare_cached(sql)?.query_row([session.to_string()], |row| row.get(0)).optional()?;
    let Some(sid) = found else { return Ok(More::No) };
    let mut slice = Slice { db, sid, rows: ROWS_AT_ONCE, bytes: BYTES_AT_ONCE };
    slice.remove_contents()?;
    if slice.is_full() {
        return Ok(More::Yes);
    }
    db.prepare_cached("UPDATE session SET deleted = 1 WHERE sid = ?1")?.execute([sid])?;
    Ok(More::No)
}

/// What one transaction may still remove.
struct Slice<'a> {
    db: &'a Connection,
    sid: i64,
    rows: u64,
    bytes: u64,
}

impl Slice<'_> {
    fn is_full(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    fn remove_contents(&mut self) -> Outcome<()> {
        self.remove_entries()?;
        ROWS.iter().try_for_each(|rows| self.remove(rows))
    }

    fn remove_entries(&mut self) -> Outcome<()> {
        let find = "SELECT entry.rid, octet_length(body) FROM (
                SELECT rid FROM place WHERE sid = ?1 UNION ALL SELECT rid FROM place_new WHERE sid = ?1
            ) AS its CROSS JOIN entry ON entry.rid = its.rid LIMIT ?2";
        for rid in self.find(find)? {
            search::forget(self.db, rid)?;
            places::forget(self.db, self.sid, rid)?;
            self.db.prepare_cached("DELETE FROM entry WHERE rid = ?1")?.execute([rid])?;
        }
        search::lower_mark(self.db)
    }

    fn remove(&mut self, rows: &Rows) -> Outcome<()> {
        for key in self.find(rows.find)? {
            self.db.prepare_cached(rows.remove)?.execute([self.sid, key])?;
        }
        Ok(())
    }

    /// The keys of as many rows as still fit. One always does, however big it is.
    fn find(&mut self, sql: &str) -> Outcome<Vec<i64>> {
        let mut keys = Vec::new();
        let mut find = self.db.prepare_cached(sql)?;
        let mut rows = find.query(params![self.sid, self.rows])?;
        while !self.is_full()
            && let Some(row) = rows.next()?
        {
            keys.push(row.get(0)?);
            self.rows -= 1;
            self.bytes = self.bytes.saturating_sub(row.get(1)?);
        }
        Ok(keys)
    }
}

/// Puts what is left of an entry in its place.
pub(super) fn purge(db: &Connection, target: Target<'_>, record: &EntryRecord, body: &Body) -> Outcome<()> {
    let Some(rid) = places::find(db, (target.sid, record.conversation.0, record.id.0))? else {
        return Err(Error::invalid(format!(
            "commit to session {} at seq {}: purge entry {} of conversation {}: there is no such entry",
            target.batch.session, target.batch.seq, record.id, record.conversation
        ))
        .into());
    };
    overwriting(db, || {
        let sql = "UPDATE entry SET crc = ?1, body = ?2 WHERE rid = ?3";
        db.prepare_cached(sql)?.execute(params![body.crc, body.text, rid])?;
        search::replace(db, rid)
    })
}

/// What a trim drops beside tasks, approvals and superseded revisions.
const TRIM: [&str; 5] = [
    "UPDATE session SET floor = max(floor, ?2) WHERE sid = ?1",
    "DELETE FROM submission INDEXED BY submission_settled WHERE sid = ?1 AND live = 0 AND seq <= ?2",
    // Mail that was taken is what came since the last trim.
    "DELETE FROM mail INDEXED BY mail_key WHERE sid = ?1 AND taken <= ?2",
    "DELETE FROM revision INDEXED BY revision_seq WHERE did IN
        (SELECT did FROM document INDEXED BY document_retired WHERE sid = ?1 AND retired <= ?2)",
    "DELETE FROM document INDEXED BY document_retired WHERE sid = ?1 AND retired <= ?2",
];

// All but those that live tasks own, or wait for.
const TASKS: &str = "DELETE FROM task INDEXED BY task_ended WHERE sid = ?1 AND live = 0 AND seq <= ?2
    AND NOT EXISTS (SELECT 1 FROM task AS above
        WHERE above.sid = ?1 AND above.id = task.owner AND above.live = 1)
    AND id NOT IN (SELECT value FROM json_each(?3))";

// All but those whose calls live.
const APPROVALS: &str = "DELETE FROM approval INDEXED BY approval_over WHERE sid = ?1 AND open = 0 AND seq <= ?2
    AND NOT EXISTS (SELECT 1 FROM task AS its WHERE its.sid = ?1 AND its.id = approval.call AND its.live = 1)";

const BASES: &str = "SELECT did, (SELECT rid FROM revision INDEXED BY revision_base
        WHERE revision.did = document.did AND seq <= ?2 AND version IS NOT NULL
        ORDER BY seq DESC, rid DESC LIMIT 1) AS base
    FROM document INDEXED BY document_id WHERE sid = ?1 AND base IS NOT NULL";
const OLDER: &str = "DELETE FROM revision INDEXED BY revision_seq WHERE did = ?1 AND seq <= ?2 AND rid < ?3";

/// Drops what ended and nobody needs, and what was superseded, in commits up to `below`.
pub(super) fn trim(db: &Connection, target: Target<'_>, below: Seq) -> Outcome<()> {
    for sql in TRIM {
        db.prepare_cached(sql)?.execute(params![target.sid, below.0])?;
    }
    db.prepare_cached(APPROVALS)?.execute(params![target.sid, below.0])?;
    drop_tasks(db, target.sid, below)?;
    drop_superseded(db, target.sid, below)
}

/// Drops the tasks that have ended, but for those whose ends live tasks may still ask for.
fn drop_tasks(db: &Connection, sid: i64, below: Seq) -> Outcome<()> {
    let live = tasks::live(db, sid)?;
    let awaited: Vec<TaskId> = live.iter().flat_map(TaskRecord::members).copied().collect();
    let awaited = serde_json::to_string(&awaited).expect("ids are JSON");
    db.prepare_cached(TASKS)?.execute(params![sid, below.0, awaited])?;
    Ok(())
}

/// Drops the revisions that came before each document's newest base at `below`.
fn drop_superseded(db: &Connection, sid: i64, below: Seq) -> Outcome<()> {
    let mut bases = db.prepare_cached(BASES)?;
    let mut rows = bases.query(params![sid, below.0])?;
    let mut drop_older = db.prepare_cached(OLDER)?;
    while let Some(row) = rows.next()? {
        let (did, base): (i64, i64) = (row.get(0)?, row.get(1)?);
        drop_older.execute(params![did, below.0, base])?;
    }
    Ok(())
}
