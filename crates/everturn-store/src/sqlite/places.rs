//! Places: which row an entry is, by session, conversation and id.
//!
//! An index would do the same, but each commit of a group would write to a page of its own session's in it, and one
//! more when that is checkpointed. So the newest places, of all sessions, lie on the few pages of `place_new`, and move
//! to `place` many at a time. In a conversation ids only grow: what is in `place_new` comes behind what is in `place`.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Outcome;

/// After how many entries the newest places move: fewer move too few to a page at a time, and more are too many pages
/// that each group writes to.
const NEW_MAX: i64 = 2_048;

/// An entry, as the session's key, its conversation and its id.
pub(super) type Key = (i64, u64, u64);

/// Notes where a new entry is; false when there is one of that key.
pub(super) fn add(db: &Connection, (sid, conversation, id): Key, rid: i64) -> Outcome<bool> {
    let sql = "INSERT INTO place_new (sid, conversation, id, rid) SELECT ?1, ?2, ?3, ?4
        WHERE NOT EXISTS (SELECT 1 FROM place WHERE sid = ?1 AND conversation = ?2 AND id = ?3)
        ON CONFLICT DO NOTHING";
    Ok(db.prepare_cached(sql)?.execute(params![sid, conversation, id, rid])? == 1)
}

/// Moves the newest places to the others when these many new entries have made the number of all of them round.
pub(super) fn settle(db: &Connection, added: usize) -> Outcome<()> {
    let newest = "SELECT coalesce(max(rid), 0) FROM entry";
    let newest: i64 = db.prepare_cached(newest)?.query_row([], |row| row.get(0))?;
    let before = newest.saturating_sub(i64::try_from(added).unwrap_or(i64::MAX));
    if newest / NEW_MAX > before / NEW_MAX {
        let sql =
            "INSERT INTO place (sid, conversation, id, rid) SELECT sid, conversation, id, rid FROM place_new";
        db.prepare_cached(sql)?.execute([])?;
        db.prepare_cached("DELETE FROM place_new")?.execute([])?;
    }
    Ok(())
}

/// Which row an entry is.
pub(super) fn find(db: &Connection, (sid, conversation, id): Key) -> Outcome<Option<i64>> {
    let sql = "SELECT rid FROM place WHERE sid = ?1 AND conversation = ?2 AND id = ?3
        UNION ALL SELECT rid FROM place_new WHERE sid = ?1 AND conversation = ?2 AND id = ?3";
    let values = params![sid, conversation, id];
    Ok(db.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
}

/// Forgets where an entry of a session is, which is there still.
pub(super) fn forget(db: &Connection, sid: i64, rid: i64) -> Outcome<()> {
    let key = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let sql = "SELECT conversation, id FROM entry WHERE rid = ?1";
    let (conversation, id): (u64, u64) = db.prepare_cached(sql)?.query_row([rid], key)?;
    for sql in [
        "DELETE FROM place WHERE sid = ?1 AND conversation = ?2 AND id = ?3",
        "DELETE FROM place_new WHERE sid = ?1 AND conversation = ?2 AND id = ?3",
    ] {
        db.prepare_cached(sql)?.execute(params![sid, conversation, id])?;
    }
    Ok(())
}

/// Rows without a place, and places without their row: none, in a file that is well.
pub(super) fn astray(db: &Connection) -> Outcome<Vec<i64>> {
    let sql = "SELECT rid FROM entry AS e WHERE NOT EXISTS
            (SELECT 1 FROM place AS p WHERE (p.sid, p.conversation, p.id, p.rid) = (e.sid, e.conversation, e.id, e.rid))
        AND NOT EXISTS
            (SELECT 1 FROM place_new AS p WHERE (p.sid, p.conversation, p.id, p.rid) = (e.sid, e.conversation, e.id, e.rid))
        UNION SELECT rid FROM place WHERE rid NOT IN (SELECT rid FROM entry)
        UNION SELECT rid FROM place_new WHERE rid NOT IN (SELECT rid FROM entry)
        LIMIT 100";
    let mut find = db.prepare(sql)?;
    let rows = find.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
