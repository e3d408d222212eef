//! One batch: the session's row moves on if owner, epoch and head are as the batch says, then come the writes.

use everturn_core::{
    error::{Error, Result},
    id::{Epoch, Seq},
    storage::{Batch, Committed, Due, Write},
};
use rusqlite::{Connection, params};

use super::{
    approvals, blobs,
    body::{Bodies, Body},
    conversations, documents, ends, entries,
    fault::Outcome,
    mail, places, session, submissions, tasks, usage,
};

const ADVANCE: &str = "UPDATE session SET head = ?1, used = ?2, minted = ?3, due = ?4, bytes = bytes + ?8
    WHERE sid = ?5 AND owner = ?6 AND epoch = ?7 AND head = ?1 - 1";

/// Where the rows of a batch belong.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) batch: &'a Batch,
    pub(super) sid: i64,
}

impl Target<'_> {
    /// The error for a record that is there and never changes.
    pub(super) fn is_there(&self, what: &str) -> Error {
        Error::invalid(format!(
            "commit to session {} at seq {}: {what} is there already, and never changes",
            self.batch.session, self.batch.seq
        ))
    }
}

/// Stores a batch with the bodies of its writes. Errors: as [`Storage::commit`](everturn_core::storage::Storage::commit) says.
pub(super) fn commit(db: &Connection, batch: &Batch, bodies: &Bodies) -> Outcome<Committed> {
    // Looked up first: RETURNING would have SQLite open and close a temporary table for each commit.
    let sid = session::known(db, batch.session)?;
    let advanced = db.prepare_cached(ADVANCE)?.execute(params![
        batch.seq.0,
        batch.time.0,
        batch.minted,
        due(batch.due),
        sid,
        batch.owner.to_string(),
        batch.epoch.0,
        bodies.weight,
    ])?;
    if advanced == 0 {
        return Ok(refuse(db, batch)??);
    }
    let target = Target { batch, sid };
    batch
        .writes
        .iter()
        .zip(&bodies.of_writes)
        .try_for_each(|(write, body)| store(db, target, write, body))?;
    batch.trims().try_for_each(|below| ends::trim(db, target, below))?;
    match batch.writes.iter().filter(|write| matches!(write, Write::Entry(_))).count() {
        0 => {}
        added => places::settle(db, added)?,
    }
    Ok(Committed::Stored)
}

fn store(db: &Connection, target: Target<'_>, write: &Write, body: &Body) -> Outcome<()> {
    match write {
        Write::Conversation(conversation) => conversations::add(db, target, conversation, body),
        Write::Entry(entry) => entries::add(db, target, entry, body),
        Write::Task(task) => tasks::put(db, target, task, body),
        Write::Submission(submission) => submissions::put(db, target, submission, body),
        Write::Approval(approval) => approvals::put(db, target, approval, body),
        Write::Document(write) => documents::revise(db, target, write, body),
        Write::Usage(_) => usage::add(db, target, body),
        Write::Title(title) => session::set_title(db, target, title),
        Write::Labels(_) => session::set_labels(db, target, body),
        Write::Taken(taken) => mail::take(db, target, taken, body),
        Write::Blob(blob) => blobs::refer(db, target, *blob),
        Write::Purge(entry) => ends::purge(db, target, entry, body),
        // It comes behind all others: only then is it known who needs what.
        Write::Trim(_) => Ok(()),
    }
}

/// Why a batch did not fit the session; being stored already is one reason.
fn refuse(db: &Connection, batch: &Batch) -> Outcome<Result<Committed>> {
    let found = session::ownership(db, batch.session)?;
    let (session, Seq(seq), Seq(head)) = (batch.session, batch.seq, found.head);
    if !found.is_held_by(batch.owner, batch.epoch) {
        return Ok(Err(fenced("commit to", batch, found.epoch)));
    }
    if seq == head {
        return Ok(Ok(Committed::Already));
    }
    let message = format!("commit to session {session} at seq {seq}: the session is at {head}");
    Ok(Err(Error::conflict(message)))
}

fn fenced(attempted: &str, batch: &Batch, found: Epoch) -> Error {
    Error::fenced(format!(
        "{attempted} session {} in epoch {}: the session is in epoch {found}; open it again",
        batch.session, batch.epoch
    ))
}

/// Milliseconds since the Unix epoch, 0 for now, none for not by itself.
fn due(due: Due) -> Option<i64> {
    match due {
        Due::Now => Some(0),
        Due::At(time) => Some(time.0),
        Due::None => None,
    }
}
