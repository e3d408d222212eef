//! A session in memory as it is, and what its commits changed.

use std::collections::BTreeMap;

use super::session::{Document, Session};
use crate::{
    approval::ApprovalRecord,
    conversation::Conversation,
    document::ScopeKey,
    entry::EntryRecord,
    error::{Error, Result},
    id::{ConversationId, Seq},
    storage::{
        ApprovalQuery, Change, ChangeQuery, Changes, DocumentChange, DocumentState, EntryQuery, Only, Order,
        Part, Revision, SubmissionFilter, TaskQuery, View,
    },
    task::TaskRecord,
};

impl Session {
    pub(super) fn view(&self, part: &Part) -> Result<View> {
        let mut view = View { head: self.row.head, epoch: self.row.epoch, ..View::default() };
        match part {
            Part::Document { scope, kind } => {
                let is_it =
                    |document: &Document| document.record.scope == *scope && document.record.kind == *kind;
                view.documents = self.live_documents(is_it);
            }
            Part::Conversation(id) => self.view_conversation(*id, &mut view)?,
            Part::Tasks => {
                view.tasks = self.live_tasks();
                view.conversations = self.conversations();
                let is_live = |owner| view.tasks.iter().any(|task| task.id == owner);
                view.conversations.retain(|one| one.owner.is_some_and(is_live));
            }
            Part::Everything => {
                view.conversations = self.conversations();
                view.documents = self.live_documents(|_| true);
                view.tasks = self.live_tasks();
                view.submissions = self.submissions(&SubmissionFilter::Live);
                view.approvals = self.open_approvals();
            }
        }
        Ok(view)
    }

    fn view_conversation(&self, id: ConversationId, view: &mut View) -> Result<()> {
        let conversation = self.conversation(id).ok_or_else(|| {
            let session = self.row.id;
            Error::not_found(format!("look at conversation {id} of session {session}: there is none"))
        })?;
        view.entries = self.range(conversation);
        view.documents = self.live_documents(|document| document.record.scope == ScopeKey::Conversation(id));
        view.tasks = self.live_tasks();
        view.tasks.retain(|task| task.conversation == id);
        view.submissions = self.submissions(&SubmissionFilter::Live);
        view.submissions.retain(|submission| submission.conversation == id);
        view.approvals = self.open_approvals();
        view.approvals.retain(|approval| approval.conversation == id);
        view.conversations = vec![conversation.clone()];
        Ok(())
    }

    /// The entries that a conversation sees from its newest head on.
    fn range(&self, conversation: &Conversation) -> Vec<EntryRecord> {
        let all = EntryQuery::of(self.row.id, conversation.lineage.clone());
        let heads = EntryQuery { only: Only::Heads, limit: 1, ..all.clone() };
        let head = self.entries(&heads).pop();
        let from = head.and_then(|entry| entry.head.map(|head| head.entry(entry.id)));
        self.entries(&EntryQuery { order: Order::OldestFirst, ..all.from(from) })
    }

    fn live_tasks(&self) -> Vec<TaskRecord> {
        self.tasks(&TaskQuery { session: self.row.id, live: true, ids: None, owner: None })
    }

    fn open_approvals(&self) -> Vec<ApprovalRecord> {
        let rows = self.approvals(&ApprovalQuery::open_in(self.row.id)).into_iter();
        rows.map(|row| row.record).collect()
    }

    fn live_documents(&self, wanted: impl Fn(&Document) -> bool) -> Vec<DocumentState> {
        let found = self.documents.values().filter(|document| wanted(document));
        found.filter_map(|document| document.at(None)).collect()
    }

    pub(super) fn changes(&self, query: &ChangeQuery) -> Changes {
        let mut commits = self.commits_after(query.after);
        let is_cut = commits.len() > query.limit;
        commits.truncate(query.limit);
        let told = commits.last().map_or(query.after, |last| last.seq);
        let until = if is_cut { told } else { self.row.head };
        let is_newer = |start: &&crate::storage::EpochStart| start.epoch > query.epoch;
        Changes {
            head: self.row.head,
            epoch: self.row.epoch,
            floor: self.floor,
            epochs: self.epochs.iter().filter(is_newer).copied().collect(),
            until,
            before: self.before(query.after, until),
            commits,
        }
    }

    fn commits_after(&self, after: Seq) -> Vec<Change> {
        let mut commits: BTreeMap<Seq, Change> = BTreeMap::new();
        let mut at = |seq: Seq, tell: &mut dyn FnMut(&mut Change)| {
            if seq > after {
                tell(commits.entry(seq).or_insert_with(|| Change::of(seq)));
            }
        };
        for (seq, conversation) in self.conversations.values() {
            at(*seq, &mut |change| change.conversations.push(conversation.clone()));
        }
        for entry in self.entries.values() {
            at(entry.seq, &mut |change| change.entries.push(entry.clone()));
        }
        for (seq, task) in self.tasks.values() {
            at(*seq, &mut |change| change.tasks.push(task.clone()));
        }
        for (seq, submission) in self.submissions.values() {
            at(*seq, &mut |change| change.submissions.push(submission.clone()));
        }
        for (seq, approval) in self.approvals.values() {
            at(*seq, &mut |change| change.approvals.push(approval.clone()));
        }
        for document in self.documents.values() {
            for kept in &document.revisions {
                let (record, number, revision) =
                    (document.record.clone(), kept.number, kept.revision.clone());
                let told = DocumentChange { record, number, revision };
                at(kept.seq, &mut |change| change.documents.push(told.clone()));
            }
        }
        let mut commits: Vec<_> = commits.into_values().collect();
        for change in &mut commits {
            change.entries.sort_by_key(|entry| entry.id);
        }
        commits
    }

    /// What documents were at a place, for those whose next change is a delta.
    fn before(&self, after: Seq, until: Seq) -> Vec<DocumentState> {
        let begins_with_delta = |document: &&Document| {
            let next = document.revisions.iter().find(|kept| kept.seq > after && kept.seq <= until);
            next.is_some_and(|kept| matches!(kept.revision, Revision::Delta { .. }))
        };
        let found = self.documents.values().filter(begins_with_delta);
        found.filter_map(|document| document.at(Some(after))).collect()
    }
}
