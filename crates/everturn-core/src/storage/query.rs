//! What can be asked of a store.

use std::collections::BTreeMap;

use super::SessionRow;
use crate::{
    approval::ApprovalRecord,
    clock::Timestamp,
    conversation::Lineage,
    document::ScopeKey,
    id::{ApprovalId, ConversationId, EntryId, Seq, SessionId, SubmissionId, TaskId},
    task::{Blocked, BlockedBy, TaskRecord},
};

/// Which documents.
///
/// ```
/// # use everturn_core::{document::ScopeKey, storage::DocumentQuery};
/// let query = DocumentQuery {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     scope: ScopeKey::Session, kind: None, at: None,
/// };
/// assert!(query.at.is_none(), "now");
/// ```
#[derive(Clone, Debug)]
pub struct DocumentQuery {
    /// The session.
    pub session: SessionId,
    /// What they belong to.
    pub scope: ScopeKey,
    /// Only of this kind.
    pub kind: Option<String>,
    /// As of this commit; now where absent. Revisions that are no longer kept give no document.
    pub at: Option<Seq>,
}

/// Which entries, in which order.
///
/// ```
/// # use everturn_core::{conversation::Lineage, id::ConversationId, storage::{EntryQuery, Order}};
/// let newest = EntryQuery {
///     limit: 50,
///     ..EntryQuery::of("0198c0de-0000-7000-8000-000000000000".parse().unwrap(), Lineage::new(ConversationId::ROOT))
/// };
/// assert_eq!(newest.order, Order::NewestFirst);
/// ```
#[derive(Clone, Debug)]
pub struct EntryQuery {
    /// The session.
    pub session: SessionId,
    /// What is visible.
    pub lineage: Lineage,
    /// Only these.
    pub only: Only,
    /// Only entries with greater ids.
    pub after: Option<EntryId>,
    /// Only entries with smaller ids.
    pub before: Option<EntryId>,
    /// In which order.
    pub order: Order,
    /// How many at most.
    pub limit: usize,
}

impl EntryQuery {
    /// One entry, where it is visible along a lineage.
    pub fn one(session: SessionId, lineage: &Lineage, id: EntryId) -> Self {
        let after = Some(EntryId(id.0.saturating_sub(1)));
        Self { after, limit: 1, ..Self::of(session, lineage.capped(id)) }
    }

    /// The same from an entry on; from the first, where none is named.
    #[must_use]
    pub fn from(self, first: Option<EntryId>) -> Self {
        Self { after: first.map(|first| EntryId(first.0.saturating_sub(1))), ..self }
    }

    /// All entries along a lineage, newest first.
    pub fn of(session: SessionId, lineage: Lineage) -> Self {
        Self {
            session,
            lineage,
            only: Only::All,
            after: None,
            before: None,
            order: Order::NewestFirst,
            limit: usize::MAX,
        }
    }
}

/// Which entries of those that are visible.
///
/// ```
/// use everturn_core::storage::Only;
/// assert_ne!(Only::Turns, Only::Heads);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// All.
    All,
    /// Those with a head.
    Heads,
    /// Those of the kind [`et.turn`](crate::entry::kind::TURN).
    Turns,
}

/// In which order entries come.
///
/// ```
/// use everturn_core::storage::Order;
/// assert_ne!(Order::NewestFirst, Order::OldestFirst);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Greatest ids first.
    NewestFirst,
    /// Smallest ids first.
    OldestFirst,
}

/// Which tasks.
///
/// ```
/// # use everturn_core::storage::TaskQuery;
/// let live = TaskQuery {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     live: true, ids: None, owner: None,
/// };
/// assert!(live.live);
/// ```
#[derive(Clone, Debug)]
pub struct TaskQuery {
    /// The session.
    pub session: SessionId,
    /// Only those that have not ended.
    pub live: bool,
    /// Only these.
    pub ids: Option<Vec<TaskId>>,
    /// Only those that this task owns.
    pub owner: Option<TaskId>,
}

impl TaskQuery {
    /// One task, live or not.
    pub fn one(session: SessionId, id: TaskId) -> Self {
        Self { session, live: false, ids: Some(vec![id]), owner: None }
    }

    /// All that have not ended.
    pub fn live(session: SessionId) -> Self {
        Self { session, live: true, ids: None, owner: None }
    }
}

/// Which sessions want to run.
///
/// ```
/// use everturn_core::{clock::Timestamp, storage::RunnableQuery};
/// let query = RunnableQuery { limit: 8, ..RunnableQuery::at(Timestamp(5)) };
/// assert!(query.code.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct RunnableQuery {
    /// The present moment.
    pub now: Timestamp,
    /// Also those with a task that was blocked and can be run by one of these, whatever their due.
    pub code: Vec<Code>,
    /// How many at most.
    pub limit: usize,
}

impl RunnableQuery {
    /// All that are due at a moment.
    pub fn at(now: Timestamp) -> Self {
        Self { now, code: Vec::new(), limit: usize::MAX }
    }
}

/// Code of tasks: its name and its version.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, storage::Code, task::*};
/// let task = TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0));
/// let blocked = Blocked { by: BlockedBy::TooOld, needs: 3, message: "written by version 3".into() };
/// let task = TaskRecord { blocked: Some(blocked), ..task };
/// assert!(Code { kind: "app.pay".into(), version: 3 }.unblocks(&task));
/// assert!(!Code { kind: "app.pay".into(), version: 2 }.unblocks(&task));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The kind of tasks that it runs.
    pub kind: String,
    /// Its version.
    pub version: u32,
}

impl Code {
    /// Whether a task waits for code and this may be it: it is new enough, or can read a record that newer code could not
    /// migrate.
    pub fn unblocks(&self, task: &TaskRecord) -> bool {
        // What could not migrate the record is the version right below; an older one that can read it is as good as a newer.
        let can_read = |blocked: &Blocked| {
            blocked.by == BlockedBy::MigrationFailed
                && self.version >= task.version
                && self.version + 1 != blocked.needs
        };
        let may_run = |blocked: &Blocked| blocked.needs <= self.version || can_read(blocked);
        task.is_live() && task.kind == self.kind && task.blocked.as_ref().is_some_and(may_run)
    }
}

/// Which submissions.
///
/// ```
/// # use everturn_core::{id::ConversationId, storage::{SubmissionFilter, SubmissionQuery}};
/// let query = SubmissionQuery {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     only: SubmissionFilter::Request(ConversationId::ROOT, "r-1".into()),
/// };
/// assert!(matches!(query.only, SubmissionFilter::Request(..)));
/// ```
#[derive(Clone, Debug)]
pub struct SubmissionQuery {
    /// The session.
    pub session: SessionId,
    /// Only these.
    pub only: SubmissionFilter,
}

/// Which submissions of a session.
///
/// ```
/// use everturn_core::{id::SubmissionId, storage::SubmissionFilter};
/// assert_ne!(SubmissionFilter::Live, SubmissionFilter::Id(SubmissionId(4)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionFilter {
    /// All of them.
    All,
    /// Those that have not ended.
    Live,
    /// This one.
    Id(SubmissionId),
    /// The one with this request id in this conversation.
    Request(ConversationId, String),
}

/// Which approvals: a page of them, those of older sessions first, in a session those that were opened first.
///
/// ```
/// use everturn_core::storage::ApprovalQuery;
/// let open = ApprovalQuery { limit: 50, ..ApprovalQuery::open() };
/// assert!(open.session.is_none(), "of all sessions");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalQuery {
    /// Only those of this session.
    pub session: Option<SessionId>,
    /// Only those that are open.
    pub open: bool,
    /// Only those behind this one.
    pub after: Option<(SessionId, ApprovalId)>,
    /// How many at most.
    pub limit: usize,
}

impl ApprovalQuery {
    /// All that are open, of all sessions.
    pub fn open() -> Self {
        Self { session: None, open: true, after: None, limit: usize::MAX }
    }

    /// All of a session, open or not.
    pub fn of(session: SessionId) -> Self {
        Self { session: Some(session), open: false, after: None, limit: usize::MAX }
    }

    /// All of a session that are open.
    pub fn open_in(session: SessionId) -> Self {
        Self { open: true, ..Self::of(session) }
    }

    /// The same from an approval of its session on, that one first.
    #[must_use]
    pub fn from(self, id: ApprovalId) -> Self {
        let after = self.session.map(|session| (session, ApprovalId(id.0.saturating_sub(1))));
        Self { after, ..self }
    }

    /// Whether an approval belongs into the list, its length aside.
    pub fn wants(&self, session: SessionId, record: &ApprovalRecord) -> bool {
        self.session.is_none_or(|wanted| wanted == session)
            && (!self.open || record.is_open())
            && self.after.is_none_or(|after| (session, record.id) > after)
    }
}

/// An approval, and whose it is.
///
/// ```
/// use everturn_core::storage::ApprovalRow;
/// fn place(row: &ApprovalRow) -> String {
///     format!("session {}, approval {}", row.session, row.record.id)
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRow {
    /// The session.
    pub session: SessionId,
    /// The approval.
    pub record: ApprovalRecord,
}

/// Which sessions: a page of the list, newest first.
///
/// ```
/// use everturn_core::storage::SessionQuery;
/// assert_eq!(SessionQuery::default().limit, 50);
/// ```
#[derive(Clone, Debug)]
pub struct SessionQuery {
    /// Only the session that this request id created.
    pub request: Option<String>,
    /// Only sessions that have all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only sessions that were last committed to at this time or later.
    pub used_from: Option<Timestamp>,
    /// Only sessions that were last committed to before this time.
    pub used_before: Option<Timestamp>,
    /// Only sessions behind this one in the list.
    pub after: Option<SessionId>,
    /// How many at most.
    pub limit: usize,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self {
            request: None,
            labels: BTreeMap::new(),
            used_from: None,
            used_before: None,
            after: None,
            limit: 50,
        }
    }
}

impl SessionQuery {
    /// Whether a session belongs into the list, its length aside.
    pub fn wants(&self, row: &SessionRow) -> bool {
        let has = |(name, value): (&String, &String)| row.new.labels.get(name) == Some(value);
        self.after.is_none_or(|after| row.id < after)
            && (self.request.is_none() || self.request == row.new.request)
            && self.labels.iter().all(has)
            && self.used_from.is_none_or(|from| row.used >= from)
            && self.used_before.is_none_or(|before| row.used < before)
    }
}
