//! Search: a full-text index over entries, built behind the commits.
//!
//! Shape: every entry up to the mark is in the index, if it has words; none behind the mark is.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};

use everturn_core::{
    entry::Entry,
    error::Result,
    storage::{Durability, Hit, SearchQuery, excerpt, terms},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

use super::{
    Sqlite, body, entries,
    fault::Outcome,
    session,
    writer::{Ticket, Whose},
};

/// How much one transaction adds to the index.
const ENTRIES_AT_ONCE: usize = 128;
const BYTES_AT_ONCE: usize = 512 << 10;

/// How many words the index is asked for; more are looked for in what it finds.
const ASKED_MAX: usize = 64;

impl Sqlite {
    /// Brings the index up to date, and asks it.
    pub(super) async fn find(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        let words = query.terms()?;
        self.index_all().await?;
        self.readers.read("search".to_owned(), move |db| find(db, &query, &words)).await
    }

    /// Adds what was committed by now. Whatever comes while it works is the next search's.
    async fn index_all(&self) -> Result<()> {
        let attempted = || "bring the search index up to date".to_owned();
        let goal = self.readers.read(attempted(), newest).await?;
        while let Some(batch) = self.readers.read(attempted(), move |db| unindexed(db, goal)).await? {
            let ticket = Ticket {
                attempted: attempted(),
                whose: Whose::Keeper,
                durability: Durability::Relaxed,
                proof: None,
            };
            self.writer.write(ticket, move |db| index(db, &batch)).await?;
        }
        Ok(())
    }
}

/// Entries behind the mark, read and taken apart where no commit waits for it.
struct Unindexed {
    mark: i64,
    entries: Vec<Indexable>,
}

struct Indexable {
    rid: i64,
    sid: i64,
    crc: i64,
    words: Option<String>,
}

fn newest(db: &Connection) -> Outcome<i64> {
    Ok(db.prepare_cached("SELECT coalesce(max(rid), 0) FROM entry")?.query_row([], |row| row.get(0))?)
}

fn mark(db: &Connection) -> Outcome<i64> {
    Ok(db.prepare_cached("SELECT rid FROM search_mark")?.query_row([], |row| row.get(0))?)
}

fn set_mark(db: &Connection, rid: i64) -> Outcome<()> {
    db.prepare_cached("UPDATE search_mark SET rid = ?1")?.execute([rid])?;
    Ok(())
}

fn unindexed(db: &Connection, goal: i64) -> Outcome<Option<Unindexed>> {
    let mut batch = Unindexed { mark: mark(db)?, entries: Vec::new() };
    let sql = "SELECT rid, sid, kind, crc, body FROM entry WHERE rid > ?1 AND rid <= ?2 ORDER BY rid";
    let mut find = db.prepare_cached(sql)?;
    let mut rows = find.query([batch.mark, goal])?;
    let mut bytes = 0;
    while batch.entries.len() < ENTRIES_AT_ONCE
        && bytes < BYTES_AT_ONCE
        && let Some(row) = rows.next()?
    {
        let entry = Indexable { rid: row.get(0)?, sid: row.get(1)?, crc: row.get(3)?, words: words_at(row)? };
        bytes += entry.words.as_ref().map_or(0, String::len);
        batch.entries.push(entry);
    }
    Ok((!batch.entries.is_empty()).then_some(batch))
}

/// What the index has of an entry: its session and its words. None where it has no words, or cannot be read.
fn words_at(row: &Row<'_>) -> Outcome<Option<String>> {
    let (sid, kind): (i64, String) = (row.get(1)?, row.get(2)?);
    let Ok(body) = body::text(row, [3, 4], String::new) else { return Ok(None) };
    let Ok(entry) = Entry::from_body(kind, body) else { return Ok(None) };
    let words: BTreeSet<_> = terms(&entry.text()).collect();
    let all = || words.iter().fold(of_session(sid), |all, word| all + " " + &hashed(word));
    Ok((!words.is_empty()).then(all))
}

/// A word as the index knows it: the first 40 bits of its SHA-256.
///
/// The index keeps the words of what was removed until it is merged, and a hash of them tells nobody what they were.
fn hashed(word: &str) -> String {
    let digest = Sha256::digest(word.as_bytes());
    digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// What stands for a session in the index, so that one session is searched without the others. It is no word.
fn of_session(sid: i64) -> String {
    format!("§{sid}")
}

/// Adds a batch, unless the mark or an entry changed meanwhile: then it is read again.
fn index(db: &Connection, batch: &Unindexed) -> Outcome<()> {
    if mark(db)? != batch.mark {
        return Ok(());
    }
    for Indexable { rid, sid, crc, .. } in &batch.entries {
        // A key that was given away again may stand for the same words of another session.
        let mut find = db.prepare_cached("SELECT sid, crc FROM entry WHERE rid = ?1")?;
        let found = find.query_row([rid], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if found != Some((*sid, *crc)) {
            return Ok(());
        }
    }
    for Indexable { rid, words, .. } in &batch.entries {
        add(db, *rid, words.as_deref())?;
    }
    batch.entries.last().map_or(Ok(()), |last| set_mark(db, last.rid))
}

fn add(db: &Connection, rid: i64, words: Option<&str>) -> Outcome<()> {
    if let Some(words) = words {
        let sql = "INSERT INTO search (rowid, words) VALUES (?1, ?2)";
        db.prepare_cached(sql)?.execute(params![rid, words])?;
    }
    Ok(())
}

/// Takes an entry out of the index.
pub(super) fn forget(db: &Connection, rid: i64) -> Outcome<()> {
    db.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([rid])?;
    Ok(())
}

/// Puts an entry that has changed in the place of what the index has of it.
pub(super) fn replace(db: &Connection, rid: i64) -> Outcome<()> {
    forget(db, rid)?;
    if rid > mark(db)? {
        return Ok(());
    }
    let mut find = db.prepare_cached("SELECT rid, sid, kind, crc, body FROM entry WHERE rid = ?1")?;
    let mut rows = find.query([rid])?;
    let words = rows.next()?.map(words_at).transpose()?.flatten();
    add(db, rid, words.as_deref())
}

/// SQLite gives the keys of the newest rows away again when these are gone: what gets them is behind the mark.
pub(super) fn lower_mark(db: &Connection) -> Outcome<()> {
    let (mark, newest) = (mark(db)?, newest(db)?);
    if mark > newest { set_mark(db, newest) } else { Ok(()) }
}

/// The entries that have all words, those stored last first.
fn find(db: &Connection, query: &SearchQuery, words: &[String]) -> Outcome<Vec<Hit>> {
    let sid = match query.session.map(|session| session::known(db, session)) {
        // Where there is no such session nothing is found in it.
        Some(Err(super::fault::Fault::Known(_))) => return Ok(Vec::new()),
        sid => sid.transpose()?,
    };
    let sql = "SELECT e.rid, e.conversation, e.id, e.seq, e.time, e.task, e.kind, e.crc, e.body, s.id
        FROM search CROSS JOIN entry e ON e.rid = search.rowid CROSS JOIN session s ON s.sid = e.sid
        WHERE search MATCH ?1 AND s.deleted IS NULL ORDER BY search.rowid DESC";
    let mut find = db.prepare_cached(sql)?;
    let mut rows = find.query([expression(sid, words)])?;
    let mut hits = Vec::new();
    while hits.len() < query.limit
        && let Some(row) = rows.next()?
    {
        hits.extend(hit_at(row, words)?);
    }
    Ok(hits)
}

/// The question in the index's own language: all of the words.
fn expression(sid: Option<i64>, words: &[String]) -> String {
    let asked = sid.map(of_session).into_iter().chain(words.iter().take(ASKED_MAX).map(|word| hashed(word)));
    asked.map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ")
}

/// The hit, if the entry itself has the words: other words may have the same hashes.
fn hit_at(row: &Row<'_>, words: &[String]) -> Outcome<Option<Hit>> {
    let record = entries::entry_at(row)?;
    let text = record.text();
    let found: HashSet<String> = terms(&text).collect();
    let hit = Hit {
        session: session::id_at(row, 9)?,
        conversation: record.conversation,
        entry: record.id,
        excerpt: excerpt(&text, &words[0]),
    };
    Ok(words.iter().all(|word| found.contains(word)).then_some(hit))
}
