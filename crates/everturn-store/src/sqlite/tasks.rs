//! Tasks: one row each, replaced as the task moves.

use everturn_core::{id::TaskId, storage::TaskQuery, task::TaskRecord};
use rusqlite::{Connection, Params, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
};

pub(super) fn put(db: &Connection, target: Target<'_>, task: &TaskRecord, body: &Body) -> Outcome<()> {
    let sql = "INSERT INTO task (sid, id, seq, owner, live, lacks, needs, crc, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (sid, id) DO UPDATE SET seq = excluded.seq, owner = excluded.owner, live = excluded.live,
        lacks = excluded.lacks, needs = excluded.needs, crc = excluded.crc, body = excluded.body";
    let blocked = task.blocked.as_ref().filter(|_| task.is_live());
    db.prepare_cached(sql)?.execute(params![
        target.sid,
        task.id.0,
        target.batch.seq.0,
        task.owner.map(|owner| owner.0),
        task.is_live(),
        blocked.map(|_| &task.kind),
        blocked.map(|blocked| blocked.needs),
        body.crc,
        body.text,
    ])?;
    Ok(())
}

/// Tasks in the order of their ids, or in the order in which they are asked for.
pub(super) fn read(db: &Connection, sid: i64, query: &TaskQuery) -> Outcome<Vec<TaskRecord>> {
    let wanted = |task: &TaskRecord| {
        (!query.live || task.is_live()) && query.owner.is_none_or(|owner| task.owner == Some(owner))
    };
    let mut tasks = match (&query.ids, query.live, query.owner) {
        (Some(ids), ..) => by_ids(db, sid, ids)?,
        (None, true, _) => live(db, sid)?,
        (None, false, Some(owner)) => {
            let sql = "SELECT id, crc, body FROM task INDEXED BY task_owner
                WHERE sid = ?1 AND owner = ?2 ORDER BY id";
            select(db, sql, params![sid, body::sought(owner.0)])?
        }
        (None, false, None) => {
            select(db, "SELECT id, crc, body FROM task WHERE sid = ?1 ORDER BY id", [sid])?
        }
    };
    tasks.retain(wanted);
    Ok(tasks)
}

/// The tasks that have not ended, in the order of their ids.
pub(super) fn live(db: &Connection, sid: i64) -> Outcome<Vec<TaskRecord>> {
    let sql = "SELECT id, crc, body FROM task INDEXED BY task_live WHERE sid = ?1 AND live = 1 ORDER BY id";
    select(db, sql, [sid])
}

fn by_ids(db: &Connection, sid: i64, ids: &[TaskId]) -> Outcome<Vec<TaskRecord>> {
    let mut tasks = Vec::new();
    for id in ids {
        let sql = "SELECT id, crc, body FROM task WHERE sid = ?1 AND id = ?2";
        tasks.extend(select(db, sql, params![sid, body::sought(id.0)])?);
    }
    Ok(tasks)
}

fn select(db: &Connection, sql: &str, values: impl Params) -> Outcome<Vec<TaskRecord>> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(values)?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        tasks.push(task_at(row)?);
    }
    Ok(tasks)
}

/// A task from the columns of its id, its checksum and its body.
pub(super) fn task_at(row: &Row<'_>) -> Outcome<TaskRecord> {
    let id: u64 = row.get(0)?;
    body::read(row, [1, 2], || format!("table task, id {id}"))
}
