//! Conversations: immutable rows, by session and id.

#[cfg(test)]
mod tests;

use everturn_core::{
    conversation::Conversation,
    id::{ConversationId, Seq},
};
use rusqlite::{Connection, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
};

pub(super) fn add(
    db: &Connection,
    target: Target<'_>,
    conversation: &Conversation,
    body: &Body,
) -> Outcome<()> {
    let sql = "INSERT INTO conversation (sid, id, seq, owner, body, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT DO NOTHING";
    let owner = conversation.owner.map(|owner| owner.0);
    let values = params![target.sid, conversation.id.0, target.batch.seq.0, owner, body.text, body.crc];
    if db.prepare_cached(sql)?.execute(values)? == 0 {
        return Err(target.is_there(&format!("conversation {}", conversation.id)).into());
    }
    Ok(())
}

pub(super) fn all(db: &Connection, sid: i64) -> Outcome<Vec<Conversation>> {
    select(db, sid, "SELECT id, crc, body FROM conversation WHERE sid = ?1 ORDER BY id")
}

const OWNED: &str = "SELECT c.id, c.crc, c.body FROM task AS t INDEXED BY task_live
    CROSS JOIN conversation AS c INDEXED BY conversation_owner ON c.sid = t.sid AND c.owner = t.id
    WHERE t.sid = ?1 AND t.live = 1 ORDER BY c.id";

/// Those that are the work of tasks that have not ended.
pub(super) fn owned(db: &Connection, sid: i64) -> Outcome<Vec<Conversation>> {
    select(db, sid, OWNED)
}

fn select(db: &Connection, sid: i64, sql: &str) -> Outcome<Vec<Conversation>> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query([sid])?;
    let mut conversations = Vec::new();
    while let Some(row) = rows.next()? {
        conversations.push(conversation_at(row, sid)?);
    }
    Ok(conversations)
}

/// Which conversations there are, and the commits with which they are told, oldest first.
pub(super) fn places(db: &Connection, sid: i64) -> Outcome<Vec<(ConversationId, Seq)>> {
    let mut all = db.prepare_cached("SELECT id, seq FROM conversation WHERE sid = ?1 ORDER BY id")?;
    let places = all.query_map([sid], |row| Ok((ConversationId(row.get(0)?), Seq(row.get(1)?))))?;
    Ok(places.collect::<Result<_, _>>()?)
}

pub(super) fn one(db: &Connection, sid: i64, id: ConversationId) -> Outcome<Option<Conversation>> {
    let mut find = db.prepare_cached("SELECT id, crc, body FROM conversation WHERE sid = ?1 AND id = ?2")?;
    let mut rows = find.query(params![sid, body::sought(id.0)])?;
    rows.next()?.map(|row| conversation_at(row, sid)).transpose()
}

fn conversation_at(row: &Row<'_>, sid: i64) -> Outcome<Conversation> {
    let id: u64 = row.get(0)?;
    body::read(row, [1, 2], || format!("table conversation, sid {sid}, id {id}"))
}
