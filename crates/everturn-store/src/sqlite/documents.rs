//! Documents: a row each, and their revisions in the order of commits.

use everturn_core::{
    document::{History, ScopeKey},
    error::Error,
    id::Seq,
    json::RawJson,
    storage::{DocumentQuery, DocumentRecord, DocumentState, DocumentWrite, Revision},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
};

/// Stores a revision, and drops those that it supersedes.
pub(super) fn revise(db: &Connection, target: Target<'_>, write: &DocumentWrite, body: &Body) -> Outcome<()> {
    let DocumentWrite { record, number, revision } = write;
    let did = match find(db, target.sid, record)? {
        Some(did) => did,
        None => add(db, target.sid, record, body)?,
    };
    if record.history == History::Latest && !matches!(revision, Revision::Delta { .. }) {
        db.prepare_cached("DELETE FROM revision WHERE did = ?1")?.execute([did])?;
    }
    let row = Place { did, seq: target.batch.seq, number: *number };
    match revision {
        Revision::Base { version, value } => add_revision(db, row, Some(*version), value),
        Revision::Delta { operations } => add_revision(db, row, None, operations),
        Revision::Retired => {
            let sql = "UPDATE document SET retired = ?1, number = ?2 WHERE did = ?3";
            db.prepare_cached(sql)?.execute(params![row.seq.0, row.number, row.did])?;
            Ok(())
        }
    }
}

/// Which document's which revision a row is, and whose commit's.
#[derive(Clone, Copy)]
struct Place {
    did: i64,
    seq: Seq,
    number: u64,
}

fn find(db: &Connection, sid: i64, record: &DocumentRecord) -> Outcome<Option<i64>> {
    let (scope, scope_id) = scope(record.scope);
    let sql = "SELECT did FROM document INDEXED BY document_id
        WHERE sid = ?1 AND scope = ?2 AND scope_id = ?3 AND id = ?4";
    let values = params![sid, scope, scope_id, record.id.0];
    Ok(db.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
}

fn add(db: &Connection, sid: i64, record: &DocumentRecord, body: &Body) -> Outcome<i64> {
    let (scope, scope_id) = scope(record.scope);
    let sql = "INSERT INTO document (sid, scope, scope_id, id, crc, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let values = params![sid, scope, scope_id, record.id.0, body.crc, body.text];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(db.last_insert_rowid())
}

fn add_revision(
    db: &Connection,
    Place { did, seq, number }: Place,
    version: Option<u32>,
    json: &RawJson,
) -> Outcome<()> {
    let sql = "INSERT INTO revision (did, seq, number, version, crc, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let text = json.get();
    db.prepare_cached(sql)?.execute(params![did, seq.0, number, version, body::crc(text), text])?;
    Ok(())
}

/// A scope as two columns: which of the three, and whose.
fn scope(scope: ScopeKey) -> (i64, u64) {
    match scope {
        ScopeKey::Session => (0, 0),
        ScopeKey::Conversation(conversation) => (1, conversation.0),
        ScopeKey::Task(task) => (2, task.0),
    }
}

/// The documents of a scope in the order of their creation.
pub(super) fn read(db: &Connection, sid: i64, query: &DocumentQuery) -> Outcome<Vec<DocumentState>> {
    let at = query.at.map_or(i64::MAX, |at| i64::try_from(at.0).unwrap_or(i64::MAX));
    let (scope, scope_id) = scope(query.scope);
    let sql = match query.at {
        None => {
            "SELECT did, crc, record FROM document INDEXED BY document_live
                WHERE sid = ?1 AND scope = ?2 AND scope_id = ?3 AND retired IS NULL AND ?4 ORDER BY did"
        }
        Some(_) => {
            "SELECT did, crc, record FROM document INDEXED BY document_id
                WHERE sid = ?1 AND scope = ?2 AND scope_id = ?3 AND (retired IS NULL OR retired > ?4) ORDER BY did"
        }
    };
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(params![sid, scope, body::sought(scope_id), at])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        let did = row.get(0)?;
        let record = record_at(row, did, [1, 2])?;
        if query.kind.as_ref().is_none_or(|kind| *kind == record.kind) {
            documents.extend(state(db, did, record, at)?);
        }
    }
    Ok(documents)
}

/// The live documents of a session, whatever their scopes, in the order of their ids.
pub(super) fn live(db: &Connection, sid: i64) -> Outcome<Vec<DocumentState>> {
    let sql =
        "SELECT did, crc, record FROM document INDEXED BY document_live WHERE sid = ?1 AND retired IS NULL";
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query([sid])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        let did = row.get(0)?;
        documents.extend(state(db, did, record_at(row, did, [1, 2])?, i64::MAX)?);
    }
    documents.sort_by_key(|state| state.record.id);
    Ok(documents)
}

/// The record of a document that is there.
pub(super) fn record(db: &Connection, did: i64) -> Outcome<DocumentRecord> {
    let mut find = db.prepare_cached("SELECT crc, record FROM document WHERE did = ?1")?;
    let mut rows = find.query([did])?;
    match rows.next()? {
        Some(row) => record_at(row, did, [0, 1]),
        None => Err(rusqlite::Error::QueryReturnedNoRows.into()),
    }
}

/// A document's record from the columns of its checksum and its JSON.
pub(super) fn record_at(row: &Row<'_>, did: i64, columns: [usize; 2]) -> Outcome<DocumentRecord> {
    body::read(row, columns, || format!("table document, did {did}"))
}

/// A base or a delta from the columns of version, checksum and body.
pub(super) fn revision_at(row: &Row<'_>, rid: i64, [version, crc, body]: [usize; 3]) -> Outcome<Revision> {
    let json = json(row, rid, [crc, body])?;
    Ok(match row.get(version)? {
        Some(version) => Revision::Base { version, value: json },
        None => Revision::Delta { operations: json },
    })
}

/// A document's newest base at a seq, and the deltas since; none where no base is kept.
pub(super) fn state(
    db: &Connection,
    did: i64,
    record: DocumentRecord,
    at: i64,
) -> Outcome<Option<DocumentState>> {
    let sql = "SELECT rid, seq, number, version, crc, body FROM revision INDEXED BY revision_base
        WHERE did = ?1 AND seq <= ?2 AND version IS NOT NULL ORDER BY seq DESC, rid DESC LIMIT 1";
    let mut newest = db.prepare_cached(sql)?;
    let mut rows = newest.query(params![did, at])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let rid: i64 = row.get(0)?;
    let mut state = DocumentState {
        record,
        version: row.get(3)?,
        base: json(row, rid, [4, 5])?,
        deltas: Vec::new(),
        seq: Seq(row.get(1)?),
        number: row.get(2)?,
    };
    add_deltas(db, did, (rid, at), &mut state)?;
    Ok(Some(state))
}

fn add_deltas(db: &Connection, did: i64, (base, at): (i64, i64), state: &mut DocumentState) -> Outcome<()> {
    let sql = "SELECT rid, seq, number, crc, body FROM revision INDEXED BY revision_seq
        WHERE did = ?1 AND seq BETWEEN ?2 AND ?3 AND rid > ?4 ORDER BY seq, rid";
    let mut deltas = db.prepare_cached(sql)?;
    let mut rows = deltas.query(params![did, state.seq.0, at, base])?;
    while let Some(row) = rows.next()? {
        state.deltas.push(json(row, row.get(0)?, [3, 4])?);
        (state.seq, state.number) = (Seq(row.get(1)?), row.get(2)?);
    }
    Ok(())
}

fn json(row: &Row<'_>, rid: i64, columns: [usize; 2]) -> Outcome<RawJson> {
    let place = || format!("table revision, rid {rid}");
    let text = body::text(row, columns, place)?;
    Ok(RawJson::parse(text).map_err(|fault| Error::corrupt(fault.to_string(), place()))?)
}
