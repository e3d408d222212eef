//! From an archive back into a store.

use everturn_core::{
    Error, ErrorKind, Result,
    id::{BlobId, Epoch, Seq, UploadId},
    storage::{Batch, Chunk, Committed, Create, Created, Due, Durability, Mail, NewSession, Seal, Write},
    task::TaskState,
    usage::UsageRow,
};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::line::{self, Commit, FORM, Header, Line, Tally};
use crate::session::{Opener, Session};

/// The label of a session that is being restored: one that still has it was cut off, and is begun anew.
const RESTORING: &str = "et.restoring";

/// How much further than the archive's the epoch of a session that was deleted since may have come: two to this.
const EPOCHS_TRIED: u32 = 40;

/// The largest epoch and head that an archive may name. Stores keep 63 bits, and both still grow.
const COUNTED_MAX: u64 = 1 << 62;

impl Session {
    /// Brings a session back from an archive, with its id, its seqs and its times, and opens it.
    ///
    /// Promise: all or nothing: an archive that is cut off or changed leaves no session, and a restoration that was cut
    /// off is begun anew by the next. Errors: `Invalid` when it is no whole archive; `Newer`; `Conflict` when the store
    /// has the session.
    pub async fn restore(opener: &Opener, archive: impl AsyncBufRead + Unpin + Send) -> Result<Self> {
        let mut restoring = Restoring::begin(opener, archive).await?;
        match restoring.run().await {
            Ok(()) => {
                let Restoring { header, epoch, .. } = &restoring;
                // Claimed again as every session is: with its head, and its live work.
                opener.store.release(header.id, opener.owner, *epoch).await?;
                Self::open(opener, header.id).await
            }
            Err(error) => {
                // What cannot be taken back now is begun anew another time: it has the label.
                let _left = opener.store.delete(restoring.header.id, opener.owner, restoring.epoch).await;
                Err(error)
            }
        }
    }
}

/// A session on its way back.
struct Restoring<'a, R> {
    opener: &'a Opener,
    lines: Lines<R>,
    header: Header,
    epoch: Epoch,
    head: Seq,
    due: Due,
    blobs: Vec<BlobId>,
    /// The blob whose chunks are coming: its upload, and how many came.
    upload: Option<(BlobId, UploadId, u32)>,
    usage: Vec<UsageRow>,
    mail: Vec<Mail>,
}

impl<'a, R: AsyncBufRead + Unpin + Send> Restoring<'a, R> {
    async fn begin(opener: &'a Opener, archive: R) -> Result<Self> {
        let mut lines = Lines { archive, tally: Tally::default() };
        let Some(Line::Session(header)) = lines.next().await? else {
            return Err(invalid("its first line names no session"));
        };
        if header.form > FORM {
            let kind = ErrorKind::Newer { found: header.form, known: FORM };
            return Err(Error::new(kind, format!("restore session {}: a newer version wrote it", header.id)));
        }
        if header.epoch.0.max(header.head.0) > COUNTED_MAX {
            let Header { epoch, head, .. } = header;
            return Err(invalid(&format!("epoch {epoch} and seq {head}: nobody counted that far")));
        }
        let Some(Line::Commit(first)) = lines.next().await? else {
            return Err(invalid("its first commit is missing"));
        };
        remove_remains(opener, &header).await?;
        let epoch = create(opener, &header, first.into_writes()?).await?;
        Ok(Self {
            opener,
            lines,
            header,
            epoch,
            head: Seq(1),
            due: Due::None,
            blobs: Vec::new(),
            upload: None,
            usage: Vec::new(),
            mail: Vec::new(),
        })
    }

    async fn run(&mut self) -> Result<()> {
        loop {
            match self.lines.next().await? {
                Some(Line::Chunk { blob, size, base64 }) => self.chunk(blob, size, &base64).await?,
                Some(Line::Commit(commit)) => self.commit(*commit).await?,
                Some(Line::Usage(usage)) => self.usage = usage,
                Some(Line::Mail(mail)) => self.mail.push(mail),
                Some(Line::End { .. }) => return self.end().await,
                Some(Line::Session(_)) => return Err(invalid("it names a second session")),
                None => return Err(invalid("it was cut off: its last line is missing")),
            }
        }
    }

    async fn chunk(&mut self, blob: BlobId, size: u64, base64: &str) -> Result<()> {
        let world = &self.opener.world;
        let time = world.clock.now();
        let (_, upload, number) = match self.upload.filter(|(coming, ..)| *coming == blob) {
            Some(coming) => coming,
            None => (blob, UploadId::new(time, &*world.entropy), 0),
        };
        let bytes = line::bytes(base64)?;
        let written = u64::from(number) * everturn_core::storage::CHUNK as u64 + bytes.len() as u64;
        self.opener.store.put_chunk(Chunk { upload, number, bytes, time }).await?;
        self.upload = Some((blob, upload, number + 1));
        if written >= size {
            self.opener.store.seal(Seal { upload, blob, size, time }).await?;
            self.blobs.push(blob);
            self.upload = None;
        }
        Ok(())
    }

    /// Stores a commit under its seq. Seqs whose commits have nothing to tell any more are empty.
    async fn commit(&mut self, commit: Commit) -> Result<()> {
        let (seq, head) = (commit.seq, self.header.head);
        if seq > head {
            return Err(invalid(&format!("seq {seq} comes behind the last, which is {head}")));
        }
        let writes = commit.into_writes()?;
        if writes.iter().any(is_ready) {
            self.due = Due::Now;
        }
        self.come_to(seq).await?;
        self.store(writes, Durability::Relaxed).await
    }

    /// Stores empty commits up to the one before `seq`.
    async fn come_to(&mut self, seq: Seq) -> Result<()> {
        if seq <= self.head {
            return Err(invalid(&format!("seq {seq} comes behind seq {}", self.head)));
        }
        while self.head.next() < seq {
            self.store(Vec::new(), Durability::Relaxed).await?;
        }
        Ok(())
    }

    /// What is no commit's own goes with the last; then the session is as it was.
    async fn end(&mut self) -> Result<()> {
        self.come_to(self.header.head.next()).await?;
        let mut writes: Vec<_> = self.usage.drain(..).map(Write::Usage).collect();
        writes.extend(self.blobs.drain(..).map(Write::Blob));
        writes.push(Write::Labels(self.header.new.labels.clone()));
        for mail in self.mail.drain(..) {
            self.opener.store.post(mail).await?;
        }
        // With its own labels it is a session like any other: from here on it is restored.
        self.store(writes, Durability::Durable).await
    }

    async fn store(&mut self, writes: Vec<Write>, durability: Durability) -> Result<()> {
        let seq = self.head.next();
        let batch = Batch {
            session: self.header.id,
            owner: self.opener.owner,
            epoch: self.epoch,
            seq,
            time: self.header.used,
            durability,
            minted: self.header.minted,
            due: self.due,
            writes: writes.into(),
        };
        match self.opener.store.commit(batch).await? {
            Committed::Unknown => Err(Error::unavailable(format!(
                "restore session {}: storage did not answer; try again",
                self.header.id
            ))),
            Committed::Stored | Committed::Already => {
                self.head = seq;
                Ok(())
            }
        }
    }
}

fn is_ready(write: &Write) -> bool {
    matches!(write, Write::Task(task) if matches!(task.state, TaskState::Ready { .. }))
}

/// Deletes what a restoration that was cut off has left.
async fn remove_remains(opener: &Opener, header: &Header) -> Result<()> {
    let id = header.id;
    match opener.store.session(id).await? {
        None => Ok(()),
        Some(row) if row.new.labels.contains_key(RESTORING) => {
            Session::open_as_it_is(opener, id).await?.delete().await
        }
        Some(_) => Err(Error::conflict(format!("restore session {id}: the store has it; delete it first"))),
    }
}

/// Creates the session under an epoch that it never had.
async fn create(opener: &Opener, header: &Header, writes: Vec<Write>) -> Result<Epoch> {
    let now = opener.world.clock.now();
    let labels = [(RESTORING.to_owned(), String::new())].into();
    let new = NewSession { labels, ..header.new.clone() };
    for doubled in 0..EPOCHS_TRIED {
        let epoch = Epoch(header.epoch.0 + (1 << doubled));
        let first = Batch {
            session: header.id,
            owner: opener.owner,
            epoch,
            seq: Seq(1),
            time: header.created,
            durability: Durability::Relaxed,
            minted: header.minted,
            due: Due::None,
            writes: writes.clone().into(),
        };
        match opener.store.create(Create { new: new.clone(), first, until: now + opener.term }).await {
            Ok(Created::New(_)) => return Ok(epoch),
            Ok(Created::Existing(other)) => {
                let message =
                    format!("restore session {}: its request id is session {other}'s now", header.id);
                return Err(Error::conflict(message));
            }
            Err(error) if *error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::conflict(format!("restore session {}: its id is in use", header.id)))
}

/// The lines of an archive, each counted and hashed as it comes.
struct Lines<R> {
    archive: R,
    tally: Tally,
}

impl<R: AsyncBufRead + Unpin + Send> Lines<R> {
    /// The next line; none at the end. The last line proves those before it.
    async fn next(&mut self) -> Result<Option<Line>> {
        let mut text = String::new();
        let read = self.archive.read_line(&mut text).await;
        if read.map_err(|fault| invalid(&fault.to_string()))? == 0 {
            return Ok(None);
        }
        let text = text.trim_end_matches('\n');
        let number = self.tally.lines + 1;
        let line: Line =
            serde_json::from_str(text).map_err(|fault| invalid(&format!("line {number}: {fault}")))?;
        if matches!(line, Line::End { .. }) {
            if text != self.tally.end().to_text()? {
                return Err(invalid("its last line does not fit those before it: it was changed"));
            }
        } else {
            self.tally.add(text);
        }
        Ok(Some(line))
    }
}

fn invalid(what: &str) -> Error {
    Error::invalid(format!("restore an archive: {what}"))
}
