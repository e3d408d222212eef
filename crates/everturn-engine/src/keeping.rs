//! Keeping a store: letting sessions go by rules, and removing what nobody needs.

use std::{collections::HashMap, time::Duration};

use everturn_core::{
    ErrorKind, Result,
    id::SessionId,
    retention::{Rule, expired},
    storage::{Claim, SessionQuery, SessionRow, Swept},
};

use crate::session::Opener;

/// How long an upload or an unreferenced blob is kept: whoever wrote it may still be about to refer to it.
const BLOBS_KEPT: Duration = Duration::from_secs(86_400);

/// How many sessions are read at a time.
const PAGE: usize = 500;

impl Opener {
    /// Deletes the sessions that one of the rules lets go, and gives them. One that someone owns, or uses meanwhile,
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
        let gone = expired(rules, &rows, self.world.clock.now());
        let rows: HashMap<SessionId, SessionRow> = rows.into_iter().map(|row| (row.id, row)).collect();
        let mut deleted = Vec::new();
        for row in gone.iter().filter_map(|id| rows.get(id)) {
            match self.delete_as(row).await {
                Ok(true) => deleted.push(row.id),
                Ok(false) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Owned { .. } | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    /// Deletes a session if it is still where its row says, and gives whether it was. What is judged by its row and then claimed
    /// may have been used in between.
    ///
    /// Errors: `Owned`; `NotFound`; what storage says.
    pub(crate) async fn delete_as(&self, row: &SessionRow) -> Result<bool> {
        let now = self.world.clock.now();
        let claim = Claim { session: row.id, owner: self.owner, now, until: now + self.term };
        let lease = self.store.claim(claim).await?;
        let deleted = match lease.head == row.head {
            true => self.store.delete(row.id, self.owner, lease.epoch).await.map(|()| true),
            false => Ok(false),
        };
        if !matches!(deleted, Ok(true)) {
            // A lease that cannot be given up now ends by itself.
            let _given_up = self.store.release(row.id, self.owner, lease.epoch).await;
        }
        deleted
    }

    /// Removes blobs that no session has referred to for a day, and what deletions left behind.
    pub async fn sweep(&self) -> Result<Swept> {
        let now = self.world.clock.now();
        let kept = i64::try_from(BLOBS_KEPT.as_millis()).unwrap_or(i64::MAX);
        self.store.sweep(everturn_core::clock::Timestamp(now.0.saturating_sub(kept))).await
    }
}
