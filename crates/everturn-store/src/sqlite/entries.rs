//! Entries: appended in the order of commits, found by conversation and id.

use everturn_core::{
    clock::Timestamp,
    conversation::Span,
    entry::{Entry, EntryRecord},
    error::Error,
    id::{ConversationId, EntryId, Seq, TaskId},
    storage::{EntryQuery, Only, Order},
};
use rusqlite::{Connection, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
    places,
};

/// Appends an entry. Errors: `Invalid` when there is one of its id.
pub(super) fn add(db: &Connection, target: Target<'_>, record: &EntryRecord, body: &Body) -> Outcome<()> {
    let sql = "INSERT INTO entry (sid, conversation, id, seq, time, task, head, kind, crc, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    db.prepare_cached(sql)?.execute(params![
        target.sid,
        record.conversation.0,
        record.id.0,
        record.seq.0,
        record.time.0,
        record.task.map(|task| task.0),
        record.entry.head.map(|head| head.entry(record.id).0),
        record.entry.kind,
        body.crc,
        body.text,
    ])?;
    let key = (target.sid, record.conversation.0, record.id.0);
    if !places::add(db, key, db.last_insert_rowid())? {
        let what = format!("entry {} of conversation {}", record.id, record.conversation);
        return Err(target.is_there(&what).into());
    }
    Ok(())
}

/// Reads span after span until the limit is reached: each is one range of an index, or of the places.
pub(super) fn read(db: &Connection, sid: i64, query: &EntryQuery) -> Outcome<Vec<EntryRecord>> {
    let spans = query.lineage.spans();
    let mut page = Page { query, sid, entries: Vec::new() };
    match query.order {
        Order::NewestFirst => spans.iter().try_for_each(|span| page.read(db, span))?,
        Order::OldestFirst => spans.iter().rev().try_for_each(|span| page.read(db, span))?,
    }
    Ok(page.entries)
}

struct Page<'a> {
    query: &'a EntryQuery,
    sid: i64,
    entries: Vec<EntryRecord>,
}

impl Page<'_> {
    fn read(&mut self, db: &Connection, span: &Span) -> Outcome<()> {
        let query = self.query;
        let (Some(from), Some(until)) = range(query, span) else {
            return Ok(());
        };
        let conversation = body::sought(span.conversation.0);
        for sql in select(query.only, query.order) {
            let left = query.limit - self.entries.len();
            if left == 0 || from > until {
                break;
            }
            let mut entries = db.prepare_cached(sql)?;
            let limit = i64::try_from(left).unwrap_or(i64::MAX);
            let mut rows = entries.query(params![self.sid, conversation, from, until, limit])?;
            while let Some(row) = rows.next()? {
                self.entries.push(entry_at(row)?);
            }
        }
        Ok(())
    }
}

/// The first and last id that are wanted of a span; none where no id can be meant.
fn range(query: &EntryQuery, span: &Span) -> (Option<i64>, Option<i64>) {
    let from = query.after.map_or(Some(0), |after| after.0.checked_add(1));
    let until = match query.before {
        Some(before) => before.0.checked_sub(1).map(|last| last.min(span.until.0)),
        None => Some(span.until.0),
    };
    // SQL integers are signed; no stored id is beyond them.
    let clamp = |id: u64| i64::try_from(id).unwrap_or(i64::MAX);
    (from.and_then(|id| i64::try_from(id).ok()), until.map(clamp))
}

macro_rules! select {
    ($index:literal, $wanted:literal, $order:literal) => {
        concat!(
            "SELECT rid, conversation, id, seq, time, task, kind, crc, body FROM entry INDEXED BY ",
            $index,
            " WHERE sid = ?1 AND conversation = ?2 AND id BETWEEN ?3 AND ?4",
            $wanted,
            " ORDER BY id ",
            $order,
            " LIMIT ?5"
        )
    };
}

macro_rules! select_at {
    ($places:literal, $order:literal) => {
        concat!(
            "SELECT e.rid, e.conversation, e.id, seq, time, task, kind, crc, body FROM ",
            $places,
            " AS p CROSS JOIN entry AS e ON e.rid = p.rid",
            " WHERE p.sid = ?1 AND p.conversation = ?2 AND p.id BETWEEN ?3 AND ?4 ORDER BY p.id ",
            $order,
            " LIMIT ?5"
        )
    };
}

/// What gives the entries of a span, one behind the other.
fn select(only: Only, order: Order) -> &'static [&'static str] {
    match (only, order) {
        (Only::All, Order::NewestFirst) => &[select_at!("place_new", "DESC"), select_at!("place", "DESC")],
        (Only::All, Order::OldestFirst) => &[select_at!("place", "ASC"), select_at!("place_new", "ASC")],
        (Only::Heads, Order::NewestFirst) => &[select!("entry_head", " AND head IS NOT NULL", "DESC")],
        (Only::Heads, Order::OldestFirst) => &[select!("entry_head", " AND head IS NOT NULL", "ASC")],
        (Only::Turns, Order::NewestFirst) => &[select!("entry_turn", " AND kind = 'et.turn'", "DESC")],
        (Only::Turns, Order::OldestFirst) => &[select!("entry_turn", " AND kind = 'et.turn'", "ASC")],
    }
}

/// An entry from the columns that [`select!`] and [`select_at!`] name, in their order.
pub(super) fn entry_at(row: &Row<'_>) -> Outcome<EntryRecord> {
    let (rid, conversation, id): (i64, u64, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let place = || format!("table entry, rid {rid} (conversation {conversation}, entry {id})");
    let text = body::text(row, [7, 8], place)?;
    let kind: String = row.get(6)?;
    let entry = Entry::from_body(kind, text).map_err(|fault| Error::corrupt(fault.to_string(), place()))?;
    let task: Option<u64> = row.get(5)?;
    Ok(EntryRecord {
        id: EntryId(id),
        conversation: ConversationId(conversation),
        seq: Seq(row.get(3)?),
        time: Timestamp(row.get(4)?),
        task: task.map(TaskId),
        entry,
    })
}
