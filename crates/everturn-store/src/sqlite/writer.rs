//! The writer: one thread, one connection, and everything that waits in one transaction (group commit).

mod line;

use std::{
    cmp::Reverse,
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use everturn_core::{
    error::{Error, Result},
    id::{Epoch, OwnerId, Seq, SessionId, UploadId},
    storage::{Batch, Committed, Created, Durability, Lease, Stats},
};
use futures_channel::oneshot;
use rusqlite::Connection;

use super::{
    checkpoint::Bell,
    connection::Place,
    doorbell::Rope,
    fault::{Fault, Outcome},
    queue::{Abandon, Queue},
};
use line::Line;

/// How many requests one transaction takes at most.
const GROUP_MAX: usize = 512;

/// What the writer has to know of a request.
pub(super) struct Ticket {
    /// What is attempted, as errors lead in with it.
    pub(super) attempted: String,
    /// Whose it is. A group takes one request of each, so that their requests keep their order.
    pub(super) whose: Whose,
    /// What it must survive when it returns.
    pub(super) durability: Durability,
    /// By what it is known to be stored, when the answer to COMMIT was lost; none when repeating it does no harm.
    pub(super) proof: Option<Proof>,
}

/// Whose request it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    Session(SessionId),
    Upload(UploadId),
    /// The store's keeper's.
    Keeper,
    /// The store's keeper's too, and outside of any transaction.
    Alone,
}

/// What a session's row says once a request is stored.
#[derive(Clone, Copy)]
pub(super) enum Proof {
    /// Of a batch: its seq is the head, in its owner's epoch.
    Head { owner: OwnerId, epoch: Epoch, seq: Seq },
    /// Of a claim: its owner is the owner.
    Owner(OwnerId),
    /// Of a deletion: the session has ended.
    Tombstone,
}

impl Proof {
    pub(super) fn of(batch: &Batch) -> Self {
        Self::Head { owner: batch.owner, epoch: batch.epoch, seq: batch.seq }
    }
}

/// What a request gives.
pub(super) trait Answer: Send + 'static {
    /// Whether it stored a batch.
    fn is_commit(&self) -> bool;

    /// What says that nobody knows whether the request is stored; none where only an error can say so.
    fn unknown() -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

impl Answer for Committed {
    fn is_commit(&self) -> bool {
        *self == Self::Stored
    }

    fn unknown() -> Option<Self> {
        Some(Self::Unknown)
    }
}

impl Answer for Option<Created> {
    fn is_commit(&self) -> bool {
        matches!(self, Some(Created::New(_)))
    }
}

impl Answer for Lease {
    fn is_commit(&self) -> bool {
        false
    }
}

impl Answer for () {
    fn is_commit(&self) -> bool {
        false
    }
}

/// The writer's thread.
pub(super) struct Writer {
    queue: Arc<Queue<Request>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, place: &Arc<Place>, bells: (Bell, Rope)) -> Self {
        let queue = Arc::new(Queue::new());
        let counts = Arc::new(Counts::default());
        let mut line = Line::new(connection, Arc::clone(place), bells, Arc::clone(&counts));
        let waiting = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            let _last = Abandon(&waiting);
            while let Some(group) = waiting.take(next_group) {
                line.commit(group);
                // Another process may wait for the lock.
                thread::yield_now();
            }
        });
        Self { queue, counts, thread: Some(thread) }
    }

    /// Does `work` inside a transaction, with what others wait for, and answers when the transaction is committed.
    ///
    /// Promise: once handed over, the work is done whether or not the caller still waits.
    pub(super) async fn write<T: Answer>(
        &self,
        ticket: Ticket,
        work: impl FnMut(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answered) = oneshot::channel();
        let job = Job { work, answer: None, reply };
        self.queue.push(Request { ticket, failure: None, job: Box::new(job) });
        let closed = |_| Error::closed("the store's writer has ended");
        answered.await.map_err(closed)?
    }

    pub(super) fn stats(&self) -> Stats {
        self.counts.read()
    }
}

impl Drop for Writer {
    /// Finishes what was handed over.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            let _panic = thread.join();
        }
    }
}

/// Takes the first request of everyone, what must be durable first. What is done alone is taken when its turn comes.
fn next_group(waiting: &mut VecDeque<Request>) -> Vec<Request> {
    if let Some(alone) = waiting.pop_front_if(|first| first.ticket.whose == Whose::Alone) {
        return vec![alone];
    }
    let mut taken = HashSet::from([Whose::Alone]);
    let (mut group, mut rest) = (Vec::new(), VecDeque::new());
    for request in waiting.drain(..) {
        if group.len() < GROUP_MAX && taken.insert(request.ticket.whose) {
            group.push(request);
        } else {
            rest.push_back(request);
        }
    }
    *waiting = rest;
    group.sort_by_key(|request| Reverse(request.ticket.durability));
    group
}

/// A request with its answer on the way.
struct Request {
    ticket: Ticket,
    failure: Option<Error>,
    job: Box<dyn Work>,
}

impl Request {
    /// Sends the answer, or why there is none.
    fn reply(self, refused: Option<&Error>) {
        let refused = refused.map(|error| error.clone().while_(&self.ticket.attempted));
        let failure = self.failure.or(refused);
        self.job.reply(failure);
    }

    /// Answers that nobody knows whether it is stored.
    fn leave_open(mut self, cause: &Error) {
        if !self.job.leave_open() {
            let what = format!("{}: {cause}; whether it is stored is not known", self.ticket.attempted);
            let error = match self.ticket.proof {
                Some(_) => Error::closed(what),
                None => Error::unavailable(format!("{what}, and it does no harm to try again")),
            };
            self.failure = Some(error.caused_by(cause.clone()));
        }
        self.reply(None);
    }
}

/// A job whose type of answer is of no concern to the writer.
trait Work: Send {
    fn run(&mut self, db: &Connection) -> Result<(), Fault>;
    fn is_commit(&self) -> bool;
    /// Takes for its answer that nobody knows; false where there is no such answer.
    fn leave_open(&mut self) -> bool;
    fn reply(self: Box<Self>, failure: Option<Error>);
}

struct Job<T, F> {
    work: F,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Answer, F: FnMut(&Connection) -> Outcome<T> + Send> Work for Job<T, F> {
    fn run(&mut self, db: &Connection) -> Result<(), Fault> {
        self.answer = None;
        self.answer = Some((self.work)(db)?);
        Ok(())
    }

    fn is_commit(&self) -> bool {
        self.answer.as_ref().is_some_and(T::is_commit)
    }

    fn leave_open(&mut self) -> bool {
        self.answer = T::unknown();
        self.answer.is_some()
    }

    fn reply(self: Box<Self>, failure: Option<Error>) {
        let answer = match (failure, self.answer) {
            (Some(error), _) => Err(error),
            (None, Some(answer)) => Ok(answer),
            (None, None) => Err(Error::closed("the store's writer did not come to the request")),
        };
        // A caller that was dropped does not wait for its answer.
        let _gone = self.reply.send(answer);
    }
}

/// Counted as it happens, read by whoever asks.
#[derive(Default)]
struct Counts {
    commits: AtomicU64,
    groups: AtomicU64,
    syncs: AtomicU64,
}

impl Counts {
    fn read(&self) -> Stats {
        Stats {
            commits: self.commits.load(Ordering::Relaxed),
            groups: self.groups.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }

    fn add(&self, commits: u64, synced: bool) {
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.groups.fetch_add(u64::from(commits > 0), Ordering::Relaxed);
        self.syncs.fetch_add(u64::from(synced), Ordering::Relaxed);
    }
}
