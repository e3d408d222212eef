//! Watches: a part of a session as it is, and then what each commit changes of it.

mod baseline;
mod frame;
mod hub;
mod replay;
mod typed;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use everturn_core::{
    CancelToken, Error, ErrorKind, Result,
    clock::Clock,
    cursor::Cursor,
    id::{DocumentId, SessionId},
    storage::{ChangeQuery, Part, Store, ViewQuery},
};
use futures_util::Stream;

use super::{Inner, Session, SessionReader, document::Revised};
pub use baseline::{Baseline, DocumentView};
pub use frame::{Changed, Frame, FrameKind, Revision};
pub(crate) use hub::Watchers;
use hub::{Gap, Next, Queue};
pub use typed::{DocumentFrame, DocumentWatch};

/// How many commits are replayed at a time.
const PAGE: usize = 100;

/// How long a doorbell is trusted: then the store is asked whether or not it rang.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// Where a watch begins.
///
/// ```
/// use everturn_engine::session::watch::Start;
/// let start = Start::from(None);
/// assert!(matches!(start, Start::Now));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// With what is there now.
    Now,
    /// Behind a place that was seen before, by whomever and wherever.
    Cursor(Cursor),
}

impl From<Cursor> for Start {
    fn from(cursor: Cursor) -> Self {
        Self::Cursor(cursor)
    }
}

impl From<Option<Cursor>> for Start {
    fn from(cursor: Option<Cursor>) -> Self {
        cursor.map_or(Self::Now, Self::Cursor)
    }
}

/// Why a watch ended.
///
/// ```
/// use everturn_engine::session::watch::Ended;
/// assert_eq!(Ended::Stopped.to_string(), "the watch was stopped");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It was told to stop.
    Stopped,
    /// The session was closed, and why.
    Closed(Error),
    /// Another owner holds the session: open it again, or read it.
    Fenced,
    /// The document was retired.
    Retired,
    /// The session was deleted.
    Deleted,
    /// It could not go on.
    Failed(Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the watch was stopped"),
            Self::Closed(why) | Self::Failed(why) => why.fmt(f),
            Self::Fenced => f.write_str("another owner holds the session"),
            Self::Retired => f.write_str("the document was retired"),
            Self::Deleted => f.write_str("the session was deleted"),
        }
    }
}

impl std::error::Error for Ended {}

impl From<Error> for Ended {
    /// Why a session was shut.
    fn from(why: Error) -> Self {
        match why.kind() {
            ErrorKind::Fenced => Self::Fenced,
            ErrorKind::Closed { why } if why == DELETED => Self::Deleted,
            _ => Self::Closed(why),
        }
    }
}

/// Why a session that its owner deletes is closed.
pub(crate) const DELETED: &str = "it was deleted";

/// Follows a part of a session: a baseline first, then a frame for each commit that changed it.
///
/// Promise: frames come in order, each once, none skipped. A watcher that is too slow delays nobody: when more than a
/// hundred frames wait, all of them become one reset with the newest state. Dropping it ends it; it keeps no session
/// open.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use everturn_core::{entry::Entry, id::ConversationId, memory::Memory, storage::{NewSession, Part, Store}};
/// # use everturn_engine::{Opener, Session, World, session::watch::{FrameKind, Start}};
/// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// # let session = Session::create(&opener, NewSession::default()).await?;
/// let mut watch = session.watch(Part::Conversation(ConversationId::ROOT), Start::Now);
/// assert!(matches!(watch.next().await?.kind, FrameKind::Baseline(_)));
///
/// let mut tx = session.begin().await?;
/// tx.append(ConversationId::ROOT, Entry::new("app.note"))?;
/// let seq = tx.commit().await?;
/// assert_eq!(watch.next().await?.cursor.seq, seq);
/// # Ok(()) }
/// ```
pub struct Watch {
    source: Source,
    place: Place,
    ready: VecDeque<Frame>,
    /// What the watch ends with once `ready` is told.
    end: Option<Ended>,
    /// The watched document, once it was seen.
    document: Option<DocumentId>,
    stop: CancelToken,
}

/// What is watched, and how it is read.
struct Source {
    store: Store,
    clock: Arc<dyn Clock>,
    session: SessionId,
    part: Part,
    /// The open session, where it is ours. Weak: a watcher keeps no session open.
    live: Option<Weak<Inner>>,
}

enum Place {
    Begin(Start),
    /// Reads what commits changed from the store. With a queue, the last time: what comes later waits in the queue.
    Reading {
        cursor: Cursor,
        queue: Option<Arc<Queue>>,
        heard: u64,
        is_due: bool,
    },
    /// Is told by the open session.
    Following {
        cursor: Cursor,
        queue: Arc<Queue>,
        /// What the newest state is to be told as; taken from the queue, and not told yet.
        gap: Option<Gap>,
    },
}

impl Session {
    /// Watches a part of the session.
    ///
    /// Shape: from now on a baseline comes first; from a cursor, the frames behind it do.
    /// Errors: those with which [`Watch::next`] ends; `Invalid` for a cursor of another session.
    pub fn watch(&self, part: Part, from: impl Into<Start>) -> Watch {
        let opener = &self.0.opener;
        Watch::new(
            Source {
                store: opener.store.clone(),
                clock: opener.world.clock.clone(),
                session: self.id(),
                part,
                live: Some(Arc::downgrade(&self.0)),
            },
            from.into(),
        )
    }
}

impl SessionReader {
    /// Watches a part of the session, whoever owns it: in this process, in another, or nobody.
    ///
    /// Shape: as [`Session::watch`]; it ends only when it is stopped or the session is deleted.
    pub fn watch(&self, clock: Arc<dyn Clock>, part: Part, from: impl Into<Start>) -> Watch {
        let (store, session) = (self.store().clone(), self.row().id);
        Watch::new(Source { store, clock, session, part, live: None }, from.into())
    }
}

impl Watch {
    fn new(source: Source, from: Start) -> Self {
        let stop = CancelToken::new();
        Self { source, place: Place::Begin(from), ready: VecDeque::new(), end: None, document: None, stop }
    }

    /// The same watch, which ends when `stop` is cancelled.
    #[must_use]
    pub fn stopped_by(mut self, stop: CancelToken) -> Self {
        self.stop = stop;
        self
    }

    /// The next frame, or why there are no more. Waiting can be given up at any time and loses nothing.
    pub async fn next(&mut self) -> Result<Frame, Ended> {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Ended::Stopped),
            frame = self.advance() => frame,
        }
    }

    /// The frames as a stream that ends where the watch does; `Err`, with the reason, is its last item.
    pub fn into_stream(self) -> impl Stream<Item = Result<Frame, Ended>> {
        futures_util::stream::unfold(Some(self), |watch| async {
            let mut watch = watch?;
            match watch.next().await {
                Ok(frame) => Some((Ok(frame), Some(watch))),
                Err(ended) => Some((Err(ended), None)),
            }
        })
    }

    async fn advance(&mut self) -> Result<Frame, Ended> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(frame);
            }
            if let Some(end) = &self.end {
                return Err(end.clone());
            }
            if let Err(end) = self.step().await {
                self.end = Some(end);
            }
        }
    }

    /// Finds what comes next. All that it changes it changes behind its last wait.
    async fn step(&mut self) -> Result<(), Ended> {
        match &mut self.place {
            Place::Begin(Start::Now) => {
                let queue = self.source.subscribe()?;
                let frame = self.source.baseline(FrameKind::Baseline).await?;
                self.go_on(frame, queue);
            }
            Place::Begin(Start::Cursor(cursor)) if cursor.session != self.source.session => {
                let (cursor, session) = (*cursor, self.source.session);
                return Err(Ended::Failed(Error::invalid(format!(
                    "watch session {session} from {cursor}: the cursor is of another session"
                ))));
            }
            Place::Begin(Start::Cursor(cursor)) => {
                self.place = Place::Reading { cursor: *cursor, queue: None, heard: 0, is_due: true };
            }
            Place::Reading { is_due: false, heard, .. } => {
                let rung = self.source.doorbell(*heard).await;
                let Place::Reading { heard, is_due, .. } = &mut self.place else { return Ok(()) };
                (*heard, *is_due) = (rung, true);
            }
            Place::Reading { .. } => self.read().await?,
            Place::Following { .. } => self.follow().await?,
        }
        Ok(())
    }

    /// Tells a frame with the newest state and goes on from there.
    fn go_on(&mut self, frame: Frame, queue: Option<Arc<Queue>>) {
        let cursor = frame.cursor;
        self.tell(frame);
        self.place = match queue {
            Some(queue) => Place::Following { cursor, queue, gap: None },
            None => Place::Reading { cursor, queue: None, heard: 0, is_due: true },
        };
    }

    /// Reads a page of what commits changed; with the last page begins to follow, or to wait.
    async fn read(&mut self) -> Result<(), Ended> {
        let Place::Reading { cursor, queue, heard, .. } = &self.place else { return Ok(()) };
        let (cursor, queue, heard) = (*cursor, queue.clone(), *heard);
        let query =
            ChangeQuery { session: self.source.session, epoch: cursor.epoch, after: cursor.seq, limit: PAGE };
        let changes = self.source.ask(|store| store.changes(query)).await?;
        if !cursor.is_kept(&changes) {
            let queue = self.source.subscribe()?;
            let frame = self.source.baseline(FrameKind::Resync).await?;
            self.go_on(frame, queue);
            return Ok(());
        }
        let next = cursor.at(changes.until, &changes);
        let is_all = changes.until == changes.head;
        let frames = replay::frames(cursor, changes, &self.source.part).map_err(Ended::Failed)?;
        frames.into_iter().for_each(|frame| self.tell(frame));
        let is_new = queue.is_none();
        let reading = |queue, is_due| Place::Reading { cursor: next, queue, heard, is_due };
        self.place = match queue {
            Some(queue) if is_all => Place::Following { cursor: next, queue, gap: None },
            queue => reading(queue, true),
        };
        if is_all && is_new {
            // With a queue it reads once more: what came before the queue was there.
            let queue = self.source.subscribe()?;
            let is_due = queue.is_some();
            self.place = reading(queue, is_due);
        }
        Ok(())
    }

    /// Waits for what the open session tells.
    async fn follow(&mut self) -> Result<(), Ended> {
        let Place::Following { queue, gap, .. } = &mut self.place else { return Ok(()) };
        if let Some(told) = *gap {
            let queue = queue.clone();
            let frame = self.source.baseline(told).await?;
            self.go_on(frame, Some(queue));
            return Ok(());
        }
        match queue.next().await {
            Next::Commit(cursor, adopted) => {
                let Place::Following { cursor: seen, .. } = &mut self.place else { return Ok(()) };
                if cursor.seq > seen.seq {
                    *seen = cursor;
                    let kind = FrameKind::Changed(Changed::of(&adopted, &self.source.part));
                    self.tell(Frame { cursor, kind });
                }
            }
            Next::Gap(told) => *gap = Some(told),
            Next::End(end) => return Err(end),
        }
        Ok(())
    }

    /// Hands a frame out. The end of a watched document is the watch's: of what comes behind it nothing is told.
    fn tell(&mut self, frame: Frame) {
        if self.end.is_some() {
            return;
        }
        if matches!(self.source.part, Part::Document { .. }) {
            let seen = frame.document();
            // In a newest state another one, or none, stands where it was.
            if frame.kind.baseline().is_some() && self.document.is_some() && seen != self.document {
                self.end = Some(Ended::Retired);
                return;
            }
            self.document = seen.or(self.document);
            if frame.retires() {
                self.end = Some(Ended::Retired);
            }
        }
        self.ready.push_back(frame);
    }
}

impl Source {
    /// A queue of what the open session will tell; none where it is not ours.
    fn subscribe(&self) -> Result<Option<Arc<Queue>>, Ended> {
        let Some(live) = &self.live else { return Ok(None) };
        let Some(inner) = live.upgrade() else {
            return Err(Ended::Closed(Error::closed("its last handle was dropped")));
        };
        Ok(Some(inner.hub.subscribe(self.part.clone())))
    }

    /// The part as it is.
    async fn baseline(&self, kind: impl FnOnce(Baseline) -> FrameKind) -> Result<Frame, Ended> {
        let query = ViewQuery { session: self.session, part: self.part.clone() };
        let view = self.ask(|store| store.view(query.clone())).await?;
        let cursor = Cursor { session: self.session, epoch: view.epoch, seq: view.head };
        Ok(Frame { cursor, kind: kind(Baseline::of(view).map_err(Ended::Failed)?) })
    }

    /// Asks the store until it answers: that it cannot for a moment ends no watch.
    async fn ask<'a, T, F: Future<Output = Result<T>>>(
        &'a self,
        ask: impl Fn(&'a Store) -> F,
    ) -> Result<T, Ended> {
        loop {
            match ask(&self.store).await {
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => {
                    self.clock.sleep(POLL).await;
                }
                answer => return answer.map_err(gone),
            }
        }
    }

    /// Waits until something may have changed.
    async fn doorbell(&self, heard: u64) -> u64 {
        tokio::select! {
            rung = self.store.doorbell(heard) => rung,
            () = self.clock.sleep(POLL) => heard,
        }
    }
}

/// Why a session that was there cannot be read.
fn gone(error: Error) -> Ended {
    if error.is_deleted() { Ended::Deleted } else { Ended::Failed(error) }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("session", &self.source.session)
            .field("part", &self.source.part)
            .finish()
    }
}
