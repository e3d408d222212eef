//! The line of commits: what the next commit must know, and the road into storage.

use std::{
    panic::Location,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn_core::{
    Error, ErrorKind, Result,
    clock::Timestamp,
    id::Seq,
    storage::{Batch, Committed},
};
use tokio::sync::OwnedMutexGuard;

use super::{Session, state::Adopted};

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
    since: Timestamp,
    at: &'static Location<'static>,
}

impl Hold {
    pub(super) fn new(line: OwnedMutexGuard<Line>, since: Timestamp, at: &'static Location<'static>) -> Self {
        Self { line: Mutex::new(Some(line)), since, at }
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
        if self.line().is_none() { HOLD_MAX } else { HOLD_MAX.saturating_sub(now.since(self.since)) }
    }

    /// Takes the line away from its holder.
    pub(super) fn expire(&self) {
        tracing::warn!(at = %self.at, "a transaction was held too long and is rolled back");
        self.line().take();
    }

    fn expired(&self) -> Error {
        let (at, limit) = (self.at, HOLD_MAX.as_secs());
        Error::new(
            ErrorKind::Expired,
            format!(
                "use the transaction begun at {at}: it kept others waiting for {limit} s and was rolled back"
            ),
        )
    }
}

/// Stores a batch and adopts it, in a task of its own: whoever waits may be dropped, the commit goes on.
pub(super) async fn commit(
    session: Session,
    line: OwnedMutexGuard<Line>,
    batch: Batch,
    adopted: Adopted,
) -> Result<Seq> {
    let watcher = session.clone();
    let committing = tokio::spawn(store_and_adopt(session, line, batch, adopted));
    committing.await.unwrap_or_else(|fault| {
        // Whether the batch is stored is unknown, and so is all that memory says.
        let error = Error::closed(format!("a commit was cut off: {fault}"));
        watcher.0.shut(error.clone());
        Err(error)
    })
}

async fn store_and_adopt(
    session: Session,
    mut line: OwnedMutexGuard<Line>,
    batch: Batch,
    adopted: Adopted,
) -> Result<Seq> {
    let (seq, minted) = (batch.seq, batch.minted);
    match session.0.opener.store.commit(batch).await {
        Ok(Committed::Stored | Committed::Already) => {
            (line.head, line.minted) = (seq, minted);
            let moves_tasks = adopted.moves_tasks();
            session.0.state().adopt(adopted);
            // Told in the order of commits; listeners run in tasks of their own, off the line.
            session.0.head.send_replace(seq);
            if moves_tasks {
                session.0.attention.notify_one();
            }
            Ok(seq)
        }
        Err(error) => {
            if is_final(&error) {
                session.0.shut(error.clone());
            }
            Err(error)
        }
    }
}

/// Whether an error of storage ends this owner's right to write.
pub(crate) fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Fenced | ErrorKind::Corrupt { .. } | ErrorKind::Closed { .. } | ErrorKind::Newer { .. }
    )
}
