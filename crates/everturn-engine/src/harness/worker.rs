//! A worker: runs the sessions of a store that want to run and that nobody has open.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use everturn_core::{
    CancelToken, ErrorKind, Result,
    clock::Timestamp,
    id::SessionId,
    storage::{Code, Due, RunnableQuery},
};

use super::{Harness, LiveSession};

/// How a worker works.
///
/// ```
/// use everturn_engine::WorkerSettings;
/// assert_eq!(WorkerSettings::default().sessions_max, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// How many sessions it has open at once.
    pub sessions_max: usize,
    /// How long it relies on the doorbell and on its own clock, in milliseconds: then it asks the store.
    pub poll_ms: u64,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { sessions_max: 64, poll_ms: 1_000 }
    }
}

/// Runs the sessions of a store that want to run and that nobody has open: their tasks are ready, a moment has come, mail
/// lies there, or code has arrived that they waited for. A session is given up when nothing of it can run.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{CancelToken, memory::Memory, storage::Store};
/// use everturn_engine::{Harness, Worker, WorkerSettings};
///
/// let harness = Harness::builder(Store::new(Memory::new())).open().await?;
/// let stop = CancelToken::new();
/// stop.cancel();
/// Worker::new(harness, WorkerSettings::default()).run(&stop).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Worker {
    harness: Harness,
    settings: WorkerSettings,
    open: BTreeMap<SessionId, LiveSession>,
    /// Sessions that could not be opened, or ended by themselves, and until when they are left alone.
    left_alone: HashMap<SessionId, Timestamp>,
}

/// How long a session is left alone in which something went wrong.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// How long a worker rests between two looks: the bell rings for every commit of the store.
const REST: Duration = Duration::from_millis(25);

impl Worker {
    /// A worker over a harness.
    pub fn new(harness: Harness, settings: WorkerSettings) -> Self {
        Self { harness, settings, open: BTreeMap::new(), left_alone: HashMap::new() }
    }

    /// Works until it is told to stop; then it closes what it has open, and the work goes on where that is opened next.
    ///
    /// Errors: what storage says that waiting does not mend.
    pub async fn run(mut self, stop: &CancelToken) -> Result<()> {
        let mut heard = 0;
        while !stop.is_cancelled() {
            let looked = self.now();
            match self.turn_over().await {
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "a worker cannot look for work; trying again");
                }
                done => done?,
            }
            heard = self.wait(heard, looked, stop).await;
        }
        give_up(self.open.into_values()).await;
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.harness.opener().world.clock.now()
    }

    /// Gives up what rests, and opens what wants to run.
    async fn turn_over(&mut self) -> Result<()> {
        let now = self.now();
        let (ended, rest) =
            (self.taken_out(|open| open.check_open().is_err()), self.taken_out(LiveSession::rests));
        self.left_alone.extend(ended.iter().map(|session| (session.id(), now + LEFT_ALONE)));
        give_up(rest.into_iter()).await;
        self.left_alone.retain(|_, until| *until > now);
        let room = self.settings.sessions_max.saturating_sub(self.open.len());
        let limit = if room == 0 { 0 } else { room + self.left_alone.len() };
        let query = RunnableQuery { now, code: self.harness.code(), limit };
        for id in self.harness.opener().store.runnable(query).await? {
            if self.open.len() < self.settings.sessions_max && !self.left_alone.contains_key(&id) {
                self.take(id).await?;
            }
        }
        Ok(())
    }

    /// The sessions that are no longer to be open.
    fn taken_out(&mut self, is_over: impl Fn(&LiveSession) -> bool) -> Vec<LiveSession> {
        let over: Vec<_> = self.open.iter().filter(|(_, open)| is_over(open)).map(|(id, _)| *id).collect();
        over.iter().filter_map(|id| self.open.remove(id)).collect()
    }

    /// Opens a session and lets it run; one that somebody else was faster to take, or that is not there yet, is left.
    ///
    /// Errors: that storage refuses for now. What is wrong with one session keeps none of the others waiting.
    async fn take(&mut self, id: SessionId) -> Result<()> {
        match self.harness.open_session(id).await {
            Ok(session) => {
                session.resume();
                self.open.insert(id, session);
                Ok(())
            }
            Err(error) if error.is_passing() => Err(error),
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::Owned { .. } | ErrorKind::NotFound) {
                    tracing::warn!(session = %id, %error, "a session cannot be opened");
                    self.left_alone.insert(id, self.now() + LEFT_ALONE);
                }
                Ok(())
            }
        }
    }

    /// Waits until there may be something to do that was not there at the last look.
    async fn wait(&self, heard: u64, looked: Timestamp, stop: &CancelToken) -> u64 {
        let (store, clock) = (&self.harness.opener().store, &self.harness.opener().world.clock);
        let poll = Duration::from_millis(self.settings.poll_ms);
        let soonest = match store.next_due().await {
            // What was due then runs, or has no room, or is another's.
            Ok(Due::At(at)) if at > looked => at.since(clock.now()).min(poll),
            _ => poll,
        };
        let changed = async {
            clock.sleep(REST).await;
            tokio::select! {
                rung = store.doorbell(heard) => rung,
                () = self.any_rests() => heard,
                () = clock.sleep(soonest) => heard,
            }
        };
        tokio::select! {
            heard = changed => heard,
            () = stop.cancelled() => heard,
        }
    }

    /// Ends when one of the open sessions rests.
    async fn any_rests(&self) {
        let rest = self.open.values().map(|session| Box::pin(session.quiescent()));
        match rest.collect::<Vec<_>>() {
            none if none.is_empty() => std::future::pending().await,
            some => drop(futures_util::future::select_all(some).await),
        }
    }
}

/// Closes sessions, all at once: each may take its time to stop what runs. What goes wrong with one is told to the log: it
/// is no longer open either way.
async fn give_up(sessions: impl Iterator<Item = LiveSession>) {
    let closing = sessions.map(|session| async move {
        if let Err(error) = session.close().await {
            tracing::warn!(session = %session.id(), %error, "a session was given up, and not in order");
        }
    });
    futures_util::future::join_all(closing).await;
}

impl LiveSession {
    /// Whether nothing of it can run now.
    fn rests(&self) -> bool {
        self.runner().is_quiescent()
    }
}

impl Harness {
    /// The code that can run tasks here.
    fn code(&self) -> Vec<Code> {
        let tasks = self.0.host.tasks().into_iter();
        tasks.map(|task| Code { kind: task.kind().into(), version: task.version() }).collect()
    }
}
