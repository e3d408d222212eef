//! Where committed state is read: in memory, where the session is ours, and in the store, where it is not.

use std::{collections::BTreeSet, sync::Arc};

use everturn_core::{
    Result,
    approval::ApprovalRecord,
    clock::Clock,
    conversation::{Conversation, Lineage},
    cursor::Cursor,
    document::{Document, Scope},
    entry::EntryRecord,
    id::{ApprovalId, ConversationId, EntryId, Seq, TaskId},
    storage::{ApprovalQuery, EntryQuery, Order, Store, SubmissionFilter, SubmissionQuery, TaskQuery},
    submission::SubmissionRecord,
    task::TaskRecord,
};
use tokio::sync::watch;

use crate::{SessionReader, harness::live::LiveSession};

/// Committed state of a session.
pub(in crate::harness) enum Source {
    /// Of a session that is open here.
    Live { live: LiveSession, head: watch::Receiver<Seq> },
    /// Of a session that anyone may own.
    Stranger { reader: Box<SessionReader>, clock: Arc<dyn Clock>, heard: u64 },
}

impl Source {
    pub(in crate::harness) fn live(live: LiveSession) -> Self {
        let head = live.session().0.head.subscribe();
        Self::Live { live, head }
    }

    pub(in crate::harness) fn stranger(reader: SessionReader, clock: Arc<dyn Clock>) -> Self {
        Self::Stranger { reader: Box::new(reader), clock, heard: 0 }
    }

    pub(super) fn is_stranger(&self) -> bool {
        matches!(self, Self::Stranger { .. })
    }

    /// Returns when something may have been committed.
    pub(super) async fn news(&mut self) {
        match self {
            // The session owns the sender: it lives as long as this follower.
            Self::Live { head, .. } => _ = head.changed().await,
            Self::Stranger { reader, clock, heard } => {
                let rung = reader.doorbell(&**clock, *heard).await;
                *heard = rung;
            }
        }
    }

    /// Takes it that what was committed until now is looked at.
    pub(super) fn hear(&mut self) {
        if let Self::Live { head, .. } = self {
            head.borrow_and_update();
        }
    }

    /// Returns after a while.
    pub(super) async fn pause(&self) {
        if let Self::Stranger { clock, .. } = self {
            SessionReader::pause(&**clock).await;
        }
    }

    /// Errors: why an open session was given up.
    pub(super) fn check_open(&self) -> Result<()> {
        match self {
            Self::Live { live, .. } => live.check_open(),
            Self::Stranger { .. } => Ok(()),
        }
    }

    pub(in crate::harness) fn store(&self) -> &Store {
        match self {
            Self::Live { live, .. } => live.store(),
            Self::Stranger { reader, .. } => reader.store(),
        }
    }

    pub(in crate::harness) fn session(&self) -> everturn_core::id::SessionId {
        match self {
            Self::Live { live, .. } => live.id(),
            Self::Stranger { reader, .. } => reader.row().id,
        }
    }

    /// The newest commit.
    pub(in crate::harness) async fn place(&self) -> Result<Cursor> {
        match self {
            Self::Live { live, .. } => {
                Ok(Cursor { session: live.id(), epoch: live.epoch(), seq: live.head() })
            }
            Self::Stranger { reader, .. } => reader.place().await,
        }
    }

    /// A document's committed value, and the commit that made it so.
    pub(in crate::harness) async fn document<T: Document>(
        &self,
        scope: T::Scope,
    ) -> Result<Option<(T, Seq)>> {
        let read = match self {
            Self::Live { live, .. } => {
                live.committed(scope.key(), T::KIND).await?.map(|one| (one.read(), one.seq))
            }
            Self::Stranger { reader, .. } => {
                reader.committed(scope.key(), T::KIND).await?.map(|one| (one.read(), one.seq))
            }
        };
        read.map(|(value, seq)| value.map(|value| (value, seq))).transpose()
    }

    pub(in crate::harness) async fn lineage(&self, conversation: ConversationId) -> Result<Lineage> {
        match self {
            Self::Live { live, .. } => Ok(live.conversation(conversation).await?.lineage.clone()),
            Self::Stranger { reader, .. } => Ok(reader.conversation(conversation).await?.lineage),
        }
    }

    /// The next entries behind one, oldest first. Memory knows when there are none.
    pub(super) async fn entries_after(
        &self,
        conversation: ConversationId,
        seen: EntryId,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        if let Self::Live { live, .. } = self {
            let tail = live.session().0.state().tails.get(&conversation).copied();
            if tail.is_some_and(|tail| tail <= seen) {
                return Ok(Vec::new());
            }
        }
        let all = EntryQuery::of(self.session(), self.lineage(conversation).await?);
        self.store().entries(EntryQuery { after: Some(seen), limit, order: Order::OldestFirst, ..all }).await
    }

    /// The entries before one, newest first.
    pub(super) async fn entries_before(
        &self,
        conversation: ConversationId,
        before: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        let all = EntryQuery::of(self.session(), self.lineage(conversation).await?);
        self.store().entries(EntryQuery { before, limit, ..all }).await
    }

    /// Tasks by their ids, whether or not they have ended.
    pub(super) async fn tasks(&self, mut ids: Vec<TaskId>) -> Result<Vec<Arc<TaskRecord>>> {
        let mut found = Vec::new();
        if let Self::Live { live, .. } = self {
            let state = live.session().0.state();
            ids.retain(|id| match state.live.task(*id) {
                Some(task) => {
                    found.push(task.clone());
                    false
                }
                None => true,
            });
        }
        if !ids.is_empty() {
            let query = TaskQuery { session: self.session(), live: false, ids: Some(ids), owner: None };
            found.extend(self.store().tasks(query).await?.into_iter().map(Arc::new));
        }
        Ok(found)
    }

    /// All tasks that have not ended.
    pub(in crate::harness) async fn live_tasks(&self) -> Result<Vec<Arc<TaskRecord>>> {
        match self {
            Self::Live { live, .. } => Ok(live.session().0.state().live.tasks().cloned().collect()),
            Self::Stranger { reader, .. } => {
                let query = TaskQuery::live(reader.row().id);
                Ok(reader.store().tasks(query).await?.into_iter().map(Arc::new).collect())
            }
        }
    }

    /// All submissions that have not ended.
    pub(in crate::harness) async fn live_submissions(&self) -> Result<Vec<Arc<SubmissionRecord>>> {
        match self {
            Self::Live { live, .. } => {
                Ok(live.session().0.state().live.submissions.values().cloned().collect())
            }
            Self::Stranger { reader, .. } => {
                let query = SubmissionQuery { session: reader.row().id, only: SubmissionFilter::Live };
                Ok(reader.store().submissions(query).await?.into_iter().map(Arc::new).collect())
            }
        }
    }

    /// The open approvals of a conversation.
    pub(in crate::harness) async fn open_approvals(
        &self,
        conversation: ConversationId,
    ) -> Result<Vec<ApprovalRecord>> {
        let all = match self {
            Self::Live { live, .. } => {
                live.open_approvals().into_iter().map(|one| ApprovalRecord::clone(&one)).collect()
            }
            Self::Stranger { reader, .. } => reader.open_approvals().await?,
        };
        Ok(all.into_iter().filter(|one: &ApprovalRecord| one.conversation == conversation).collect())
    }

    /// Whether the open approvals of a conversation are just these, as far as memory knows.
    pub(super) fn has_open(&self, conversation: ConversationId, seen: &BTreeSet<ApprovalId>) -> bool {
        let Self::Live { live, .. } = self else { return false };
        let state = live.session().0.state();
        let open = state.live.approvals().filter(|one| one.conversation == conversation);
        open.map(|one| &one.id).eq(seen)
    }

    /// The approvals of a conversation from one on, open or not, in the order of their ids.
    pub(super) async fn approvals(
        &self,
        conversation: ConversationId,
        from: ApprovalId,
    ) -> Result<Vec<ApprovalRecord>> {
        let rows = self.store().approvals(ApprovalQuery::of(self.session()).from(from)).await?;
        let records = rows.into_iter().map(|row| row.record);
        Ok(records.filter(|one| one.conversation == conversation).collect())
    }

    /// All conversations of the session.
    pub(in crate::harness) async fn conversations(&self) -> Result<Vec<Conversation>> {
        self.store().conversations(self.session()).await
    }
}
