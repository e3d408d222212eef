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
    /// Sessions that cannot be opened, and when they were last used: they are left alone until they change.
    broken: HashMap<SessionId, Timestamp>,
}

impl Worker {
    /// A worker over a harness.
    pub fn new(harness: Harness, settings: WorkerSettings) -> Self {
        Self { harness, settings, open: BTreeMap::new(), broken: HashMap::new() }
    }

    /// Works until it is told to stop; then it closes what it has open, and the work goes on where that is opened next.
    ///
    /// Errors: what storage says that waiting does not mend.
    pub async fn run(mut self, stop: &CancelToken) -> Result<()> {
        let mut heard = 0;
        while !stop.is_cancelled() {
            let looked = self.harness.opener().world.clock.now();
            match self.turn_over().await {
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "a worker cannot look for work; trying again");
                }
                done => done?,
            }
            heard = self.wait(heard, looked, stop).await;
        }
        // All at once: each may take its time to stop what runs.
        let closing = self.open.values().map(give_up);
        futures_util::future::join_all(closing).await.into_iter().collect()
    }

    /// Gives up what rests, and opens what wants to run.
    async fn turn_over(&mut self) -> Result<()> {
        let rests: Vec<_> = self.open.iter().filter(|(_, open)| open.rests()).map(|(id, _)| *id).collect();
        for id in rests {
            if let Some(session) = self.open.remove(&id) {
                give_up(&session).await?;
            }
        }
        let room = self.settings.sessions_max.saturating_sub(self.open.len());
        let limit = if room == 0 { 0 } else { room + self.broken.len() };
        let (now, code) = (self.harness.opener().world.clock.now(), self.harness.code());
        let store = &self.harness.opener().store;
        let found = store.runnable(RunnableQuery { now, code, limit }).await?;
        for id in found {
            if self.open.len() < self.settings.sessions_max && !self.is_broken(id).await? {
                self.take(id).await?;
            }
        }
        Ok(())
    }

    /// Opens a session and lets it run; one that somebody else was faster to take, or that is not there yet, is left.
    async fn take(&mut self, id: SessionId) -> Result<()> {
        match self.harness.open_session(id).await {
            Ok(session) => {
                session.resume();
                self.broken.remove(&id);
                self.open.insert(id, session);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::Owned { .. } | ErrorKind::Conflict | ErrorKind::NotFound => Ok(()),
                ErrorKind::Corrupt { .. } | ErrorKind::Newer { .. } => {
                    tracing::error!(session = %id, %error, "a session cannot be opened");
                    let row = self.harness.opener().store.session(id).await?;
                    self.broken.extend(row.map(|row| (id, row.used)));
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    async fn is_broken(&self, id: SessionId) -> Result<bool> {
        let Some(used) = self.broken.get(&id) else { return Ok(false) };
        let row = self.harness.opener().store.session(id).await?;
        Ok(row.is_none_or(|row| row.used == *used))
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

/// Closes a session. One that is not there any more, because whoever owned it next deleted it, is closed.
async fn give_up(session: &LiveSession) -> Result<()> {
    match session.close().await {
        Err(error) if error.is_deleted() => Ok(()),
        closed => closed,
    }
}

impl LiveSession {
    /// Whether nothing of it can run now, or it was given up.
    fn rests(&self) -> bool {
        self.check_open().is_err() || self.runner().is_quiescent()
    }
}

impl Harness {
    /// The code that can run tasks here.
    fn code(&self) -> Vec<Code> {
        let tasks = self.0.host.tasks().into_iter();
        tasks.map(|task| Code { kind: task.kind().into(), version: task.version() }).collect()
    }
}
