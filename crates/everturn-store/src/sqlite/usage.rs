//! The ledger: rows that are only added.

use everturn_core::usage::UsageRow;
use rusqlite::{Connection, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
};

pub(super) fn add(db: &Connection, target: Target<'_>, body: &Body) -> Outcome<()> {
    let sql = "INSERT INTO usage (sid, seq, crc, body) VALUES (?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?.execute(params![target.sid, target.batch.seq.0, body.crc, body.text])?;
    Ok(())
}

pub(super) fn read(db: &Connection, sid: i64) -> Outcome<Vec<UsageRow>> {
    let sql = "SELECT rid, crc, body FROM usage INDEXED BY usage_session WHERE sid = ?1 ORDER BY rid";
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query([sid])?;
    let mut usage = Vec::new();
    while let Some(row) = rows.next()? {
        let rid: i64 = row.get(0)?;
        usage.push(body::read(row, [1, 2], || format!("table usage, rid {rid}"))?);
    }
    Ok(usage)
}
