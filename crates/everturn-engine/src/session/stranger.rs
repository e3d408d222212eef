//! Reading a session without owning it.

use everturn_core::{
    Error, Result,
    approval::ApprovalRecord,
    clock::Clock,
    conversation::{Conversation, Lineage},
    cursor::Cursor,
    document::{Document, Scope, ScopeKey},
    entry::EntryRecord,
    id::{ConversationId, EntryId, SessionId},
    storage::{ApprovalQuery, DocumentQuery, EntryQuery, Order, SessionRow, Store, TaskQuery},
};

use super::{
    document::Committed,
    watch::{DocumentView, POLL},
};

/// Reads a session that someone else may own. It sees what is committed, and can write nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{entry::Entry, id::ConversationId, memory::Memory, storage::{NewSession, Store}};
/// # use everturn_engine::{Opener, Session, SessionReader, World};
/// let store = Store::new(Memory::new());
/// let session = Session::create(&Opener::new(store.clone(), World::system()).await, NewSession::default()).await?;
/// let mut tx = session.begin().await?;
/// tx.append(ConversationId::ROOT, Entry::new("app.note"))?;
/// tx.commit().await?;
///
/// let reader = SessionReader::open(store, session.id()).await?;
/// assert_eq!(reader.entries(ConversationId::ROOT, None, 10).await?.len(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SessionReader {
    store: Store,
    row: SessionRow,
}

impl SessionReader {
    /// Finds a session.
    ///
    /// Errors: `NotFound`.
    pub async fn open(store: Store, id: SessionId) -> Result<Self> {
        match store.session(id).await? {
            Some(row) => Ok(Self { store, row }),
            // Whatever is asked of a session that is not there says why: it never was, or it was deleted.
            None => match store.conversations(id).await {
                Err(error) => Err(error),
                Ok(_) => Err(Error::not_found(format!("read session {id}: the store has no such session"))),
            },
        }
    }

    /// Its row, as it was when the reader was opened.
    pub fn row(&self) -> &SessionRow {
        &self.row
    }

    /// The store that it reads.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A conversation by its id.
    ///
    /// Errors: `NotFound`.
    pub async fn conversation(&self, id: ConversationId) -> Result<Conversation> {
        self.store.conversation(self.row.id, id).await?.ok_or_else(|| {
            let session = self.row.id;
            Error::not_found(format!("look for conversation {id} of session {session}: there is none"))
        })
    }

    /// A page of what a conversation sees, newest first: up to `limit` entries older than the cursor `before`.
    pub async fn entries(
        &self,
        conversation: ConversationId,
        before: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        let lineage = self.conversation(conversation).await?.lineage;
        self.store.entries(EntryQuery { before, limit, ..EntryQuery::of(self.row.id, lineage) }).await
    }

    /// The next entries along a lineage, oldest first: up to `limit` behind the cursor `after` (from the first, without
    /// one).
    pub async fn entries_after(
        &self,
        lineage: &Lineage,
        after: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        let all = EntryQuery::of(self.row.id, lineage.clone());
        self.store.entries(EntryQuery { after, limit, order: Order::OldestFirst, ..all }).await
    }

    /// The newest commit.
    pub(crate) async fn place(&self) -> Result<Cursor> {
        let session = self.row.id;
        let row = match self.store.session(session).await? {
            Some(row) => row,
            // Says why it is not there.
            None => Self::open(self.store.clone(), session).await?.row,
        };
        Ok(Cursor { session, epoch: row.epoch, seq: row.head })
    }

    /// A document as it is committed.
    pub(crate) async fn committed(&self, scope: ScopeKey, kind: &str) -> Result<Option<Committed>> {
        let query = DocumentQuery { session: self.row.id, scope, kind: Some(kind.into()), at: None };
        self.store.documents(query).await?.first().map(Committed::fold).transpose()
    }

    /// Returns when something may have been committed since the doorbell was heard last; gives what is heard now.
    pub(crate) async fn doorbell(&self, clock: &dyn Clock, heard: u64) -> u64 {
        tokio::select! {
            rung = self.store.doorbell(heard) => rung,
            () = clock.sleep(POLL) => heard,
        }
    }

    /// Returns when a store that could not answer may be asked again.
    pub(crate) async fn pause(clock: &dyn Clock) {
        clock.sleep(POLL).await;
    }

    /// A document's committed value; none where there is no such document.
    ///
    /// Errors: `Newer`, or `Invalid` when it does not read as a `T`.
    pub async fn snapshot<T: Document>(&self, scope: T::Scope) -> Result<Option<T>> {
        self.committed(scope.key(), T::KIND).await?.map(|committed| committed.read()).transpose()
    }

    /// The documents that a scope has, whether or not their types are known, in the order in which they were created.
    pub async fn documents(&self, scope: ScopeKey) -> Result<Vec<DocumentView>> {
        DocumentView::all(&self.store, self.row.id, scope).await
    }

    /// The approvals that are open, oldest first.
    pub async fn open_approvals(&self) -> Result<Vec<ApprovalRecord>> {
        let rows = self.store.approvals(ApprovalQuery::open_in(self.row.id)).await?;
        Ok(rows.into_iter().map(|row| row.record).collect())
    }

    /// Whether work of the session has not ended.
    pub async fn is_working(&self) -> Result<bool> {
        let query = TaskQuery::live(self.row.id);
        Ok(!self.store.tasks(query).await?.is_empty())
    }
}
