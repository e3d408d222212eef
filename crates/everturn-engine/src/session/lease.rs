//! Keeping the lease: renewed early, and given up when a newer epoch exists.

use std::sync::{Arc, Weak};

use everturn_core::ErrorKind;

use super::Inner;

/// Renews the session's lease until the session is gone, shut, or owned by someone else.
pub(super) fn keep(inner: &Arc<Inner>) {
    let (clock, term) = (inner.opener.world.clock.clone(), inner.opener.term);
    let weak = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            clock.sleep(term / 3).await;
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
