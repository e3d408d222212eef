//! The road into storage: a batch is sent until storage says what became of it, and is then adopted.

use std::time::Duration;

use everturn_core::{
    CancelToken, Error, ErrorKind, Result,
    clock::Timestamp,
    cursor::Cursor,
    id::Seq,
    storage::{Batch, Committed, Lease},
};
use tokio::sync::OwnedMutexGuard;

use super::{
    Inner, Session,
    line::Line,
    state::{Adopted, Read},
};

/// How long one copy of a batch may take before it counts as unanswered.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long a batch without an answer is sent again before its owner claims the session anew.
const RESEND_MAX: Duration = Duration::from_secs(60);

/// How long to wait before a batch is sent again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How long to wait before what storage refused is offered again.
const REFUSED: Duration = Duration::from_millis(500);

/// Stores a batch and adopts it. With a token, what storage refuses for now is offered again until the token fires.
pub(super) async fn store_and_adopt(
    session: &Session,
    mut line: OwnedMutexGuard<Line>,
    (batch, adopted): (Batch, Adopted),
    stop: Option<CancelToken>,
) -> Result<Seq> {
    let inner = &session.0;
    // Dropped before the line is let go of.
    let mut sending = Sending { inner, is_settled: false };
    let begun = inner.opener.world.clock.now();
    let sent = match stop {
        None => inner.send(&batch).await,
        Some(stop) => inner.insist(batch.clone(), &stop).await,
    };
    sending.is_settled = true;
    match sent {
        Ok(()) => {
            (line.head, line.minted) = (batch.seq, batch.minted);
            inner.opener.meter.stored(inner.opener.world.clock.now().since(begun));
            inner.adopt(batch.seq, adopted);
            Ok(batch.seq)
        }
        Err(error) => {
            if is_final(&error) {
                inner.shut(error.clone());
            }
            if matches!(error.kind(), ErrorKind::Conflict) {
                return Err(inner.resync_if_lost(&mut line).await.unwrap_or(error));
            }
            Err(error)
        }
    }
}

/// A batch on its way. Where this is dropped before the answer (the runtime ends), whether the batch is stored is unknown,
/// and so is all that memory says: nobody may commit on top of it.
struct Sending<'a> {
    inner: &'a Inner,
    is_settled: bool,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.inner.shut(Error::closed("a commit was cut off before its answer came"));
        }
    }
}

/// Whether an error of storage ends this owner's right to write.
fn is_final(error: &Error) -> bool {
    error.is_deleted()
        || matches!(
            error.kind(),
            ErrorKind::Fenced
                | ErrorKind::Corrupt { .. }
                | ErrorKind::Closed { .. }
                | ErrorKind::Newer { .. }
        )
}

impl Inner {
    fn adopt(&self, seq: Seq, adopted: Adopted) {
        let moves_tasks = adopted.moves_tasks();
        let cursor = Cursor { session: self.id, epoch: self.epoch(), seq };
        let ended = self.opener.meter.count(self.id, &adopted);
        self.hub.commit(cursor, &adopted);
        self.state().adopt(adopted);
        self.spans.end(&ended);
        self.opener.meter.tell(ended);
        // Told in the order of commits; listeners run in tasks of their own, off the line.
        self.head.send_replace(seq);
        if moves_tasks {
            self.attention.notify_one();
        }
    }

    /// Sends a batch until storage says that it is stored, or refuses it for good, or the token fires.
    async fn insist(&self, mut batch: Batch, stop: &CancelToken) -> Result<()> {
        let mut refused = 0_u32;
        loop {
            // Where the session had to be claimed anew meanwhile, the batch is the new epoch's.
            batch.epoch = self.epoch();
            let error = match self.send(&batch).await {
                Err(error) if error.is_passing() && !stop.is_cancelled() => error,
                sent => return sent,
            };
            // Told once, and again every minute or so.
            if refused.is_multiple_of(120) {
                tracing::warn!(session = %self.id, %error, "nothing was stored; trying until it is");
            }
            refused = refused.wrapping_add(1);
            self.check_open()?;
            // Whoever says that it may be tried again at once must not keep the thread.
            tokio::task::yield_now().await;
            tokio::select! {
                () = self.opener.world.clock.sleep(error.retry_after().unwrap_or(REFUSED)) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Sends a batch until storage says that it is stored, or refuses it.
    ///
    /// Promise: an error means that no copy of it is stored, nor ever will be.
    async fn send(&self, batch: &Batch) -> Result<()> {
        let clock = &self.opener.world.clock;
        let (mut since, mut pause): (Option<Timestamp>, _) = (None, PAUSE.0);
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.opener.store.commit(batch.clone()) => answer,
                () = clock.sleep(ANSWER_MAX) => Ok(Committed::Unknown),
            };
            match answer {
                Ok(Committed::Stored | Committed::Already) => return Ok(()),
                Ok(Committed::Unknown) => {}
                // What refuses the second copy says nothing of the first, which may still be on its way.
                Err(error) if since.is_some() && error.is_passing() => {}
                Err(error) => return Err(error),
            }
            let since = *since.get_or_insert_with(|| clock.now());
            if clock.now().since(since) >= RESEND_MAX {
                return self.settle(batch).await;
            }
            tracing::warn!(session = %self.id, seq = %batch.seq, "a commit has no answer and is sent again");
            clock.sleep(pause).await;
            pause = (2 * pause).min(PAUSE.1);
        }
    }

    /// Makes sure what became of a batch that storage does not answer: under a new epoch no copy of it can land.
    async fn settle(&self, batch: &Batch) -> Result<()> {
        let lease = self.claim_anew("a commit had no answer").await?;
        if lease.head >= batch.seq {
            return Ok(());
        }
        let (session, seq) = (batch.session, batch.seq);
        Err(Error::unavailable(format!(
            "commit to session {session} at seq {seq}: storage did not answer in time; nothing was stored, try again"
        )))
    }

    /// Claims the session again, under the next epoch. Where that fails, or someone else was there in between, the session
    /// is shut.
    async fn claim_anew(&self, why: &str) -> Result<Lease> {
        let Self { id, opener, .. } = self;
        let old = self.epoch();
        self.lease.begin_claim();
        let claim = async {
            opener.store.release(*id, opener.owner, old).await?;
            opener.store.claim(opener.claim(*id)).await
        };
        let lease = tokio::select! {
            lease = claim => lease,
            () = opener.world.clock.sleep(RESEND_MAX) => Err(Error::unavailable("claim: storage did not answer")),
        };
        let taken = || {
            Error::fenced(format!(
                "claim session {id} anew: {why}, and someone else claimed it meanwhile; open it again and look"
            ))
        };
        let failed = match lease {
            Ok(lease) if lease.epoch.0 == old.0 + 1 => {
                self.lease.set_epoch(lease.epoch);
                return Ok(lease);
            }
            Ok(lease) => {
                opener.store.release(*id, opener.owner, lease.epoch).await?;
                taken()
            }
            Err(error) => match error.kind() {
                ErrorKind::Owned { .. } | ErrorKind::Fenced => taken(),
                _ => Error::closed(format!("{why}, and it could not be claimed anew: {error}")),
            },
        };
        self.shut(failed.clone());
        Err(failed)
    }

    /// What a power cut took away: where the stored head lies below ours, memory is let go of and read again.
    async fn resync_if_lost(&self, line: &mut Line) -> Option<Error> {
        let row = self.opener.store.session(self.id).await.ok()??;
        if row.head >= line.head {
            return None;
        }
        let (id, had) = (self.id, line.head);
        let reload = async {
            let lease = self.claim_anew("the store lost its newest commits").await?;
            (line.head, line.minted) = (lease.head, line.minted.max(lease.minted));
            self.reload().await?;
            Ok(lease.head)
        };
        Some(match reload.await {
            Ok(head) => {
                self.head.send_replace(head);
                self.hub.resync();
                self.attention.notify_one();
                Error::conflict(format!(
                    "commit to session {id}: the store was at seq {had} and is at {head}, partial output was lost \
                     with the power; read again and decide again"
                ))
            }
            Err(error) => {
                self.shut(Error::clone(&error));
                error
            }
        })
    }

    async fn reload(&self) -> Result<()> {
        let read = Read::of(&self.opener.store, self.id).await?;
        self.state().reload(read);
        Ok(())
    }
}
