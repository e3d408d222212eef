//! Archives: a session as lines of JSON, out to a file and back into any store.
//!
//! Shape: the first line says which session it is; then come its commits in their order, the chunks of its
//! blobs, its ledger, its waiting mail, and at last how many lines there were and their hash. What a store had superseded or
//! trimmed is not in it; the seqs are.

mod line;
mod restore;

use everturn_core::{
    Error, Result,
    cursor::Cursor,
    id::{BlobId, Seq},
    storage::{BlobQuery, CHUNK, ChangeQuery, MailFilter},
};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::session::Session;
use line::{Header, Line, Tally};

/// How many commits are read at a time.
const PAGE: usize = 200;

impl Session {
    /// Writes all of the session as an archive, which [`restore`](Self::restore) brings back. Commits wait meanwhile.
    ///
    /// Errors: `Unavailable` when `out` cannot be written to; what storage says.
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
        // While a transaction is open nothing else is committed.
        let held = self.begin().await?;
        let mut out = Out { out, tally: Tally::default() };
        let row = self.store().session(self.id()).await?;
        let row =
            row.ok_or_else(|| Error::not_found(format!("archive session {}: it is gone", self.id())))?;
        out.line(&Line::Session(Header::of(&row))).await?;
        out.commits(self).await?;
        for blob in self.store().blobs(self.id()).await? {
            out.blob(self, blob).await?;
        }
        out.line(&Line::Usage(self.usage().await?)).await?;
        for row in self.store().mail(self.id(), MailFilter::Waiting).await? {
            out.line(&Line::Mail(row.mail)).await?;
        }
        let end = out.tally.end();
        out.line(&end).await?;
        out.out.flush().await.map_err(|fault| refused(&fault))?;
        drop(held);
        Ok(())
    }
}

/// Where an archive is written to, and what was written.
struct Out<'a, W> {
    out: &'a mut W,
    tally: Tally,
}

impl<W: AsyncWrite + Unpin + Send> Out<'_, W> {
    async fn line(&mut self, line: &Line) -> Result<()> {
        let mut text = line.to_text()?;
        self.tally.add(&text);
        text.push('\n');
        self.out.write_all(text.as_bytes()).await.map_err(|fault| refused(&fault))
    }

    async fn blob(&mut self, session: &Session, blob: BlobId) -> Result<()> {
        let mut from = 0;
        loop {
            let part = session.store().blob(BlobQuery { blob, from, limit: CHUNK }).await?;
            let Some(part) = part.filter(|part| !part.bytes.is_empty()) else { return Ok(()) };
            from += part.bytes.len() as u64;
            self.line(&Line::chunk(blob, part.size, &part.bytes)).await?;
        }
    }

    async fn commits(&mut self, session: &Session) -> Result<()> {
        let (id, epoch) = (session.id(), session.epoch());
        let mut place = Cursor { session: id, epoch, seq: Seq(0) };
        loop {
            let query = ChangeQuery { session: id, epoch, after: place.seq, limit: PAGE };
            let changes = session.store().changes(query).await?;
            place.seq = changes.until;
            for change in changes.commits {
                self.line(&Line::Commit(Box::new(change.try_into()?))).await?;
            }
            if changes.until == changes.head {
                return Ok(());
            }
        }
    }
}

fn refused(fault: &std::io::Error) -> Error {
    Error::unavailable(format!("write an archive: {fault}"))
}
