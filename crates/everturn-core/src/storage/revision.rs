//! Documents as a store keeps them: revisions, each a base or a delta.

use serde::{Deserialize, Serialize};

use crate::{
    document::{ForkPolicy, History, ScopeKey},
    id::{DocumentId, Seq},
    json::RawJson,
};

/// A document's identity and what its type says of it, so that it can be handled without its type.
///
/// ```
/// use everturn_core::{document::*, id::DocumentId, storage::DocumentRecord};
/// let record = DocumentRecord {
///     id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
///     history: History::Latest, fork: ForkPolicy::Initial,
/// };
/// assert_eq!(record.kind, "app.notes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    /// The id of this incarnation.
    pub id: DocumentId,
    /// What it belongs to.
    pub scope: ScopeKey,
    /// Its kind.
    pub kind: String,
    /// Which revisions are kept.
    pub history: History,
    /// What a fork of its conversation starts with.
    pub fork: ForkPolicy,
}

/// A revision of a document.
///
/// ```
/// use everturn_core::{json::RawJson, storage::Revision};
/// let base = Revision::Base { version: 1, value: RawJson::empty() };
/// assert_ne!(base, Revision::Retired);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Revision {
    /// The whole value. The first revision of an incarnation is one.
    ///
    /// Promise: a base of a document with `latest` history takes the place of all older revisions.
    Base {
        /// The version of the type that wrote it.
        version: u32,
        /// The value.
        value: RawJson,
    },
    /// What changed since the revision before: a JSON array of operations.
    Delta {
        /// The operations.
        operations: RawJson,
    },
    /// The incarnation has ended. Nothing may follow.
    Retired,
}

/// A revision with the document it belongs to.
///
/// ```
/// # use everturn_core::{document::*, id::DocumentId, storage::*};
/// # let record = DocumentRecord { id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
/// #     history: History::Latest, fork: ForkPolicy::Initial };
/// let write = DocumentWrite { record, number: 4, revision: Revision::Retired };
/// assert_eq!(write.record.id, DocumentId(3));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentWrite {
    /// The document.
    pub record: DocumentRecord,
    /// The number of the revision: 1 for the first of the incarnation, and one more for each commit that changes it.
    pub number: u64,
    /// The revision.
    pub revision: Revision,
}

/// A document's value at a seq, as base and deltas.
///
/// ```
/// # use everturn_core::{document::*, id::{DocumentId, Seq}, json::RawJson, storage::*};
/// # let record = DocumentRecord { id: DocumentId(3), scope: ScopeKey::Session, kind: "app.notes".into(),
/// #     history: History::Latest, fork: ForkPolicy::Initial };
/// let state = DocumentState { record, version: 1, base: RawJson::empty(), deltas: vec![], seq: Seq(2), number: 1 };
/// assert!(state.deltas.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentState {
    /// The document.
    pub record: DocumentRecord,
    /// The version of the base.
    pub version: u32,
    /// The newest base.
    pub base: RawJson,
    /// The deltas since, oldest first.
    pub deltas: Vec<RawJson>,
    /// The commit of the newest revision.
    pub seq: Seq,
    /// The number of the newest revision.
    pub number: u64,
}

impl Revision {
    /// Bytes of JSON in it.
    pub fn weight(&self) -> usize {
        match self {
            Self::Base { value, .. } => value.get().len(),
            Self::Delta { operations } => operations.get().len(),
            Self::Retired => 0,
        }
    }
}
