//! Who follows the session: with its owner, and from outside. Each writes down what it saw, with its place.

use std::{sync::Arc, time::Duration};

use everturn::{
    Cursor, Error, Result, SessionReader, SystemClock,
    clock::Clock,
    id::{ConversationId, Epoch, Seq},
    kernel::Session,
    storage::Part,
    watch::{Changed, Frame, FrameKind, Start, Watch},
};

use crate::{
    notebook::{Line, Notebook, Told},
    still::Still,
};

/// The watcher that follows the open session, commit by commit.
pub const OWNER: &str = "owner's";
/// The watcher that reads from outside, some commits at a time.
pub const READER: &str = "reader's";

/// How many commits the reader leaves until it looks.
const LEFT: u64 = 4;

/// How long a watcher waits for what is stored until it says that it was forgotten. Nobody who is told waits for this.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Watchers {
    owner: Watcher,
    reader: Watcher,
}

struct Watcher {
    name: &'static str,
    watch: Watch,
    seen: Seq,
}

impl Watchers {
    /// Two watchers, each from where it was: at first, from before the first commit.
    pub(super) async fn join(session: &Session, notebook: &Notebook) -> Result<Self> {
        let begin = Cursor { session: session.id(), epoch: Epoch(1), seq: Seq(0) };
        let from = |name| notebook.cursor(name).unwrap_or(begin);
        let reader = SessionReader::open(session.store().clone(), session.id()).await?;
        let part = Part::Conversation(ConversationId::ROOT);
        let (at_owner, at_reader) = (from(OWNER), from(READER));
        let owned = session.watch(Part::Everything, Start::Cursor(at_owner));
        let read = reader.watch(Arc::new(Still), part, Start::Cursor(at_reader));
        Ok(Self {
            owner: Watcher { name: OWNER, watch: owned, seen: at_owner.seq },
            reader: Watcher { name: READER, watch: read, seen: at_reader.seq },
        })
    }

    /// After a commit: the one sees it at once, the other from time to time.
    pub(super) async fn follow(&mut self, seq: Seq, notebook: &Notebook) -> Result<()> {
        self.owner.read_up_to(seq, notebook).await?;
        if seq.0 >= self.reader.seen.0 + LEFT {
            self.reader.read_up_to(seq, notebook).await?;
        }
        Ok(())
    }

    /// Both see everything up to a commit.
    pub(super) async fn catch_up(&mut self, seq: Seq, notebook: &Notebook) -> Result<()> {
        self.owner.read_up_to(seq, notebook).await?;
        self.reader.read_up_to(seq, notebook).await
    }
}

impl Watcher {
    async fn read_up_to(&mut self, seq: Seq, notebook: &Notebook) -> Result<()> {
        while self.seen != seq {
            let frame = tokio::select! {
                biased;
                frame = self.watch.next() => frame,
                () = SystemClock.sleep(PATIENCE) => {
                    return Err(Error::invalid(format!("{} watch is not told of seq {seq}", self.name)));
                }
            };
            let ended = |why| Error::invalid(format!("{} watch ended before seq {seq}: {why}", self.name));
            let frame = frame.map_err(ended)?;
            self.seen = frame.cursor.seq;
            notebook.write(line(self.name, frame)?)?;
        }
        Ok(())
    }
}

fn line(name: &str, Frame { cursor, kind }: Frame) -> Result<Line> {
    match kind {
        FrameKind::Changed(changed) => Ok(Line::Seen(name.into(), cursor, told(cursor.seq, &changed))),
        FrameKind::Resync(_) => Ok(Line::Resync(name.into(), cursor)),
        other => Err(Error::invalid(format!("{name} watch was told {other:?} at {cursor}"))),
    }
}

/// What a frame tells, but for how documents came to their values: that depends on what is kept.
fn told(seq: Seq, changed: &Changed) -> Told {
    let conversations = changed.conversations.iter().map(|one| format!("{one:?}"));
    let entries = changed.entries.iter().map(|one| format!("{one:?}"));
    let tasks = changed.tasks.iter().map(|one| format!("{one:?}"));
    let documents = changed.documents.iter().map(|one| {
        let value = one.value.as_ref().map(|view| view.value());
        format!("{} {} of {}: {value:?}", one.record.kind, one.number, one.record.scope)
    });
    Told {
        seq: seq.0,
        records: conversations.chain(entries).chain(tasks).collect(),
        documents: documents.collect(),
    }
}
