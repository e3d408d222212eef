//! The line of commits: what the next commit must know, and who holds it.

use std::{
    panic::Location,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use everturn_core::{Error, ErrorKind, Result, clock::Timestamp, id::Seq};
use tokio::sync::OwnedMutexGuard;

/// What only the holder of the line knows and changes.
pub(crate) struct Line {
    /// The last commit.
    pub(crate) head: Seq,
    /// The greatest id that was given out.
    pub(crate) minted: u64,
}

/// How long a transaction may keep others waiting. Time inside `commit` does not count.
pub(super) const HOLD_MAX: Duration = Duration::from_secs(10);

/// The line in the hands of a transaction, until it commits, is dropped, or has kept others waiting for too long.
pub(super) struct Hold {
    line: Mutex<Option<OwnedMutexGuard<Line>>>,
    since: Mutex<Timestamp>,
    at: &'static Location<'static>,
    /// Whether the work that began it was given up.
    is_given_up: AtomicBool,
}

impl Hold {
    pub(super) fn new(line: OwnedMutexGuard<Line>, since: Timestamp, at: &'static Location<'static>) -> Self {
        Self {
            line: Mutex::new(Some(line)),
            since: Mutex::new(since),
            at,
            is_given_up: AtomicBool::new(false),
        }
    }

    fn line(&self) -> MutexGuard<'_, Option<OwnedMutexGuard<Line>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last commit, and the greatest id that was given out.
    ///
    /// Errors: `Expired`.
    pub(super) fn place(&self) -> Result<(Seq, u64)> {
        self.line().as_ref().map(|line| (line.head, line.minted)).ok_or_else(|| self.expired())
    }

    /// Takes the line to commit.
    ///
    /// Errors: `Expired`.
    pub(super) fn take(&self) -> Result<OwnedMutexGuard<Line>> {
        self.line().take().ok_or_else(|| self.expired())
    }

    /// How much longer it may be held; all of it once a commit is under way.
    pub(super) fn left(&self, now: Timestamp) -> Duration {
        if self.line().is_none() { HOLD_MAX } else { HOLD_MAX.saturating_sub(now.since(self.since())) }
    }

    fn since(&self) -> Timestamp {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now.
    pub(super) fn renew(&self, now: Timestamp) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Takes the line away from its holder.
    pub(super) fn expire(&self) {
        tracing::warn!(at = %self.at, "a transaction was held too long and is rolled back");
        self.line().take();
    }

    /// Takes the line away from a holder whose work was given up.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
        self.line().take();
    }

    /// Whether the transaction is still being put together.
    pub(super) fn is_open(&self) -> bool {
        self.line().is_some()
    }

    /// Where it began.
    pub(super) fn at(&self) -> &'static Location<'static> {
        self.at
    }

    fn expired(&self) -> Error {
        let (at, limit) = (self.at, HOLD_MAX.as_secs());
        let why = match self.is_given_up.load(Ordering::SeqCst) {
            true => "the work that began it was given up, and it was rolled back".into(),
            false => format!("it kept others waiting for {limit} s and was rolled back"),
        };
        Error::new(ErrorKind::Expired, format!("use the transaction begun at {at}: {why}"))
    }
}
