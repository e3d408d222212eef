//! A task's handle: wait for its end, tell it something, stop it.

use std::{marker::PhantomData, sync::Arc};

use everturn_core::{
    Error, Result,
    id::TaskId,
    storage::TaskQuery,
    task::{
        Signal, TaskOutcome, TaskRecord,
        tree::{Aborting, Reach},
    },
};

use super::live::LiveSession;
use crate::task::Task;

/// A task of an open session. Cheap to clone; keeps the session alive.
///
/// ```
/// use everturn_engine::{Task, TaskHandle};
/// async fn receipt<T: Task>(payment: TaskHandle<T>) -> everturn_core::Result<Option<T::Output>> {
///     payment.ended().await?.output()
/// }
/// ```
pub struct TaskHandle<T> {
    live: LiveSession,
    id: TaskId,
    of: PhantomData<fn() -> T>,
}

/// A task that has ended: its record is what is left of it.
///
/// ```
/// # use everturn_engine::{Ended, Task};
/// fn paid<T: Task<Output = String>>(ended: &Ended<T>) -> everturn_core::Result<Option<String>> {
///     assert!(ended.outcome().is_completed());
///     ended.output()
/// }
/// ```
pub struct Ended<T> {
    record: Arc<TaskRecord>,
    outcome: TaskOutcome,
    of: PhantomData<fn() -> T>,
}

impl<T: Task> TaskHandle<T> {
    pub(super) fn new(live: LiveSession, id: TaskId) -> Self {
        Self { live, id, of: PhantomData }
    }

    /// Its id.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Its record as it is now, ended or not.
    ///
    /// Errors: `NotFound` when there is no such task.
    pub async fn record(&self) -> Result<Arc<TaskRecord>> {
        if let Some(live) = self.live.session().0.state().live.task(self.id) {
            return Ok(live.clone());
        }
        let session = self.live.id();
        let query = TaskQuery::one(session, self.id);
        let found = self.live.store().tasks(query).await?.pop();
        found.map(Arc::new).ok_or_else(|| {
            Error::not_found(format!("look for task {} of session {session}: there is none", self.id))
        })
    }

    /// Waits for its end. Lets its work go on.
    ///
    /// Errors: `NotFound` when there is no such task; `Invalid` when it is of another kind; `Closed` or `Fenced` when the
    /// session is given up first: it then ends where the session is opened next.
    pub async fn ended(&self) -> Result<Ended<T>> {
        self.check_kind(&*self.record().await?)?;
        self.live.resume();
        let look = || async {
            let is_live = self.live.session().0.state().live.task(self.id).is_some();
            Ok(if is_live { None } else { Some(self.record().await?) })
        };
        let record = self.live.when(look).await?;
        let id = self.id;
        match record.outcome().cloned() {
            Some(outcome) => Ok(Ended { record, outcome, of: PhantomData }),
            None => Err(Error::conflict(format!("wait for task {id}: it has not ended"))),
        }
    }

    fn check_kind(&self, record: &TaskRecord) -> Result<()> {
        let (id, name, kind) = (self.id, T::NAME, &record.kind);
        match kind == name {
            true => Ok(()),
            false => Err(Error::invalid(format!("read task {id} as {name}: it is a {kind}"))),
        }
    }

    /// Tells it to stop, and all below it.
    ///
    /// Errors: as [`LiveSession::abort_task`].
    pub async fn abort(&self, reason: &str) -> Result<Aborting> {
        self.live.abort_task(self.id, reason, Reach::Ordinary).await
    }

    /// Tells it that something happened.
    ///
    /// Errors: as [`LiveSession::signal`].
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        self.live.signal(self.id, signal).await
    }
}

impl<T: Task> Ended<T> {
    /// Its record.
    pub fn record(&self) -> &TaskRecord {
        &self.record
    }

    /// How it ended.
    pub fn outcome(&self) -> &TaskOutcome {
        &self.outcome
    }

    /// What it was given.
    ///
    /// Errors: `Invalid` when another version wrote it and it does not read as this one's.
    pub fn input(&self) -> Result<T::Input> {
        self.record.input.read()
    }

    /// What came out; none where nothing did.
    ///
    /// Errors: `Invalid` when another version wrote it and it does not read as this one's.
    pub fn output(&self) -> Result<Option<T::Output>> {
        self.outcome.read()
    }
}

impl<T> Clone for TaskHandle<T> {
    fn clone(&self) -> Self {
        Self { live: self.live.clone(), id: self.id, of: PhantomData }
    }
}

impl<T> std::fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TaskHandle({})", self.id)
    }
}

impl<T> std::fmt::Debug for Ended<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ended").field(&self.record.id).field(&self.outcome).finish()
    }
}
