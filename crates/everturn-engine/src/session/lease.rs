//! Keeping the lease: renewed early, and given up when a newer epoch exists.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use everturn_core::ErrorKind;

use super::Inner;

/// How long a lease lasts without renewal.
pub(super) const TERM: Duration = Duration::from_secs(30);

/// Renews the session's lease until the session is gone, shut, or owned by someone else.
pub(super) fn keep(inner: &Arc<Inner>) {
    let clock = inner.opener.world.clock.clone();
    let weak = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            clock.sleep(TERM / 3).await;
            if !renew(&weak).await {
                return;
            }
        }
    });
}

async fn renew(weak: &Weak<Inner>) -> bool {
    let Some(inner) = weak.upgrade().filter(|inner| inner.check_open().is_ok()) else {
        return false;
    };
    match inner.opener.store.renew(inner.opener.claim(inner.id), inner.epoch).await {
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
