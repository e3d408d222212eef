//! Keeping the lease: renewed early, and given up when a newer epoch exists.

use std::sync::{Arc, Weak};

use everturn_core::ErrorKind;
use tokio::task::AbortHandle;

use super::Inner;

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

async fn renew(weak: &Weak<Inner>) -> bool {
    let Some(inner) = weak.upgrade().filter(|inner| inner.check_open().is_ok()) else {
        return false;
    };
    match inner.opener.store.renew(inner.opener.claim(inner.id), inner.epoch()).await {
        Ok(_) => true,
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => {
            tracing::warn!(session = %inner.id, %error, "lease not renewed");
            true
        }
        Err(error) => {
            inner.shut(error);
            false
        }
    }
}
