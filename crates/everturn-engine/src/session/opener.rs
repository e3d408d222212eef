//! What opens sessions.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    Result,
    id::{OwnerId, SessionId},
    limits::Limits,
    storage::{Claim, Mail, Posted, Store},
};

use crate::{World, metrics::Meter};

/// What opens sessions: a store, a world, and who owns what it opens.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use everturn_core::{memory::Memory, storage::Store};
/// use everturn_engine::{Opener, World};
///
/// let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// let same = opener.clone();
/// assert_eq!(opener.owner, same.owner);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Opener {
    /// The store.
    pub store: Store,
    /// Time and randomness.
    pub world: World,
    /// Who owns the sessions that are opened.
    pub owner: OwnerId,
    /// How big records may be.
    pub limits: Limits,
    /// How long a lease lasts without renewal; it is renewed three times as often.
    pub term: Duration,
    /// What is counted of the sessions that it opens.
    pub meter: Arc<Meter>,
}

impl Opener {
    /// An opener for the owner that the store was opened for, or for a new one where any owner is as good.
    pub async fn new(store: Store, world: World) -> Self {
        let owner = store.owner().await.unwrap_or_else(|| world.owner());
        let term = Duration::from_secs(30);
        Self { store, world, owner, limits: Limits::default(), term, meter: Arc::default() }
    }

    pub(super) fn claim(&self, session: SessionId) -> Claim {
        let now = self.world.clock.now();
        Claim { session, owner: self.owner, now, until: now + self.term }
    }

    /// Leaves a request for a session, whoever owns it: its owner takes it, and its receipt lies under its key.
    ///
    /// Promise: idempotent by its key. When it returns it survives the power.
    /// Errors: `TooLarge` or `Invalid` for a key, a name or a body beyond the limits; `NotFound` for an unknown session.
    pub async fn post(&self, mail: Mail) -> Result<Posted> {
        let limits = &self.limits;
        limits.check_name("the key of mail", &mail.key)?;
        limits.check_name("the actor of mail", &mail.actor)?;
        if let Some(request) = &mail.request {
            limits.check_name("the request id of mail", request)?;
        }
        let what = format!("mail {}", mail.key);
        limits.check(&what, mail.body.get().len(), limits.entry)?;
        limits.check_depth(&what, mail.body.get())?;
        self.store.post(mail).await
    }
}
