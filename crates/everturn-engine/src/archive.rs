//! Archives: a session as lines of JSON, out to a file and back into any store.
//!
//! Shape: the first line says which session it is; then come its commits in their order, the chunks of its
//! blobs, its ledger, its waiting mail, and at last how many lines there were and their hash. What a store had superseded or
//! trimmed is not in it; the seqs are, and up to which of them it was trimmed.
//!
//! The receipts of mail that was taken are not in it either: a store finds them by their keys only. Who posts the same `abort` or
//! `decide` again to a session that was brought back has it taken a second time.

mod blob;
mod lease;
mod line;
mod lines;
mod restore;
#[cfg(test)]
mod tests;

use everturn_core::{
    Error, Result,
    id::{BlobId, Seq},
    limits::Limits,
    storage::{BlobQuery, CHUNK, ChangeQuery, MailFilter, SessionRow},
};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::session::Session;
use line::{Header, Line, Tally};

/// How many commits are read at a time, and how many rows of the ledger a line has.
const PAGE: usize = 200;

/// The label of a session that is being restored: one that still has it was cut off, and is begun anew.
const RESTORING: &str = "et.restoring";

/// How many commits of an archive may have nothing to tell any more. Restoring stores an empty one for each, so that a few
/// bytes could ask for endless work; this many are some minutes.
const EMPTY_MAX: u64 = 1 << 22;

/// How many bytes a line may have, at least.
const LINE_MAX: usize = 32 << 20;

/// How many bytes a line may have: a commit with room to spare, and far more than a chunk.
fn line_max(limits: &Limits) -> usize {
    LINE_MAX.max(limits.commit.saturating_mul(2))
}

/// Whether a session is only partly there: it is being restored, or that was cut off.
pub(crate) fn is_half_restored(row: &SessionRow) -> bool {
    row.new.labels.contains_key(RESTORING)
}

impl Session {
    /// Writes all of the session as an archive, which [`restore`](Self::restore) brings back.
    ///
    /// Promise: it is of one moment. Commits wait meanwhile; those that have waited for ten seconds go first, and then this ends as
    /// a `Conflict`.
    /// Errors: `Conflict` when the session moved on; `Corrupt` when a blob of it is not there, or is another; `TooLarge` when
    /// something is beyond what `restore` takes; `Unavailable` when `out` cannot be written to; what storage says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
    /// # use everturn_core::{entry::Entry, id::ConversationId, memory::Memory, storage::{NewSession, Store}};
    /// # use everturn_engine::{Opener, Session, World};
    /// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    /// let session = Session::create(&opener, NewSession::default()).await?;
    /// let mut tx = session.begin().await?;
    /// tx.append(ConversationId::ROOT, Entry::new("app.note"))?;
    /// tx.commit().await?;
    ///
    /// let mut file = Vec::new();
    /// session.archive(&mut file).await?;
    /// session.delete().await?;
    ///
    /// let session = Session::restore(&opener, file.as_slice()).await?;
    /// assert_eq!(session.entries(ConversationId::ROOT, None, 10).await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn archive(&self, out: &mut (impl AsyncWrite + Unpin + Send)) -> Result<()> {
        // While a transaction is open nothing else is committed. Who waits for too long ends it, and is found out by the head.
        let held = self.begin().await?;
        let mut out = Out { out, tally: Tally::default(), line_max: line_max(&self.0.opener.limits) };
        let header = self.header().await?;
        let head = header.head;
        out.line(&Line::Session(header)).await?;
        out.commits(self, head).await?;
        for blob in self.store().blobs(self.id()).await? {
            out.blob(self, blob).await?;
        }
        for rows in self.usage().await?.chunks(PAGE) {
            out.line(&Line::Usage(rows.to_vec())).await?;
        }
        for row in self.store().mail(self.id(), MailFilter::Waiting).await? {
            out.line(&Line::Mail(row.mail)).await?;
        }
        self.check_stands_at(head, self.header().await?.head)?;
        let end = out.tally.end();
        out.line(&end).await?;
        out.out.flush().await.map_err(|fault| refused(&fault))?;
        drop(held);
        Ok(())
    }

    /// What the session's row says now.
    async fn header(&self) -> Result<Header> {
        let row = self.store().session(self.id()).await?;
        let row =
            row.ok_or_else(|| Error::not_found(format!("archive session {}: it is gone", self.id())))?;
        let SessionRow { id: session, epoch, head: after, .. } = row;
        let floor = self.store().changes(ChangeQuery { session, epoch, after, limit: 0 }).await?.floor;
        Ok(Header::of(&row, floor))
    }

    fn check_stands_at(&self, begun: Seq, head: Seq) -> Result<()> {
        if head == begun {
            return Ok(());
        }
        let id = self.id();
        Err(Error::conflict(format!(
            "archive session {id} at seq {begun}: it moved on to seq {head} meanwhile; archive it again, while it rests"
        )))
    }
}

/// Where an archive is written to, and what was written.
struct Out<'a, W> {
    out: &'a mut W,
    tally: Tally,
    line_max: usize,
}

impl<W: AsyncWrite + Unpin + Send> Out<'_, W> {
    async fn line(&mut self, line: &Line) -> Result<()> {
        let mut text = line.to_text()?;
        // What could not be read again is not written: someone may delete the session because it is in a file.
        if text.len() > self.line_max {
            let (number, found, limit) = (self.tally.lines + 1, text.len(), self.line_max);
            let message = format!(
                "write line {number} of an archive: it has {found} bytes, at most {limit} are allowed"
            );
            return Err(Error::too_large(message));
        }
        self.tally.add(&text);
        text.push('\n');
        self.out.write_all(text.as_bytes()).await.map_err(|fault| refused(&fault))
    }

    async fn blob(&mut self, session: &Session, blob: BlobId) -> Result<()> {
        let corrupt = |what: String| Err(Error::corrupt(what, format!("blob {blob}")));
        let (mut from, mut hash) = (0, Sha256::new());
        loop {
            let part = session.store().blob(BlobQuery { blob, from, limit: CHUNK }).await?;
            let Some(part) = part else {
                return corrupt(format!("session {} refers to it, and it is not there", session.id()));
            };
            if part.bytes.is_empty() {
                return corrupt(format!("it has {from} bytes, and its size says {}", part.size));
            }
            from += part.bytes.len() as u64;
            hash.update(&part.bytes);
            self.line(&Line::chunk(blob, part.size, &part.bytes)).await?;
            if from >= part.size {
                break;
            }
        }
        match BlobId(hash.finalize().into()) {
            found if found == blob => Ok(()),
            found => corrupt(format!("its bytes are those of blob {found}")),
        }
    }

    async fn commits(&mut self, session: &Session, head: Seq) -> Result<()> {
        let (id, epoch) = (session.id(), session.epoch());
        let (mut after, mut told) = (Seq(0), 0);
        while after < head {
            let query = ChangeQuery { session: id, epoch, after, limit: PAGE };
            let changes = session.store().changes(query).await?;
            session.check_stands_at(head, changes.head)?;
            after = changes.until;
            for change in changes.commits {
                told += 1;
                self.line(&Line::Commit(Box::new(change.try_into()?))).await?;
            }
        }
        check_empty(head.0.saturating_sub(told))
    }
}

/// Proves that no more commits have nothing to tell than restoring may store again.
fn check_empty(found: u64) -> Result<()> {
    if found <= EMPTY_MAX {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "{found} commits of an archive have nothing to tell any more, at most {EMPTY_MAX} are allowed"
    )))
}

fn refused(fault: &std::io::Error) -> Error {
    Error::unavailable(format!("write an archive: {fault}"))
}
