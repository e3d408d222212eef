//! Bodies: JSON text beside its checksum.

use everturn_core::{
    error::{Error, Result},
    storage::{Batch, Write},
};
use rusqlite::{Row, types::ValueRef};
use serde::{Serialize, de::DeserializeOwned};

use super::fault::Outcome;

/// A body that is ready to be stored.
pub(super) struct Body {
    pub(super) text: String,
    pub(super) crc: u32,
}

impl Body {
    fn new(text: String) -> Self {
        Self { crc: crc(&text), text }
    }
}

/// What a batch stores beside itself. Made where the batch comes from: the writer is one thread for all sessions, and
/// what it need not do itself it does not do.
pub(super) struct Bodies {
    /// One for each write, in their order.
    pub(super) of_writes: Vec<Body>,
    /// By how many bytes the session grows.
    pub(super) weight: u64,
}

pub(super) fn of(batch: &Batch) -> Result<Bodies> {
    let body = |write: &Write| {
        Ok(Body::new(match write {
            Write::Conversation(conversation) => self::write(conversation, "a conversation")?,
            Write::Entry(record) => record.entry.to_body()?,
            Write::Task(task) => self::write(task, "a task")?,
            Write::Submission(submission) => self::write(submission, "a submission")?,
            Write::Approval(approval) => self::write(approval, "an approval")?,
            Write::Document(write) => self::write(&write.record, "a document")?,
            Write::Usage(row) => self::write(row, "a row of the ledger")?,
            Write::Title(title) => title.clone(),
            Write::Labels(labels) => self::write(labels, "labels")?,
            Write::Taken(taken) => self::write(&taken.receipt, "a receipt")?,
            Write::Purge(record) => record.entry.to_body()?,
            Write::Blob(_) | Write::Trim(_) => String::new(),
        }))
    };
    let of_writes = batch.writes.iter().map(body).collect::<Result<_>>()?;
    Ok(Bodies { of_writes, weight: batch.writes.iter().map(Write::weight).sum() })
}

/// An id that is looked for, as SQL has it: one beyond what SQLite counts to is no row's, as little as a negative one.
pub(super) fn sought(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(-1)
}

/// The checksum that is stored beside a body.
pub(super) fn crc(body: impl AsRef<[u8]>) -> u32 {
    crc32fast::hash(body.as_ref())
}

/// A record as JSON.
pub(super) fn write(record: &impl Serialize, what: &str) -> Result<String> {
    serde_json::to_string(record)
        .map_err(|fault| Error::invalid(format!("write {what}: {fault}")).caused_by(fault))
}

/// The text of a body whose checksum is right.
///
/// Shape: `columns` are those of the checksum and the body. Errors: `Corrupt`, naming `place`.
pub(super) fn text<'row>(
    row: &'row Row<'_>,
    columns: [usize; 2],
    place: impl Fn() -> String,
) -> Outcome<&'row str> {
    let stored: i64 = row.get(columns[0])?;
    let ValueRef::Text(bytes) = row.get_ref(columns[1])? else {
        return Err(Error::corrupt("the body is not text", place()).into());
    };
    let found = crc32fast::hash(bytes);
    if i64::from(found) != stored {
        let what =
            format!("the checksum says {stored:08x}, the body's {} bytes give {found:08x}", bytes.len());
        return Err(Error::corrupt(what, place()).into());
    }
    let text = std::str::from_utf8(bytes).map_err(|fault| Error::corrupt(fault.to_string(), place()))?;
    Ok(text)
}

/// A record from a body whose checksum is right. Errors: `Corrupt`, naming `place`.
pub(super) fn read<T: DeserializeOwned>(
    row: &Row<'_>,
    columns: [usize; 2],
    place: impl Fn() -> String,
) -> Outcome<T> {
    let text = text(row, columns, &place)?;
    let record = serde_json::from_str(text).map_err(|fault| Error::corrupt(fault.to_string(), place()))?;
    Ok(record)
}
