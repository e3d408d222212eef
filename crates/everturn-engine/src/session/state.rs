//! What was committed, as far as it is kept in memory.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use everturn_core::{
    Error, Result,
    approval::ApprovalRecord,
    context::Context,
    conversation::Conversation,
    document::ScopeKey,
    entry::EntryRecord,
    id::{ConversationId, EntryId, SessionId, SubmissionId},
    storage::{ApprovalQuery, ApprovalRow, Store, SubmissionFilter, SubmissionQuery, TaskQuery, Write},
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};

use super::{
    document::{Committed, Revised},
    live::Live,
};

/// How many conversations, documents and tails are kept before those of work that is over are let go of.
const KEPT_MAX: usize = 1_024;

/// How many contexts are kept of conversations in which nothing runs.
const CONTEXTS_MAX: usize = 8;

/// The committed state of an open session: all that is live, and caches of what was read.
pub(crate) struct State {
    /// Why this handle can write no more.
    pub(crate) shut: Option<Error>,
    /// Whether new work is refused.
    pub(crate) is_closing: bool,
    /// Live work.
    pub(crate) live: Live,
    /// Conversations that were read or created.
    pub(crate) conversations: HashMap<ConversationId, Arc<Conversation>>,
    /// Documents that were read or written; none where it is known that there is none.
    pub(crate) documents: HashMap<DocumentKey, Option<Arc<Committed>>>,
    /// Contexts at the tail of their conversations.
    pub(crate) contexts: HashMap<ConversationId, Context>,
    /// The newest entry of each conversation that this owner has appended to.
    pub(crate) tails: HashMap<ConversationId, EntryId>,
    /// The newest settled submissions, so that who waits for one need not ask the store.
    pub(crate) settled: Settled,
    /// The newest entries, so that who waited for a turn need not ask the store how it ended.
    pub(crate) newest: Newest,
}

/// The newest settled submissions, a bounded number of them.
#[derive(Default)]
pub(crate) struct Settled(VecDeque<Arc<SubmissionRecord>>);

impl Settled {
    const MAX: usize = 64;

    pub(crate) fn get(&self, id: SubmissionId) -> Option<Arc<SubmissionRecord>> {
        self.0.iter().rev().find(|one| one.id == id).cloned()
    }

    fn put(&mut self, submission: Arc<SubmissionRecord>) {
        if self.0.len() == Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back(submission);
    }
}

/// The newest entries, a bounded number of them.
#[derive(Default)]
pub(crate) struct Newest(VecDeque<Arc<EntryRecord>>);

impl Newest {
    const MAX: usize = 8;

    /// The newest of them that is wanted.
    pub(crate) fn find(&self, wanted: impl Fn(&EntryRecord) -> bool) -> Option<Arc<EntryRecord>> {
        self.0.iter().rev().find(|entry| wanted(entry)).cloned()
    }

    fn put(&mut self, entry: Arc<EntryRecord>) {
        if self.0.len() == Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }
}

/// What lives in a session, as it was read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) tasks: Vec<TaskRecord>,
    pub(super) submissions: Vec<SubmissionRecord>,
    pub(super) approvals: Vec<ApprovalRow>,
    /// The conversations that the tasks work for.
    pub(super) conversations: Vec<Arc<Conversation>>,
}

impl Read {
    /// What lives in a session now.
    pub(super) async fn of(store: &Store, session: SessionId) -> Result<Self> {
        let tasks = store.tasks(TaskQuery::live(session)).await?;
        let live = SubmissionQuery { session, only: SubmissionFilter::Live };
        let submissions = store.submissions(live).await?;
        let approvals = store.approvals(ApprovalQuery::open_in(session)).await?;
        let places: BTreeSet<_> = tasks.iter().map(|task| task.conversation).collect();
        let mut conversations = Vec::new();
        // Nobody owns the root.
        for id in places.into_iter().filter(|id| *id != ConversationId::ROOT) {
            conversations.extend(store.conversation(session, id).await?.map(Arc::new));
        }
        Ok(Self { tasks, submissions, approvals, conversations })
    }
}

/// Which document: its scope and its kind.
pub(crate) type DocumentKey = (ScopeKey, String);

/// What a commit changes in memory once it is stored, and what its watchers are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adopted {
    pub(crate) conversations: Vec<Arc<Conversation>>,
    pub(crate) entries: Vec<Arc<EntryRecord>>,
    pub(crate) tasks: Vec<Arc<TaskRecord>>,
    pub(crate) submissions: Vec<Arc<SubmissionRecord>>,
    pub(crate) approvals: Vec<Arc<ApprovalRecord>>,
    pub(crate) documents: Vec<Revised>,
    pub(crate) usage: Vec<UsageRow>,
    /// Conversations of which an entry lost its contents.
    pub(crate) purged: Vec<ConversationId>,
}

impl Adopted {
    /// Whether whoever runs tasks has to look again.
    pub(super) fn moves_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// What the writes of a batch change, but for documents.
    pub(super) fn of(writes: &[Write]) -> Self {
        let mut adopted = Self::default();
        for write in writes {
            match write {
                Write::Conversation(conversation) => {
                    adopted.conversations.push(Arc::new(conversation.clone()));
                }
                Write::Entry(entry) => adopted.entries.push(Arc::new(entry.clone())),
                Write::Task(task) => adopted.tasks.push(Arc::new(task.clone())),
                Write::Submission(submission) => adopted.submissions.push(Arc::new(submission.clone())),
                Write::Approval(approval) => adopted.approvals.push(Arc::new(approval.clone())),
                Write::Usage(row) => adopted.usage.push(row.clone()),
                Write::Purge(entry) => adopted.purged.push(entry.conversation),
                Write::Document(_)
                | Write::Title(_)
                | Write::Labels(_)
                | Write::Taken(_)
                | Write::Blob(_)
                | Write::Trim(_) => {}
            }
        }
        adopted
    }
}

impl State {
    /// A session as it was read: with the conversations that its tasks work for.
    pub(super) fn new(read: Read) -> Self {
        let conversations: HashMap<_, _> =
            read.conversations.into_iter().map(|found| (found.id, found)).collect();
        let mut live = Live::default();
        for task in read.tasks {
            let owner = conversations.get(&task.conversation).and_then(|found| found.owner);
            live.put(&Arc::new(task), owner);
        }
        live.submissions = read.submissions.into_iter().map(|one| (one.id, Arc::new(one))).collect();
        for row in read.approvals {
            live.put_approval(Arc::new(row.record));
        }
        Self {
            shut: None,
            is_closing: false,
            tails: HashMap::new(),
            live,
            conversations,
            documents: HashMap::new(),
            contexts: HashMap::new(),
            settled: Settled::default(),
            newest: Newest::default(),
        }
    }

    /// Lets go of all that was kept, for what the store has now.
    pub(super) fn reload(&mut self, read: Read) {
        let (shut, is_closing) = (self.shut.take(), self.is_closing);
        *self = Self { shut, is_closing, ..Self::new(read) };
    }

    pub(super) fn adopt(&mut self, adopted: Adopted) {
        for conversation in adopted.conversations {
            self.conversations.insert(conversation.id, conversation);
        }
        for entry in adopted.entries {
            self.adopt_entry(&entry);
            self.tails.insert(entry.conversation, entry.id);
            self.newest.put(entry);
        }
        for task in adopted.tasks {
            let owner = self.conversations.get(&task.conversation).and_then(|found| found.owner);
            self.live.put(&task, owner);
        }
        for submission in adopted.submissions {
            if submission.is_live() {
                self.live.submissions.insert(submission.id, submission);
            } else {
                self.live.submissions.remove(&submission.id);
                self.settled.put(submission);
            }
        }
        for approval in adopted.approvals {
            self.live.put_approval(approval);
        }
        for Revised { record, committed, .. } in adopted.documents {
            self.documents.insert((record.scope, record.kind), committed);
        }
        if !adopted.purged.is_empty() {
            // Forks see the entry too.
            self.contexts.clear();
            self.newest = Newest::default();
        }
        self.trim();
    }

    /// Lets go of what was read of work that is over, where much is kept: it can be read again.
    fn trim(&mut self) {
        if self.conversations.len() + self.documents.len() + self.tails.len() <= KEPT_MAX {
            return;
        }
        let live = &self.live;
        let rests = |conversation: &ConversationId| !live.is_used(*conversation);
        self.conversations.retain(|id, _| !rests(id));
        self.tails.retain(|id, _| !rests(id));
        self.documents.retain(|(scope, _), _| match scope {
            ScopeKey::Session => true,
            ScopeKey::Conversation(id) => !rests(id),
            ScopeKey::Task(id) => live.task(*id).is_some(),
        });
    }

    /// Keeps a context; where many are kept, those of conversations that rest are let go.
    pub(super) fn keep_context(&mut self, conversation: ConversationId, context: Context) {
        if self.contexts.len() >= CONTEXTS_MAX {
            let live = &self.live;
            self.contexts.retain(|kept, _| live.is_used(*kept));
        }
        self.contexts.insert(conversation, context);
    }

    /// Keeps the cached context of the entry's conversation at its tail, or lets it go.
    fn adopt_entry(&mut self, entry: &EntryRecord) {
        let Some(context) = self.contexts.get_mut(&entry.conversation) else {
            return;
        };
        if !context.push(entry) {
            self.contexts.remove(&entry.conversation);
        }
    }
}
