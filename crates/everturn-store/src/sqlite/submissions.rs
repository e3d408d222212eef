//! Submissions: one row each, replaced as the submission moves.

use everturn_core::{error::Error, storage::SubmissionFilter, submission::SubmissionRecord};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
};

pub(super) fn put(
    db: &Connection,
    target: Target<'_>,
    submission: &SubmissionRecord,
    body: &Body,
) -> Outcome<()> {
    if let Some(request) = &submission.request {
        check_request(db, target, submission, request)?;
    }
    let sql = "INSERT INTO submission (sid, id, seq, conversation, request, live, crc, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (sid, id) DO UPDATE SET seq = excluded.seq, conversation = excluded.conversation,
        request = excluded.request, live = excluded.live, crc = excluded.crc, body = excluded.body";
    db.prepare_cached(sql)?.execute(params![
        target.sid,
        submission.id.0,
        target.batch.seq.0,
        submission.conversation.0,
        submission.request,
        submission.is_live(),
        body.crc,
        body.text,
    ])?;
    Ok(())
}

/// A request id belongs to one submission of its conversation.
fn check_request(
    db: &Connection,
    target: Target<'_>,
    submission: &SubmissionRecord,
    request: &str,
) -> Outcome<()> {
    let sql = "SELECT id FROM submission INDEXED BY submission_request
        WHERE sid = ?1 AND conversation = ?2 AND request = ?3";
    let values = params![target.sid, submission.conversation.0, request];
    let holder: Option<u64> = db.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
    match holder {
        Some(holder) if holder != submission.id.0 => Err(Error::invalid(format!(
            "commit to session {} at seq {}: request id {request:?} is that of submission {holder} in conversation {}, \
             and cannot be that of submission {} too",
            target.batch.session, target.batch.seq, submission.conversation, submission.id
        ))
        .into()),
        _ => Ok(()),
    }
}

pub(super) fn read(db: &Connection, sid: i64, only: &SubmissionFilter) -> Outcome<Vec<SubmissionRecord>> {
    match only {
        SubmissionFilter::All => {
            select(db, "SELECT id, crc, body FROM submission WHERE sid = ?1 ORDER BY id", [sid])
        }
        SubmissionFilter::Live => {
            let sql = "SELECT id, crc, body FROM submission INDEXED BY submission_live
                WHERE sid = ?1 AND live = 1 ORDER BY id";
            select(db, sql, [sid])
        }
        SubmissionFilter::Id(id) => {
            let sql = "SELECT id, crc, body FROM submission WHERE sid = ?1 AND id = ?2";
            select(db, sql, params![sid, body::sought(id.0)])
        }
        SubmissionFilter::Request(conversation, request) => {
            let sql = "SELECT id, crc, body FROM submission INDEXED BY submission_request
                WHERE sid = ?1 AND conversation = ?2 AND request = ?3";
            select(db, sql, params![sid, body::sought(conversation.0), request])
        }
    }
}

fn select(db: &Connection, sql: &str, values: impl Params) -> Outcome<Vec<SubmissionRecord>> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(values)?;
    let mut submissions = Vec::new();
    while let Some(row) = rows.next()? {
        submissions.push(submission_at(row)?);
    }
    Ok(submissions)
}

/// A submission from the columns of its id, its checksum and its body.
pub(super) fn submission_at(row: &Row<'_>) -> Outcome<SubmissionRecord> {
    let id: u64 = row.get(0)?;
    body::read(row, [1, 2], || format!("table submission, id {id}"))
}
