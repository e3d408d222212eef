//! A part of a session as it is.

use std::{fmt, sync::Arc};

use everturn_core::{
    Result,
    approval::ApprovalRecord,
    conversation::Conversation,
    document::{Document, ScopeKey, Value},
    entry::EntryRecord,
    id::SessionId,
    storage::{DocumentQuery, DocumentRecord, DocumentState, Store, View},
    submission::SubmissionRecord,
    task::TaskRecord,
};

use crate::session::document::Committed;

/// A part of a session as it is at one commit. What the part does not have is empty.
///
/// ```
/// use everturn_engine::session::watch::Baseline;
/// assert!(Baseline::default().entries.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Conversations.
    pub conversations: Vec<Conversation>,
    /// The entries of the conversation's context, oldest first.
    pub entries: Vec<EntryRecord>,
    /// Documents that are live.
    pub documents: Vec<DocumentView>,
    /// Tasks that have not ended.
    pub tasks: Vec<TaskRecord>,
    /// Submissions that have not ended.
    pub submissions: Vec<SubmissionRecord>,
    /// Approvals that are open.
    pub approvals: Vec<ApprovalRecord>,
}

impl Baseline {
    /// Errors: `Corrupt` when a document does not fold.
    pub(super) fn of(view: View) -> Result<Self> {
        let View { conversations, entries, documents, tasks, submissions, approvals, .. } = view;
        let documents = DocumentView::fold(&documents)?;
        Ok(Self { conversations, entries, documents, tasks, submissions, approvals })
    }
}

/// A document's value at a commit, whether or not its type is known.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{document::{Document, ScopeKey}, memory::Memory, storage::{NewSession, Store}};
/// # use everturn_engine::{Opener, Session, World};
/// #[derive(Document, serde::Serialize, serde::Deserialize, Default)]
/// #[document(kind = "app.count", crate = "everturn_core")]
/// struct Count { n: u64 }
/// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// # let session = Session::create(&opener, NewSession::default()).await?;
/// let mut tx = session.begin().await?;
/// tx.doc::<Count>(()).await?.n = 7;
/// tx.commit().await?;
///
/// let found = session.documents(ScopeKey::Session).await?;
/// assert_eq!((found[0].record().kind.as_str(), found[0].number()), ("app.count", 1));
/// assert_eq!(found[0].value()["n"], 7);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct DocumentView(Arc<Committed>);

impl DocumentView {
    /// Those that a scope has, in the order in which they were created.
    pub(in crate::session) async fn all(
        store: &Store,
        session: SessionId,
        scope: ScopeKey,
    ) -> Result<Vec<Self>> {
        let query = DocumentQuery { session, scope, kind: None, at: None };
        Self::fold(&store.documents(query).await?)
    }

    /// Folds what storage keeps.
    fn fold(states: &[DocumentState]) -> Result<Vec<Self>> {
        states.iter().map(|state| Committed::fold(state).map(Self::from)).collect()
    }

    /// Which document it is.
    pub fn record(&self) -> &DocumentRecord {
        &self.0.record
    }

    /// The version of the type that wrote it.
    pub fn version(&self) -> u32 {
        self.0.version
    }

    /// The number of the revision: 1 for the first, one more for each commit that changed it.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The value as JSON.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// The value as a `T`.
    ///
    /// Errors: `Newer`, or `Invalid` when it does not read as one.
    pub fn read<T: Document>(&self) -> Result<T> {
        self.0.read()
    }
}

impl From<Committed> for DocumentView {
    fn from(committed: Committed) -> Self {
        Self(Arc::new(committed))
    }
}

impl From<Arc<Committed>> for DocumentView {
    fn from(committed: Arc<Committed>) -> Self {
        Self(committed)
    }
}

impl fmt::Debug for DocumentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DocumentView");
        shown
            .field("record", self.record())
            .field("number", &self.number())
            .field("value", self.value())
            .finish()
    }
}

impl PartialEq for DocumentView {
    fn eq(&self, other: &Self) -> bool {
        (self.record(), self.version(), self.number()) == (other.record(), other.version(), other.number())
            && everturn_core::document::equal(self.value(), other.value())
    }
}
