//! Keeping a store: letting sessions go by rules, and removing what nobody needs.

use std::time::Duration;

use everturn_core::{
    ErrorKind, Result,
    id::SessionId,
    retention::{Rule, expired},
    storage::{SessionQuery, Swept},
};

use crate::session::{Opener, Session};

/// How long an upload or an unreferenced blob is kept: whoever wrote it may still be about to refer to it.
const BLOBS_KEPT: Duration = Duration::from_secs(86_400);

/// How many sessions are read at a time.
const PAGE: usize = 500;

impl Opener {
    /// Deletes the sessions that one of the rules lets go, and gives them. One that someone owns, or takes meanwhile,
    /// stays.
    pub async fn retain(&self, rules: &[Rule]) -> Result<Vec<SessionId>> {
        let mut rows = Vec::new();
        let mut query = SessionQuery { limit: PAGE, ..SessionQuery::default() };
        loop {
            let page = self.store.sessions(query.clone()).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.id);
            rows.extend(page);
        }
        let mut deleted = Vec::new();
        for id in expired(rules, &rows, self.world.clock.now()) {
            if self.delete(id).await? {
                deleted.push(id);
            }
        }
        Ok(deleted)
    }

    /// Deletes a session, unless someone owns it or it is gone.
    async fn delete(&self, id: SessionId) -> Result<bool> {
        let deleted = match Session::open(self, id).await {
            Ok(session) => session.delete().await,
            Err(error) => Err(error),
        };
        match deleted {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Owned { .. } | ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes blobs that no session has referred to for a day, and what deletions left behind.
    pub async fn sweep(&self) -> Result<Swept> {
        let now = self.world.clock.now();
        let kept = i64::try_from(BLOBS_KEPT.as_millis()).unwrap_or(i64::MAX);
        self.store.sweep(everturn_core::clock::Timestamp(now.0.saturating_sub(kept))).await
    }
}
