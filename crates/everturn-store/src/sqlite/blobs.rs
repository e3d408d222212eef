//! Blobs: bytes in chunks, written ahead under an upload, named by their hash when they are whole.

use everturn_core::{
    error::Error,
    id::{BlobId, UploadId},
    storage::{BlobPart, BlobQuery, CHUNK, Chunk, Seal},
};
use rusqlite::{Connection, OptionalExtension, params, types::ValueRef};

use super::{
    commit::Target,
    fault::Outcome,
    upkeep::{More, Removed},
};

/// How many chunks one transaction removes: 2 MB.
const CHUNKS_AT_ONCE: usize = 8;

/// A chunk whose size was checked, with its checksum.
pub(super) fn put(db: &Connection, chunk: &Chunk, crc: u32) -> Outcome<()> {
    let bid = match upload(db, chunk.upload)? {
        Some(bid) => {
            let sql = "UPDATE blob SET time = ?1 WHERE bid = ?2";
            db.prepare_cached(sql)?.execute(params![chunk.time.0, bid])?;
            bid
        }
        None => {
            let sql = "INSERT INTO blob (upload, time) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute(params![chunk.upload.to_string(), chunk.time.0])?;
            db.last_insert_rowid()
        }
    };
    let sql = "INSERT INTO chunk (bid, number, crc, bytes) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![bid, chunk.number, crc, chunk.bytes])?;
    Ok(())
}

fn upload(db: &Connection, upload: UploadId) -> Outcome<Option<i64>> {
    let mut find = db.prepare_cached("SELECT bid FROM blob WHERE upload = ?1")?;
    Ok(find.query_row([upload.to_string()], |row| row.get(0)).optional()?)
}

/// The key and the size of a blob.
fn sealed(db: &Connection, blob: BlobId) -> Outcome<Option<(i64, u64)>> {
    let sql = "SELECT bid, size FROM blob INDEXED BY blob_id WHERE tenant = 'local' AND id = ?1";
    let mut find = db.prepare_cached(sql)?;
    Ok(find.query_row([blob.to_string()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Names an upload. Where the bytes are there already the upload is given up, and tells so.
pub(super) fn seal(db: &Connection, seal: &Seal) -> Outcome<More> {
    let found = upload(db, seal.upload)?;
    if let Some((bid, _)) = sealed(db, seal.blob)? {
        let sql = "UPDATE blob SET time = max(time, ?1) WHERE bid = ?2";
        db.prepare_cached(sql)?.execute(params![seal.time.0, bid])?;
        return match found {
            Some(bid) => give_up(db, bid).map(|()| More::Yes),
            None => Ok(More::No),
        };
    }
    let bid = found.ok_or_else(|| seal.unknown())?;
    let mut chunks =
        db.prepare_cached("SELECT number, octet_length(bytes) FROM chunk WHERE bid = ?1 ORDER BY number")?;
    let sizes = chunks.query_map([bid], |row| Ok((row.get(0)?, row.get(1)?)))?;
    seal.check(sizes.collect::<Result<Vec<_>, _>>()?)?;
    let sql = "UPDATE blob SET upload = NULL, id = ?1, size = ?2, time = ?3 WHERE bid = ?4";
    let values = params![seal.blob.to_string(), seal.size, seal.time.0, bid];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(More::No)
}

/// Takes a blob's names: nobody finds it any more, and its chunks can go one after the other.
fn give_up(db: &Connection, bid: i64) -> Outcome<()> {
    db.prepare_cached("UPDATE blob SET upload = NULL, id = NULL WHERE bid = ?1")?.execute([bid])?;
    Ok(())
}

/// A range of a blob, from the chunks that it lies in.
pub(super) fn read(db: &Connection, query: &BlobQuery) -> Outcome<Option<BlobPart>> {
    let Some((bid, size)) = sealed(db, query.blob)? else { return Ok(None) };
    let from = query.from.min(size);
    let until = from.saturating_add(query.limit as u64).min(size);
    let mut part = BlobPart { size, bytes: Vec::new() };
    let mut at = from;
    while at < until {
        let (number, start) = (at / CHUNK as u64, at % CHUNK as u64);
        let end = (start + until - at).min(CHUNK as u64);
        add(db, (bid, number), start..end, &mut part.bytes)?;
        at += end - start;
    }
    Ok(Some(part))
}

/// Adds a range of a chunk whose checksum is right.
fn add(
    db: &Connection,
    (bid, number): (i64, u64),
    range: std::ops::Range<u64>,
    bytes: &mut Vec<u8>,
) -> Outcome<()> {
    let corrupt = |what: String| Error::corrupt(what, format!("table chunk, bid {bid}, number {number}"));
    let mut find = db.prepare_cached("SELECT crc, bytes FROM chunk WHERE bid = ?1 AND number = ?2")?;
    let mut rows = find.query(params![bid, number])?;
    let Some(row) = rows.next()? else {
        return Err(corrupt("the row is missing".to_owned()).into());
    };
    let stored: i64 = row.get(0)?;
    let ValueRef::Blob(chunk) = row.get_ref(1)? else {
        return Err(corrupt("the bytes are none".to_owned()).into());
    };
    let found = crc32fast::hash(chunk);
    if i64::from(found) != stored {
        let what = format!("the checksum says {stored:08x}, its {} bytes give {found:08x}", chunk.len());
        return Err(corrupt(what).into());
    }
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let part = chunk.get(index(range.start)..index(range.end)).ok_or_else(|| {
        corrupt(format!("it has {} bytes, and the blob's size says {}", chunk.len(), range.end))
    })?;
    bytes.extend_from_slice(part);
    Ok(())
}

/// The blobs that a session refers to, in the order of their ids.
pub(super) fn used(db: &Connection, sid: i64) -> Outcome<Vec<BlobId>> {
    let sql = "SELECT blob.id, blob.bid FROM blob_use JOIN blob ON blob.bid = blob_use.bid
        WHERE blob_use.sid = ?1 ORDER BY blob.id";
    let mut find = db.prepare_cached(sql)?;
    let mut rows = find.query([sid])?;
    let mut used = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, bid): (String, i64) = (row.get(0)?, row.get(1)?);
        let corrupt = |fault: Error| Error::corrupt(fault.to_string(), format!("table blob, bid {bid}"));
        used.push(id.parse().map_err(corrupt)?);
    }
    Ok(used)
}

/// Has a session refer to a blob from now on.
pub(super) fn refer(db: &Connection, target: Target<'_>, blob: BlobId) -> Outcome<()> {
    let Some((bid, _)) = sealed(db, blob)? else {
        return Err(Error::invalid(format!(
            "commit to session {} at seq {}: there is no blob {blob}; write it first",
            target.batch.session, target.batch.seq
        ))
        .into());
    };
    let sql = "INSERT INTO blob_use (sid, bid) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![target.sid, bid])?;
    Ok(())
}

macro_rules! unused {
    ($start:literal, $more:literal) => {
        concat!(
            $start,
            " WHERE time < ?1 AND (id IS NOT NULL OR upload IS NOT NULL) AND NOT EXISTS
                (SELECT 1 FROM blob_use INDEXED BY blob_use_blob WHERE blob_use.bid = blob.bid)",
            $more
        )
    };
}

/// Some blobs, behind one of them, that nobody refers to and that were last written before a time, sealed or not.
pub(super) fn unused(db: &Connection, before: i64, after: i64) -> Outcome<Vec<i64>> {
    let sql = unused!("SELECT bid FROM blob", " AND bid > ?2 ORDER BY bid LIMIT 64");
    let mut find = db.prepare_cached(sql)?;
    let found = find.query_map([before, after], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Gives up those blobs that still nobody refers to, and tells how many they were.
pub(super) fn give_up_unused(db: &Connection, before: i64, bids: &[i64]) -> Outcome<Removed> {
    let mut give_up =
        db.prepare_cached(unused!("UPDATE blob SET upload = NULL, id = NULL", " AND bid = ?2"))?;
    let mut removed = 0;
    for bid in bids {
        removed += give_up.execute([before, *bid])?;
    }
    Ok(Removed(removed as u64))
}

/// Removes some chunks of a blob that was given up, or the blob when it has none.
pub(super) fn remove_some(db: &Connection) -> Outcome<More> {
    let sql = "SELECT bid FROM blob INDEXED BY blob_given_up WHERE upload IS NULL AND id IS NULL LIMIT 1";
    let bid: Option<i64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    let Some(bid) = bid else { return Ok(More::No) };
    let sql = "DELETE FROM chunk WHERE bid = ?1
        AND number IN (SELECT number FROM chunk WHERE bid = ?1 ORDER BY number LIMIT ?2)";
    if db.prepare_cached(sql)?.execute(params![bid, CHUNKS_AT_ONCE])? < CHUNKS_AT_ONCE {
        db.prepare_cached("DELETE FROM blob WHERE bid = ?1")?.execute([bid])?;
    }
    Ok(More::Yes)
}
