//! Sessions as a store keeps them: their rows, and the right to commit to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Batch;
use crate::{
    clock::Timestamp,
    id::{Epoch, OwnerId, Seq, SessionId},
};

/// A session that is to be created.
///
/// ```
/// use everturn_core::storage::NewSession;
/// assert!(NewSession::default().title.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// The creator's own id of the creation, unique in the store: creating again with it gives the same session.
    pub request: Option<String>,
    /// What a list shows.
    pub title: Option<String>,
    /// The application's own words about it.
    pub labels: BTreeMap<String, String>,
    /// The session that this one came from.
    pub parent: Option<SessionId>,
}

/// A session with its first commit.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::*, storage::*};
/// # fn batch() -> Batch {
/// #     Batch { session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
/// #         owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(), epoch: Epoch(1), seq: Seq(1),
/// #         time: Timestamp(0), durability: Durability::Durable, minted: 1, due: Due::None, writes: [].into() }
/// # }
/// let create = Create { new: NewSession::default(), first: batch(), until: Timestamp(30_000) };
/// assert_eq!((create.first.epoch, create.first.seq), (Epoch(1), Seq(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Create {
    /// What the session's row says.
    pub new: NewSession,
    /// The first commit: epoch 1, seq 1.
    pub first: Batch,
    /// When the creator's lease ends.
    pub until: Timestamp,
}

/// What came of a creation.
///
/// ```
/// use everturn_core::storage::Created;
/// let existing = Created::Existing("0198c0de-0000-7000-8000-000000000000".parse().unwrap());
/// assert!(matches!(existing, Created::Existing(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The session is there, and the creator owns it.
    New(Lease),
    /// The request id had created this session before; nothing was stored.
    Existing(SessionId),
}

/// Who wants to own which session for how long.
///
/// ```
/// # use everturn_core::{clock::Timestamp, storage::Claim};
/// let claim = Claim {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
///     now: Timestamp(0),
///     until: Timestamp(30_000),
/// };
/// assert!(claim.until > claim.now);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The session.
    pub session: SessionId,
    /// The owner, random per opened store.
    pub owner: OwnerId,
    /// The owner's clock. A database that many machines share goes by its own instead.
    pub now: Timestamp,
    /// When the lease ends, unless it is renewed.
    pub until: Timestamp,
}

/// The right to commit to a session until it expires.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::*, storage::Lease};
/// let lease = Lease {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     owner: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(),
///     epoch: Epoch(2), until: Timestamp(30_000), head: Seq(7), minted: 31,
/// };
/// assert_eq!(lease.head.next(), Seq(8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Who owns it.
    pub owner: OwnerId,
    /// How often it was claimed.
    pub epoch: Epoch,
    /// When the lease ends.
    pub until: Timestamp,
    /// The last commit.
    pub head: Seq,
    /// The greatest id that was given out.
    pub minted: u64,
}

/// A session as a list shows it.
///
/// ```
/// fn title(row: &everturn_core::storage::SessionRow) -> &str {
///     row.new.title.as_deref().unwrap_or("untitled")
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// What its creator, or a later commit, said of it.
    pub new: NewSession,
    /// When it was created.
    pub created: Timestamp,
    /// When it was last committed to.
    pub used: Timestamp,
    /// Its last commit.
    pub head: Seq,
    /// The newest epoch.
    pub epoch: Epoch,
    /// The greatest id that was given out.
    pub minted: u64,
    /// Bytes of JSON that its commits have brought.
    pub bytes: u64,
    /// Who owns it, and until when.
    pub owner: Option<(OwnerId, Timestamp)>,
}
