//! Approvals: one row each, replaced as the approval is decided or becomes void.

#[cfg(test)]
mod tests;

use everturn_core::{
    approval::ApprovalRecord,
    id::ApprovalId,
    storage::{ApprovalQuery, ApprovalRow},
};
use rusqlite::{Connection, Params, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
    session,
};

const OPEN_IN: &str = "SELECT id, crc, body FROM approval INDEXED BY approval_open
    WHERE sid = ?1 AND open = 1 AND id > ?2 ORDER BY id LIMIT ?3";
const ALL_IN: &str = "SELECT id, crc, body FROM approval WHERE sid = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
// What is open is few, and sorted; the sessions are many.
const OPEN: &str = "SELECT a.id, a.crc, a.body, s.id FROM approval AS a INDEXED BY approval_open
    CROSS JOIN session AS s ON s.sid = a.sid
    WHERE a.open = 1 AND s.deleted IS NULL AND (s.id, a.id) > (?1, ?2) ORDER BY s.id, a.id LIMIT ?3";
const ALL: &str =
    "SELECT a.id, a.crc, a.body, s.id FROM session AS s CROSS JOIN approval AS a ON a.sid = s.sid
    WHERE s.deleted IS NULL AND s.id >= ?1 AND (s.id, a.id) > (?1, ?2) ORDER BY s.id, a.id LIMIT ?3";

pub(super) fn put(
    db: &Connection,
    target: Target<'_>,
    approval: &ApprovalRecord,
    body: &Body,
) -> Outcome<()> {
    let sql = "INSERT INTO approval (sid, id, seq, call, open, crc, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (sid, id) DO UPDATE SET seq = excluded.seq, call = excluded.call, open = excluded.open,
        crc = excluded.crc, body = excluded.body";
    db.prepare_cached(sql)?.execute(params![
        target.sid,
        approval.id.0,
        target.batch.seq.0,
        approval.call.0,
        approval.is_open(),
        body.crc,
        body.text,
    ])?;
    Ok(())
}

/// Errors: `NotFound` when a session is named and unknown.
pub(super) fn read(db: &Connection, query: &ApprovalQuery) -> Outcome<Vec<ApprovalRow>> {
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let Some(session) = query.session else {
        let (from, id) = query.after.map_or((String::new(), 0), |(from, id)| (from.to_string(), bound(id)));
        let sql = if query.open { OPEN } else { ALL };
        return select(db, sql, params![from, id, limit], |row| {
            Ok(ApprovalRow { session: session::id_at(row, 3)?, record: approval_at(row)? })
        });
    };
    let sid = session::known(db, session)?;
    let behind = match query.after {
        Some((from, id)) if from == session => bound(id),
        Some((from, _)) if from > session => return Ok(Vec::new()),
        _ => 0,
    };
    let sql = if query.open { OPEN_IN } else { ALL_IN };
    select(db, sql, params![sid, behind, limit], |row| Ok(ApprovalRow { session, record: approval_at(row)? }))
}

/// A number beyond what SQLite counts to is behind all others.
fn bound(id: ApprovalId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

/// The open ones of a session, in the order of their ids.
pub(super) fn open(db: &Connection, sid: i64) -> Outcome<Vec<ApprovalRecord>> {
    select(db, OPEN_IN, params![sid, 0, i64::MAX], approval_at)
}

fn select<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    read: impl Fn(&Row<'_>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(values)?;
    let mut approvals = Vec::new();
    while let Some(row) = rows.next()? {
        approvals.push(read(row)?);
    }
    Ok(approvals)
}

/// An approval from the columns of its id, its checksum and its body.
pub(super) fn approval_at(row: &Row<'_>) -> Outcome<ApprovalRecord> {
    let id: u64 = row.get(0)?;
    body::read(row, [1, 2], || format!("table approval, id {id}"))
}
