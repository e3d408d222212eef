//! Documents: typed JSON state beside the transcript, and the operations that change it.
//!
//! A document is a type of the application that derives [`Document`]. It is stored as a base (the whole value) or as a
//! delta (a list of [`Operation`]s); [`diff`] finds what changed, [`apply`] and [`fold`] redo it.

mod align;
mod apply;
mod check;
mod difference;
mod json_patch;
mod operation;
mod path;
mod value;

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub(crate) use check::check;
pub use everturn_macros::Document;
pub use serde_json::Value;

pub use self::{
    apply::{apply, fold},
    difference::diff,
    json_patch::to_json_patch,
    operation::Operation,
    path::{Path, PathPart},
    value::{DEPTH_MAX, equal, read, weight},
};
use crate::{
    error::{Error, ErrorKind, Result},
    id::{ConversationId, TaskId},
    limits::Limits,
};

/// Typed state that is committed beside entries.
///
/// Derive it. `kind` is required, the rest has defaults: `version = 1`, `scope = "session"`, `history = "latest"`,
/// `fork = "initial"`. `migrate = path::to::function` names what brings older values along; `crate = "everturn_core"`
/// says where Everturn is, when that is not `::everturn`.
///
/// ```
/// use everturn_core::document::{Document, ForkPolicy, History};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize, Default)]
/// #[document(kind = "example.notes", scope = "conversation", history = "rewindable", fork = "as_of")]
/// #[document(crate = "everturn_core")]
/// struct Notes {
///     text: String,
/// }
///
/// assert_eq!((Notes::KIND, Notes::VERSION), ("example.notes", 1));
/// assert_eq!((Notes::HISTORY, Notes::FORK), (History::Rewindable, ForkPolicy::AsOf));
/// ```
pub trait Document: Serialize + DeserializeOwned + Default + Send + Sync + 'static {
    /// The name of the kind, unique among documents; `et.` is Everturn's own prefix.
    const KIND: &'static str;

    /// The version of the stored form; a change that old values do not fit raises it.
    const VERSION: u32;

    /// Which of its past values are kept.
    const HISTORY: History;

    /// What a forked conversation begins with.
    const FORK: ForkPolicy;

    /// What it belongs to: `()` for the session, [`ConversationId`] or [`TaskId`].
    type Scope: Scope;

    /// Brings a value that an older version stored to this version.
    ///
    /// Errors: `Invalid` when it cannot; what stands here does so for each version.
    fn migrate(value: Value, from: u32) -> Result<Value> {
        let _ = value;
        let (kind, version) = (Self::KIND, Self::VERSION);
        Err(Error::invalid(format!(
            "read document {kind}: it was stored by version {from}, and version {version} has no migration"
        )))
    }
}

/// Which past values of a document are kept.
///
/// ```
/// use everturn_core::document::History;
/// assert_eq!(serde_json::to_string(&History::Rewindable).unwrap(), r#""rewindable""#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// The newest alone.
    #[default]
    Latest,
    /// All, so that the value as of an entry can be read. For documents of a conversation.
    Rewindable,
}

/// What a document of a forked conversation begins with.
///
/// ```
/// use everturn_core::document::ForkPolicy;
/// assert_eq!(serde_json::to_string(&ForkPolicy::AsOf).unwrap(), r#""as_of""#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkPolicy {
    /// Nothing: it starts anew.
    #[default]
    Initial,
    /// The parent's value when the fork commits.
    Current,
    /// The parent's value at the commit of the fork's entry. Needs [`History::Rewindable`].
    AsOf,
}

/// What a document may belong to. The type says which: `()` is the session.
///
/// ```
/// use everturn_core::{document::{Scope, ScopeKey}, id::TaskId};
/// assert_eq!(TaskId(7).key(), ScopeKey::Task(TaskId(7)));
/// assert_eq!(().key(), ScopeKey::Session);
/// ```
pub trait Scope: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The same as a value.
    fn key(self) -> ScopeKey;
}

/// What one document belongs to.
///
/// ```
/// use everturn_core::{document::ScopeKey, id::ConversationId};
///
/// let scope = ScopeKey::Conversation(ConversationId::ROOT);
/// assert_eq!(scope.to_string(), "conversation 1");
/// assert_eq!(serde_json::to_string(&scope).unwrap(), r#"{"conversation":1}"#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKey {
    /// The session.
    Session,
    /// A conversation of the session.
    Conversation(ConversationId),
    /// A task of the session.
    Task(TaskId),
}

/// Reads a document from a stored value and the version that stored it.
///
/// Errors: `Newer` when this program is too old for it; what [`Document::migrate`] says of an older one; `Invalid`,
/// with the path of the field, when the value does not fit the type.
///
/// ```
/// # use everturn_core::document::Document;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize, Default)]
/// # #[document(kind = "example.notes", crate = "everturn_core")]
/// # struct Notes { text: String }
/// use everturn_core::document::decode;
/// use serde_json::json;
///
/// assert_eq!(decode::<Notes>(json!({"text": "a"}), 1).unwrap().text, "a");
/// let error = decode::<Notes>(json!({"text": 7}), 1).err().unwrap();
/// assert!(error.to_string().starts_with("read document example.notes, version 1, at text: "), "{error}");
/// ```
pub fn decode<T: Document>(value: Value, version: u32) -> Result<T> {
    let (kind, known) = (T::KIND, T::VERSION);
    let value = match version {
        _ if version == known => value,
        _ if version < known => T::migrate(value, version)?,
        found => {
            let message =
                format!("read document {kind}: it was stored by version {found}, newer than {known}");
            return Err(Error::new(ErrorKind::Newer { found, known }, message));
        }
    };
    serde_path_to_error::deserialize(value).map_err(|fault| {
        let (path, fault) = (fault.path().to_string(), fault.into_inner());
        Error::invalid(format!("read document {kind}, version {version}, at {path}: {fault}"))
            .caused_by(fault)
    })
}

/// Writes a document as the value to store.
///
/// Units: `limits.document` is bytes of JSON, as [`weight`] counts them.
/// Errors: `Invalid` for what JSON cannot say: a float that is not finite, a key that is no text, an integer beyond
/// 64 bits. `TooLarge` when the value nests deeper than `limits.depth` or weighs more than `limits.document`.
///
/// ```
/// # use everturn_core::document::Document;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize, Default)]
/// # #[document(kind = "example.speed", crate = "everturn_core")]
/// # struct Speed { knots: f64 }
/// use everturn_core::{document::encode, limits::Limits};
///
/// assert_eq!(encode(&Speed { knots: 6.5 }, &Limits::default()).unwrap(), serde_json::json!({"knots": 6.5}));
/// let error = encode(&Speed { knots: f64::NAN }, &Limits::default()).unwrap_err();
/// assert_eq!(error.to_string(), "write document example.speed: a number that is NaN at /knots");
/// ```
pub fn encode<T: Document>(document: &T, limits: &Limits) -> Result<Value> {
    let kind = T::KIND;
    check(document).map_err(|fault| {
        let told = if fault.is_limit { Error::too_large } else { Error::invalid };
        told(format!("write document {kind}: {fault}"))
    })?;
    let value = serde_json::to_value(document)
        .map_err(|fault| Error::invalid(format!("write document {kind}: {fault}")).caused_by(fault))?;
    // Raw JSON inside the type is a leaf to the check above.
    let depth = limits.depth.min(DEPTH_MAX);
    if !value::nests_within(&value, depth) {
        return Err(Error::too_large(format!("write document {kind}: more than {depth} levels")));
    }
    limits.check(&format!("document {kind}"), weight(&value), limits.document)?;
    Ok(value)
}

impl Scope for () {
    fn key(self) -> ScopeKey {
        ScopeKey::Session
    }
}

impl Scope for ConversationId {
    fn key(self) -> ScopeKey {
        ScopeKey::Conversation(self)
    }
}

impl Scope for TaskId {
    fn key(self) -> ScopeKey {
        ScopeKey::Task(self)
    }
}

impl fmt::Display for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => f.write_str("the session"),
            Self::Conversation(id) => write!(f, "conversation {id}"),
            Self::Task(id) => write!(f, "task {id}"),
        }
    }
}

mod sealed {
    use crate::id::{ConversationId, TaskId};

    pub trait Sealed {}

    impl Sealed for () {}
    impl Sealed for ConversationId {}
    impl Sealed for TaskId {}
}
