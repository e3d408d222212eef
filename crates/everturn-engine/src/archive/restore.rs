//! From an archive back into a store.

use std::collections::BTreeSet;

use everturn_core::{
    Error, ErrorKind, Result,
    id::{BlobId, ConversationId, Epoch, Seq, UploadId},
    storage::{Batch, Committed, Create, Created, Due, Durability, Mail, NewSession, TaskQuery, Write},
    task::TaskState,
    usage::UsageRow,
};
use tokio::io::AsyncBufRead;

use super::{
    RESTORING,
    blob::Coming,
    check_empty, is_half_restored,
    lease::Lease,
    line::{self, Commit, FORM, Header, Line},
    line_max,
    lines::{Lines, invalid},
};
use crate::session::{Opener, Session, SessionReader};

/// How much further than the archive's the epoch of a session that was deleted since may have come: two to this.
const EPOCHS_TRIED: u32 = 40;

/// The largest epoch, head and id that an archive may name. Stores keep 63 bits, and all of them still grow.
const COUNTED_MAX: u64 = 1 << 62;

impl Session {
    /// Brings a session back from an archive, with its id, its seqs and its times, and opens it.
    ///
    /// Promise: all or nothing: an archive that is cut off or changed, or that contradicts itself, leaves no session, and a
    /// restoration that was cut off is begun anew by the next. Until it is whole the session has no title, and no labels but
    /// `et.restoring`; it has its request id, so that repeating its creation finds it and makes no second one.
    /// Errors: `Invalid` when it is no whole archive, or would reach outside of its session; `TooLarge`; `Newer`; `Conflict`
    /// when the store has the session; `Owned` when someone else is restoring it.
    pub async fn restore(opener: &Opener, archive: impl AsyncBufRead + Unpin + Send) -> Result<Self> {
        let mut restoring = Restoring::begin(opener, archive).await?;
        let lease = restoring.lease.clone();
        match lease.keep_during(restoring.run()).await {
            Ok(()) => {
                // Claimed again as every session is: with its head, and its live work.
                lease.release().await?;
                Self::open(opener, lease.session).await
            }
            Err(error) => {
                // What cannot be taken back now is begun anew another time: it has the label.
                let _left = lease.delete().await;
                Err(error)
            }
        }
    }
}

/// A session on its way back.
struct Restoring<R> {
    lines: Lines<R>,
    header: Header,
    lease: Lease,
    head: Seq,
    /// How many commits had nothing to tell.
    empty: u64,
    conversations: BTreeSet<ConversationId>,
    blobs: Vec<BlobId>,
    coming: Option<Coming>,
    usage: Vec<UsageRow>,
    mail: Vec<Mail>,
}

impl<R: AsyncBufRead + Unpin + Send> Restoring<R> {
    async fn begin(opener: &Opener, archive: R) -> Result<Self> {
        let mut lines = Lines::new(archive, line_max(&opener.limits));
        let Some(Line::Session(header)) = lines.next().await? else {
            return Err(invalid("its first line names no session"));
        };
        check_header(&header)?;
        let Some(Line::Commit(first)) = lines.next().await? else {
            return Err(invalid("its first commit is missing"));
        };
        if first.seq != Seq(1) || first.conversations().all(|id| id != ConversationId::ROOT) {
            return Err(invalid("its first commit is not the one that created the session"));
        }
        let mut conversations = BTreeSet::new();
        check_commit(&header, &mut conversations, &first)?;
        remove_remains(opener, &header).await?;
        let epoch = create(opener, &header, first.into_writes()?).await?;
        Ok(Self {
            lines,
            lease: Lease { opener: opener.clone(), session: header.id, epoch },
            header,
            head: Seq(1),
            empty: 0,
            conversations,
            blobs: Vec::new(),
            coming: None,
            usage: Vec::new(),
            mail: Vec::new(),
        })
    }

    async fn run(&mut self) -> Result<()> {
        loop {
            match self.lines.next().await? {
                Some(Line::Chunk { blob, size, base64 }) => self.chunk(blob, size, &base64).await?,
                Some(Line::Commit(commit)) => self.commit(*commit).await?,
                Some(Line::Usage(usage)) => self.usage.extend(usage),
                Some(Line::Mail(mail)) => self.mail(mail)?,
                Some(Line::End { .. }) => {
                    if self.lines.next().await?.is_some() {
                        return Err(invalid("something comes behind its last line"));
                    }
                    return self.end().await;
                }
                Some(Line::Session(_)) => return Err(invalid("it names a second session")),
                None => return Err(invalid("it was cut off: its last line is missing")),
            }
        }
    }

    async fn chunk(&mut self, blob: BlobId, size: u64, base64: &str) -> Result<()> {
        let Opener { store, world, .. } = &self.lease.opener;
        let time = world.clock.now();
        let begun = self.coming.take();
        let mut coming =
            begun.unwrap_or_else(|| Coming::new(blob, size, UploadId::new(time, &*world.entropy)));
        store.put_chunk(coming.chunk((blob, size), line::bytes(base64)?, time)?).await?;
        if coming.is_whole() {
            store.seal(coming.seal(time)?).await?;
            self.blobs.push(blob);
        } else {
            self.coming = Some(coming);
        }
        Ok(())
    }

    /// Stores a commit under its seq. Seqs whose commits have nothing to tell any more are empty.
    async fn commit(&mut self, commit: Commit) -> Result<()> {
        let (seq, head) = (commit.seq, self.header.head);
        if seq > head {
            return Err(invalid(&format!("seq {seq} comes behind the last, which is {head}")));
        }
        check_commit(&self.header, &mut self.conversations, &commit)?;
        let writes = commit.into_writes()?;
        self.come_to(seq).await?;
        self.store(writes).await
    }

    fn mail(&mut self, mail: Mail) -> Result<()> {
        if mail.session != self.header.id {
            let (key, other) = (mail.key, mail.session);
            return Err(invalid(&format!("its mail {key:?} is for another session, {other}")));
        }
        self.mail.push(mail);
        Ok(())
    }

    /// Stores empty commits up to the one before `seq`.
    async fn come_to(&mut self, seq: Seq) -> Result<()> {
        if seq <= self.head {
            return Err(invalid(&format!("seq {seq} comes behind seq {}", self.head)));
        }
        self.empty += seq.0 - self.head.next().0;
        check_empty(self.empty)?;
        while self.head.next() < seq {
            self.store(Vec::new()).await?;
        }
        Ok(())
    }

    /// What is no commit's own comes behind the last. Then all of it is proven, and only then is it a session.
    async fn end(&mut self) -> Result<()> {
        if self.coming.is_some() {
            return Err(invalid("its last blob is not whole"));
        }
        self.come_to(self.header.head.next()).await?;
        let mut writes: Vec<_> = self.usage.drain(..).map(Write::Usage).collect();
        writes.extend(self.blobs.drain(..).map(Write::Blob));
        if self.header.floor > Seq(0) {
            writes.push(Write::Trim(self.header.floor));
        }
        self.store(writes).await?;
        self.prove().await?;
        for mail in self.mail.drain(..) {
            self.lease.opener.store.post(mail).await?;
        }
        self.name().await
    }

    /// Proves that what came agrees with itself. Errors: `Invalid`, with the first that does not.
    async fn prove(&self) -> Result<()> {
        let reader = SessionReader::open(self.lease.opener.store.clone(), self.header.id).await?;
        match reader.verify().await?.first() {
            Some(finding) => Err(invalid(&format!("it contradicts itself: {finding}"))),
            None => Ok(()),
        }
    }

    /// Gives the session its own title and labels. With them it is a session like any other: from here on it is restored, and
    /// may be found, opened and run.
    async fn name(&mut self) -> Result<()> {
        let NewSession { title, labels, .. } = self.header.new.clone();
        let mut writes: Vec<_> = title.map(Write::Title).into_iter().collect();
        writes.push(Write::Labels(labels));
        let batch = Batch { durability: Durability::Durable, due: self.due().await?, ..self.batch(writes) };
        self.send(batch).await
    }

    /// When the session wants to run next.
    async fn due(&self) -> Result<Due> {
        let query = TaskQuery::live(self.header.id);
        let live = self.lease.opener.store.tasks(query).await?;
        let is_ready = live.iter().any(|task| matches!(task.state, TaskState::Ready { .. }));
        Ok(if is_ready { Due::Now } else { Due::None })
    }

    async fn store(&mut self, writes: Vec<Write>) -> Result<()> {
        self.send(self.batch(writes)).await
    }

    /// The next commit: relaxed, since the last makes it durable, and not due, since nobody may run what is half there.
    fn batch(&self, writes: Vec<Write>) -> Batch {
        Batch {
            session: self.header.id,
            owner: self.lease.opener.owner,
            epoch: self.lease.epoch,
            seq: self.head.next(),
            time: self.header.used,
            durability: Durability::Relaxed,
            minted: self.header.minted,
            due: Due::None,
            writes: writes.into(),
        }
    }

    async fn send(&mut self, batch: Batch) -> Result<()> {
        let seq = batch.seq;
        match self.lease.opener.store.commit(batch).await? {
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

fn check_header(header: &Header) -> Result<()> {
    let Header { form, id, epoch, head, floor, minted, .. } = header;
    if *form > FORM {
        let kind = ErrorKind::Newer { found: *form, known: FORM };
        return Err(Error::new(kind, format!("restore session {id}: a newer version wrote it")));
    }
    if epoch.0.max(head.0).max(*minted) > COUNTED_MAX {
        let what = format!("epoch {epoch}, seq {head} and id {minted}: nobody counted that far");
        return Err(invalid(&what));
    }
    if floor > head {
        return Err(invalid(&format!("it was trimmed up to seq {floor}, and its last is {head}")));
    }
    if header.new.labels.contains_key(RESTORING) {
        return Err(invalid("it is of a session that was not whole"));
    }
    Ok(())
}

/// Proves of a commit what its session cannot be asked later: that its ids were given out, and that the conversations whose
/// documents it revises are there.
fn check_commit(
    header: &Header,
    conversations: &mut BTreeSet<ConversationId>,
    commit: &Commit,
) -> Result<()> {
    let (seq, minted) = (commit.seq, header.minted);
    if let Some(id) = commit.ids().find(|id| *id > minted) {
        let what = format!("id {id} in seq {seq} is beyond the greatest that was given out, {minted}");
        return Err(invalid(&what));
    }
    conversations.extend(commit.conversations());
    match commit.scopes().find(|scope| !conversations.contains(scope)) {
        Some(scope) => {
            Err(invalid(&format!("conversation {scope}, whose document seq {seq} revises, is not there")))
        }
        None => Ok(()),
    }
}

/// Deletes what a restoration that was cut off has left.
async fn remove_remains(opener: &Opener, header: &Header) -> Result<()> {
    let id = header.id;
    match opener.store.session(id).await? {
        None => Ok(()),
        // Whoever was restoring it may have come to the end since: then it is not as its row was.
        Some(row) if is_half_restored(&row) && opener.delete_as(&row).await? => Ok(()),
        Some(_) => Err(Error::conflict(format!("restore session {id}: the store has it; delete it first"))),
    }
}

/// Creates the session under an epoch that it never had.
///
/// Nobody can give a session its request id later, so that it has it from the start: who repeats the creation meanwhile finds
/// a session that is not whole, which is better than a second one for good.
async fn create(opener: &Opener, header: &Header, writes: Vec<Write>) -> Result<Epoch> {
    let now = opener.world.clock.now();
    let labels = [(RESTORING.to_owned(), String::new())].into();
    let new = NewSession { title: None, labels, ..header.new.clone() };
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
