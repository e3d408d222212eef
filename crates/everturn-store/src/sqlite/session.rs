//! Session rows: creation, leases, the list.

use everturn_core::{
    clock::Timestamp,
    error::{Error, ErrorKind},
    id::{Epoch, OwnerId, Seq, SessionId},
    storage::{Claim, Create, Created, EpochStart, Lease, NewSession, SessionQuery, SessionRow},
};
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};

use super::{
    body::{self, Bodies, Body},
    commit::{self, Target},
    fault::Outcome,
    owner::Owners,
    writer::Proof,
};

/// Who owns a session, and where it stands.
pub(super) struct Ownership {
    pub(super) sid: i64,
    pub(super) owner: Option<(OwnerId, Timestamp)>,
    pub(super) epoch: Epoch,
    pub(super) head: Seq,
    pub(super) minted: u64,
}

impl Ownership {
    pub(super) fn is_held_by(&self, owner: OwnerId, epoch: Epoch) -> bool {
        self.epoch == epoch && self.owner.is_some_and(|(holder, _)| holder == owner)
    }
}

/// What a session's row gives, unless there is none or only a tombstone. Errors: `NotFound`.
fn alive<T>(id: SessionId, found: Option<(T, bool)>) -> Outcome<T> {
    let attempted = format!("look for session {id}");
    match found {
        Some((found, false)) => Ok(found),
        Some((_, true)) => Err(Error::deleted(attempted).into()),
        None => Err(Error::not_found(format!("{attempted}: the store has no such session")).into()),
    }
}

/// The key of a session in the other tables. Errors: `NotFound`.
pub(super) fn known(db: &Connection, id: SessionId) -> Outcome<i64> {
    let mut find = db.prepare_cached("SELECT sid, deleted IS NOT NULL FROM session WHERE id = ?1")?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    alive(id, find.query_row([id.to_string()], read).optional()?)
}

/// Errors: `NotFound`.
pub(super) fn ownership(db: &Connection, id: SessionId) -> Outcome<Ownership> {
    let sql = "SELECT sid, owner, until, epoch, head, minted, deleted IS NOT NULL FROM session WHERE id = ?1";
    let read = |row: &Row<'_>| {
        let found = Ownership {
            sid: row.get(0)?,
            owner: owner(row, 1)?,
            epoch: Epoch(row.get(3)?),
            head: Seq(row.get(4)?),
            minted: row.get(5)?,
        };
        Ok((found, row.get(6)?))
    };
    alive(id, db.prepare_cached(sql)?.query_row([id.to_string()], read).optional()?)
}

/// Where a session stands: its last commit, its newest epoch, and up to which commit its history was trimmed.
pub(super) struct Standing {
    pub(super) head: Seq,
    pub(super) epoch: Epoch,
    pub(super) floor: Seq,
}

pub(super) fn standing(db: &Connection, sid: i64) -> Outcome<Standing> {
    let mut find = db.prepare_cached("SELECT head, epoch, floor FROM session WHERE sid = ?1")?;
    let read = |row: &Row<'_>| {
        Ok(Standing { head: Seq(row.get(0)?), epoch: Epoch(row.get(1)?), floor: Seq(row.get(2)?) })
    };
    Ok(find.query_row([sid], read)?)
}

/// The epochs that are newer than one, oldest first.
pub(super) fn epochs_after(db: &Connection, sid: i64, epoch: Epoch) -> Outcome<Vec<EpochStart>> {
    let sql = "SELECT epoch, head FROM epoch WHERE sid = ?1 AND epoch > ?2 ORDER BY epoch";
    let mut find = db.prepare_cached(sql)?;
    let read = |row: &Row<'_>| Ok(EpochStart { epoch: Epoch(row.get(0)?), head: Seq(row.get(1)?) });
    let epochs = find.query_map(params![sid, epoch.0], read)?;
    Ok(epochs.collect::<Result<_, _>>()?)
}

/// Whether a session's row says what it says once a request is stored.
pub(super) fn holds(db: &Connection, id: SessionId, proof: Proof) -> Outcome<bool> {
    let sql = "SELECT owner, epoch, head, deleted IS NOT NULL FROM session WHERE id = ?1";
    let read = |row: &Row<'_>| {
        let (found, has_ended): (Option<String>, bool) = (row.get(0)?, row.get(3)?);
        let is_owner = |owner: OwnerId| found.is_some_and(|found| found == owner.to_string());
        Ok(match proof {
            Proof::Tombstone => has_ended,
            Proof::Owner(owner) => is_owner(owner),
            Proof::Head { owner, epoch, seq } => {
                is_owner(owner) && (epoch.0, seq.0) == (row.get(1)?, row.get(2)?)
            }
        })
    };
    let held = db.prepare_cached(sql)?.query_row([id.to_string()], read).optional()?;
    Ok(held.unwrap_or(false))
}

/// None, and nothing is done, while something is left of a session that had the id.
pub(super) fn create(db: &Connection, create: &Create, bodies: &Bodies) -> Outcome<Option<Created>> {
    if let Some(id) = created_by(db, create.new.request.as_deref())? {
        return Ok(Some(Created::Existing(id)));
    }
    let (id, first) = (create.first.session, &create.first);
    if !forget_tombstone(db, id, first.epoch)? {
        return Ok(None);
    }
    let sid = insert(db, create)?;
    begin_epoch(db, sid, first.epoch, first.owner, Seq(0), first.time)?;
    commit::commit(db, first, bodies)?;
    let created = ownership(db, id)?;
    Ok(Some(Created::New(lease(id, first.owner, create.until, &created))))
}

/// Adds a session's row, and gives its key. Errors: `Conflict` when the id is in use.
fn insert(db: &Connection, Create { new, first, until }: &Create) -> Outcome<i64> {
    let id = first.session;
    let sql = "INSERT INTO session
        (id, owner, until, epoch, head, minted, used, created, request, parent, title, labels)
        VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING";
    let inserted = db.prepare_cached(sql)?.execute(params![
        id.to_string(),
        first.owner.to_string(),
        until.0,
        first.epoch.0,
        first.time.0,
        new.request,
        new.parent.map(|parent| parent.to_string()),
        new.title,
        body::write(&new.labels, "the session's labels")?,
    ])?;
    if inserted == 0 {
        return Err(Error::conflict(format!("create session {id}: the id is in use, or was")).into());
    }
    Ok(db.last_insert_rowid())
}

/// Frees the id of a deleted session for an epoch that it has not seen. False while something is left of it: its key
/// stands in other tables, and may come again.
fn forget_tombstone(db: &Connection, id: SessionId, epoch: Epoch) -> Outcome<bool> {
    let sql = "SELECT sid, deleted FROM session WHERE id = ?1 AND deleted IS NOT NULL AND epoch < ?2";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let values = params![id.to_string(), epoch.0];
    let found: Option<(i64, i64)> = db.prepare_cached(sql)?.query_row(values, read).optional()?;
    match found {
        None => Ok(true),
        Some((_, 0)) => Ok(false),
        Some((sid, _)) => {
            db.prepare_cached("DELETE FROM session WHERE sid = ?1")?.execute([sid])?;
            Ok(true)
        }
    }
}

fn created_by(db: &Connection, request: Option<&str>) -> Outcome<Option<SessionId>> {
    let Some(request) = request else { return Ok(None) };
    let sql = "SELECT id FROM session WHERE tenant = 'local' AND request = ?1 AND deleted IS NULL";
    let mut find = db.prepare_cached(sql)?;
    Ok(find.query_row([request], |row| id_at(row, 0)).optional()?)
}

pub(super) fn claim(db: &Connection, owners: &Owners, claim: &Claim) -> Outcome<Lease> {
    let mut found = ownership(db, claim.session)?;
    if let Some((by, until)) = found.owner
        && until > claim.now
        && !owners.is_dead(by)
    {
        let message = format!("claim session {}: {by} owns it until {until}", claim.session);
        return Err(Error::new(ErrorKind::Owned { by, until }, message).into());
    }
    found.epoch = Epoch(found.epoch.0 + 1);
    begin_epoch(db, found.sid, found.epoch, claim.owner, found.head, claim.now)?;
    grant(db, claim, &found)
}

pub(super) fn renew(db: &Connection, claim: &Claim, epoch: Epoch) -> Outcome<Lease> {
    let found = ownership(db, claim.session)?;
    if !found.is_held_by(claim.owner, epoch) {
        return Err(Error::fenced(format!(
            "renew the lease of session {} in epoch {epoch}: the session is in epoch {}; open it again",
            claim.session, found.epoch
        ))
        .into());
    }
    grant(db, claim, &found)
}

pub(super) fn release(db: &Connection, id: SessionId, owner: OwnerId, epoch: Epoch) -> Outcome<()> {
    let found = ownership(db, id)?;
    if found.is_held_by(owner, epoch) {
        let sql = "UPDATE session SET owner = NULL, until = NULL WHERE sid = ?1";
        db.prepare_cached(sql)?.execute([found.sid])?;
    }
    Ok(())
}

/// Stores owner, end and epoch of a lease, and gives it.
fn grant(db: &Connection, claim: &Claim, found: &Ownership) -> Outcome<Lease> {
    let sql = "UPDATE session SET owner = ?1, until = ?2, epoch = ?3 WHERE sid = ?4";
    db.prepare_cached(sql)?.execute(params![
        claim.owner.to_string(),
        claim.until.0,
        found.epoch.0,
        found.sid
    ])?;
    Ok(lease(claim.session, claim.owner, claim.until, found))
}

fn lease(session: SessionId, owner: OwnerId, until: Timestamp, found: &Ownership) -> Lease {
    Lease { session, owner, epoch: found.epoch, until, head: found.head, minted: found.minted }
}

fn begin_epoch(
    db: &Connection,
    sid: i64,
    epoch: Epoch,
    owner: OwnerId,
    head: Seq,
    time: Timestamp,
) -> Outcome<()> {
    let sql = "INSERT INTO epoch (sid, epoch, owner, head, time) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.prepare_cached(sql)?.execute(params![sid, epoch.0, owner.to_string(), head.0, time.0])?;
    Ok(())
}

const ROW: &str =
    "SELECT id, request, title, labels, parent, created, used, head, epoch, minted, owner, until, bytes
    FROM session WHERE deleted IS NULL AND";

pub(super) fn row(db: &Connection, id: SessionId) -> Outcome<Option<SessionRow>> {
    let mut find = db.prepare_cached(&format!("{ROW} id = ?1"))?;
    Ok(find.query_row([id.to_string()], session_row).optional()?)
}

pub(super) fn list(db: &Connection, query: &SessionQuery) -> Outcome<Vec<SessionRow>> {
    if let Some(request) = &query.request {
        let sql = format!("{ROW} tenant = 'local' AND request = ?1");
        let found = db.prepare_cached(&sql)?.query_row([request], session_row).optional()?;
        return Ok(found.into_iter().filter(|row| query.wants(row)).take(query.limit).collect());
    }
    page(db, query)
}

/// As [`SessionQuery::wants`] says, in SQL. An unfiltered page is one range of the index; labels and times are looked
/// at row by row.
const PAGE: &str = "id < ?1 AND (?3 IS NULL OR used >= ?3) AND (?4 IS NULL OR used < ?4)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(?5) AS wanted WHERE NOT EXISTS (
            SELECT 1 FROM json_each(session.labels) AS label
            WHERE label.key = wanted.key AND label.value = wanted.value
        )
    )
    ORDER BY id DESC LIMIT ?2";

fn page(db: &Connection, query: &SessionQuery) -> Outcome<Vec<SessionRow>> {
    // Ids are lower-case hexadecimal digits, of which '~' comes after all.
    let after = query.after.map_or_else(|| "~".to_owned(), |id| id.to_string());
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let (used_from, used_before) = (query.used_from.map(|time| time.0), query.used_before.map(|time| time.0));
    let labels = body::write(&query.labels, "labels")?;
    let mut page = db.prepare_cached(&format!("{ROW} {PAGE}"))?;
    let rows = page.query_map(params![after, limit, used_from, used_before, labels], session_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let labels: String = row.get(3)?;
    let parent: Option<String> = row.get(4)?;
    let new = NewSession {
        request: row.get(1)?,
        title: row.get(2)?,
        labels: serde_json::from_str(&labels).map_err(|fault| unreadable(3, fault))?,
        parent: parent.map(|_| id_at(row, 4)).transpose()?,
    };
    Ok(SessionRow {
        id: id_at(row, 0)?,
        new,
        created: Timestamp(row.get(5)?),
        used: Timestamp(row.get(6)?),
        head: Seq(row.get(7)?),
        epoch: Epoch(row.get(8)?),
        minted: row.get(9)?,
        bytes: row.get(12)?,
        owner: owner(row, 10)?,
    })
}

/// An owner and the end of its lease, from two columns.
pub(super) fn owner(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<(OwnerId, Timestamp)>> {
    let (owner, until): (Option<String>, Option<i64>) = (row.get(column)?, row.get(column + 1)?);
    let Some((owner, until)) = owner.zip(until) else {
        return Ok(None);
    };
    let owner = owner.parse().map_err(|fault| unreadable(column, fault))?;
    Ok(Some((owner, Timestamp(until))))
}

pub(super) fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    let id: String = row.get(column)?;
    id.parse().map_err(|fault| unreadable(column, fault))
}

fn unreadable(column: usize, fault: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(fault))
}

pub(super) fn set_labels(db: &Connection, target: Target<'_>, labels: &Body) -> Outcome<()> {
    let sql = "UPDATE session SET labels = ?1 WHERE sid = ?2";
    db.prepare_cached(sql)?.execute(params![labels.text, target.sid])?;
    Ok(())
}

pub(super) fn set_title(db: &Connection, target: Target<'_>, title: &str) -> Outcome<()> {
    let sql = "UPDATE session SET title = ?1 WHERE sid = ?2";
    db.prepare_cached(sql)?.execute(params![title, target.sid])?;
    Ok(())
}
