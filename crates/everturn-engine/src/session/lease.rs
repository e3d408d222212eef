//! The lease: taken so that nobody is left with one that he does not know of, renewed early, and given up.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use everturn_core::{
    Error, ErrorKind, Result,
    id::{Epoch, SessionId},
    storage::Lease,
};
use futures_util::FutureExt;
use tokio::task::AbortHandle;

use super::{Inner, Opener, watch::DELETED};

/// A lease that is given up when this is dropped.
pub(super) struct Held {
    opener: Opener,
    session: SessionId,
    epoch: AtomicU64,
    /// How often the session was, or is being, claimed anew.
    claims: AtomicU64,
}

impl Held {
    fn new(opener: &Opener, lease: &Lease) -> Self {
        let (opener, session) = (opener.clone(), lease.session);
        Self { opener, session, epoch: AtomicU64::new(lease.epoch.0), claims: AtomicU64::new(0) }
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// From now on what a renewal says of the epoch that was is of no account.
    pub(super) fn begin_claim(&self) {
        self.claims.fetch_add(1, Ordering::SeqCst);
    }

    /// The session was claimed anew.
    pub(super) fn set_epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, Ordering::SeqCst);
    }

    /// Gives the lease up without waiting for the answer.
    pub(super) fn release(&self) {
        // The first poll hands the request to the store; the stores here carry it out whether or not anyone waits.
        let release = self.opener.store.release(self.session, self.opener.owner, self.epoch());
        let _ = std::pin::pin!(release).now_or_never();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// Takes a lease in a task of its own: whoever waits may be dropped, and then it is given up as soon as it is there.
///
/// Shape: `take` gives no lease where there is none to take.
pub(super) async fn take<T: Send + 'static>(
    opener: &Opener,
    take: impl Future<Output = Result<T>> + Send + 'static,
    lease: impl Fn(&T) -> Option<Lease> + Send + 'static,
) -> Result<(T, Option<Held>)> {
    let opener = opener.clone();
    let taking = tokio::spawn(async move {
        let taken = take.await?;
        let held = lease(&taken).map(|lease| Held::new(&opener, &lease));
        Ok((taken, held))
    });
    taking.await.unwrap_or_else(|fault| Err(Error::closed(format!("taking a lease was cut off: {fault}"))))
}

/// What renews a lease. Dropping it ends that: a session that is gone leaves nothing behind that waits for the clock.
pub(super) struct Keeper(AbortHandle);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Renews the session's lease until the session is gone, shut, or owned by someone else.
pub(super) fn keep(inner: &Arc<Inner>) -> Keeper {
    let (clock, term) = (inner.opener.world.clock.clone(), inner.opener.term);
    let weak = Arc::downgrade(inner);
    let keeping = tokio::spawn(async move {
        loop {
            clock.sleep(term / 3).await;
            if !renew(&weak).await {
                return;
            }
        }
    });
    Keeper(keeping.abort_handle())
}

/// Renews once; whether there is more to renew.
async fn renew(weak: &Weak<Inner>) -> bool {
    let Some(inner) = weak.upgrade().filter(|inner| inner.check_open().is_ok()) else {
        return false;
    };
    let (store, claim, epoch) = (inner.opener.store.clone(), inner.opener.claim(inner.id), inner.epoch());
    let claims = inner.lease.claims.load(Ordering::SeqCst);
    // Held weakly while waiting: a session whose last handle is dropped gives its lease up at once.
    drop(inner);
    let renewed = store.renew(claim, epoch).await;
    let Some(inner) = weak.upgrade() else { return false };
    match renewed {
        Ok(_) => true,
        Err(_) if inner.lease.claims.load(Ordering::SeqCst) != claims => true,
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => {
            tracing::warn!(session = %inner.id, %error, "lease not renewed");
            true
        }
        Err(error) if error.is_deleted() => {
            inner.shut(Error::closed(DELETED));
            false
        }
        Err(error) => {
            inner.shut(error);
            false
        }
    }
}
