//! The lease of a session that is being restored.

use std::pin::pin;

use everturn_core::{
    ErrorKind, Result,
    id::{Epoch, SessionId},
    storage::Claim,
};

use crate::session::Opener;

/// The right to write a session that is on its way back.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) opener: Opener,
    pub(super) session: SessionId,
    pub(super) epoch: Epoch,
}

impl Lease {
    /// Does work, and renews the lease three times in each term for as long as it takes: reading lines, storing them, proving
    /// what came of them.
    ///
    /// Errors: what the work says; `Fenced` when someone else has the session.
    pub(super) async fn keep_during<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Opener { world, term, .. } = &self.opener;
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = world.clock.sleep(*term / 3) => self.renew().await?,
            }
        }
    }

    async fn renew(&self) -> Result<()> {
        let Self { opener: Opener { store, world, owner, term, .. }, session, epoch } = self;
        let now = world.clock.now();
        let claim = Claim { session: *session, owner: *owner, now, until: now + *term };
        match store.renew(claim, *epoch).await {
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable { .. }) => {
                tracing::warn!(session = %session, %error, "lease not renewed");
                Ok(())
            }
            renewed => renewed.map(|_| ()),
        }
    }

    /// Gives it up.
    pub(super) async fn release(&self) -> Result<()> {
        self.opener.store.release(self.session, self.opener.owner, self.epoch).await
    }

    /// Deletes what there is of the session.
    pub(super) async fn delete(&self) -> Result<()> {
        self.opener.store.delete(self.session, self.opener.owner, self.epoch).await
    }
}
