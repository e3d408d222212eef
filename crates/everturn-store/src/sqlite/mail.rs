//! Mail: requests left for a session, taken once by existence, and kept with their receipts.

use everturn_core::{
    clock::Timestamp,
    error::Error,
    id::{ConversationId, SessionId},
    json::RawJson,
    storage::{Mail, MailFilter, MailKind, MailRow, Posted, Receipt, Taken},
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    body::{self, Body},
    commit::Target,
    fault::Outcome,
    session,
    writer::Answer,
};

impl Answer for Posted {
    fn is_commit(&self) -> bool {
        false
    }
}

/// Leaves mail, unless it was left before, or what it submits is there.
pub(super) fn post(db: &Connection, mail: &Mail) -> Outcome<Posted> {
    let sid = session::known(db, mail.session)?;
    if let Some(posted) = posted(db, sid, &mail.key)? {
        return Ok(posted);
    }
    if let Some(id) = submission(db, sid, mail)? {
        return Ok(Posted::Ended(Receipt::Accepted { id: Some(id) }));
    }
    let sql = "INSERT INTO mail (sid, key, kind, conversation, request, actor, time, crc, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let text = mail.body.get();
    db.prepare_cached(sql)?.execute(params![
        sid,
        mail.key,
        mail.kind.name(),
        mail.conversation.map(|conversation| conversation.0),
        mail.request,
        mail.actor,
        mail.time.0,
        body::crc(text),
        text,
    ])?;
    Ok(Posted::New)
}

/// What became of mail under a key; none where there is no such mail.
fn posted(db: &Connection, sid: i64, key: &str) -> Outcome<Option<Posted>> {
    let sql = "SELECT mid, receipt FROM mail INDEXED BY mail_key WHERE sid = ?1 AND key = ?2";
    let mut find = db.prepare_cached(sql)?;
    let mut rows = find.query(params![sid, key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(receipt(row, 0, 1)?.map_or(Posted::Waiting, Posted::Ended)))
}

/// The submission that the mail would be once more.
fn submission(db: &Connection, sid: i64, mail: &Mail) -> Outcome<Option<u64>> {
    let Some((conversation, request)) = mail.submits() else { return Ok(None) };
    let sql = "SELECT id FROM submission INDEXED BY submission_request
        WHERE sid = ?1 AND conversation = ?2 AND request = ?3";
    let values = params![sid, body::sought(conversation.0), request];
    Ok(db.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
}

/// Ends waiting mail with its receipt.
pub(super) fn take(db: &Connection, target: Target<'_>, taken: &Taken, receipt: &Body) -> Outcome<()> {
    let sql = "UPDATE mail SET taken = ?1, receipt = ?2 WHERE sid = ?3 AND key = ?4 AND taken IS NULL";
    let values = params![target.batch.seq.0, receipt.text, target.sid, taken.key];
    if db.prepare_cached(sql)?.execute(values)? == 1 {
        return Ok(());
    }
    let found = match posted(db, target.sid, &taken.key)? {
        Some(_) => "it was taken before",
        None => "there is no such mail",
    };
    Err(Error::conflict(format!(
        "commit to session {} at seq {}: take mail {:?}: {found}",
        target.batch.session, target.batch.seq, taken.key
    ))
    .into())
}

pub(super) fn read(
    db: &Connection,
    (session, sid): (SessionId, i64),
    only: &MailFilter,
) -> Outcome<Vec<MailRow>> {
    match only {
        MailFilter::Waiting => {
            let sql = "SELECT mid, key, kind, conversation, request, actor, time, crc, body, receipt
                FROM mail INDEXED BY mail_waiting WHERE sid = ?1 AND taken IS NULL ORDER BY mid";
            select(db, session, sql, [sid])
        }
        MailFilter::Key(key) => {
            let sql = "SELECT mid, key, kind, conversation, request, actor, time, crc, body, receipt
                FROM mail INDEXED BY mail_key WHERE sid = ?1 AND key = ?2";
            select(db, session, sql, params![sid, key])
        }
    }
}

fn select(db: &Connection, session: SessionId, sql: &str, values: impl Params) -> Outcome<Vec<MailRow>> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(values)?;
    let mut mail = Vec::new();
    while let Some(row) = rows.next()? {
        mail.push(mail_at(row, session)?);
    }
    Ok(mail)
}

fn mail_at(row: &Row<'_>, session: SessionId) -> Outcome<MailRow> {
    let mid: i64 = row.get(0)?;
    let place = || format!("table mail, mid {mid}");
    let corrupt = |fault: Error| Error::corrupt(fault.to_string(), place());
    let kind: String = row.get(2)?;
    let conversation: Option<u64> = row.get(3)?;
    let mail = Mail {
        session,
        key: row.get(1)?,
        kind: kind.parse::<MailKind>().map_err(corrupt)?,
        conversation: conversation.map(ConversationId),
        request: row.get(4)?,
        actor: row.get(5)?,
        time: Timestamp(row.get(6)?),
        body: RawJson::parse(body::text(row, [7, 8], place)?).map_err(corrupt)?,
    };
    Ok(MailRow { mail, receipt: receipt(row, 0, 9)? })
}

/// A receipt from its column; none while the mail waits.
fn receipt(row: &Row<'_>, mid: usize, column: usize) -> Outcome<Option<Receipt>> {
    let mid: i64 = row.get(mid)?;
    let text: Option<String> = row.get(column)?;
    let read = |text: String| serde_json::from_str(&text);
    let receipt = text.map(read).transpose();
    let place = || format!("table mail, mid {mid}");
    Ok(receipt.map_err(|fault| Error::corrupt(fault.to_string(), place()))?)
}
