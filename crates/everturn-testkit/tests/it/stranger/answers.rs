//! What is asked of a session.

use std::collections::BTreeMap;

use everturn_core::{
    Error, Result,
    approval::ApprovalRecord,
    clock::Timestamp,
    conversation::Conversation,
    document::ScopeKey,
    entry::{EntryRecord, kind},
    id::{DocumentId, Seq},
    storage::{
        Change, ChangeQuery, Changes, DocumentChange, DocumentState, DocumentWrite, Due, EntryQuery, Hit,
        Only, Order, Part, Revision, RunnableQuery, SubmissionFilter, TaskQuery, View, excerpt, terms,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
};

use super::replay::State;

impl State {
    pub(super) fn entries(&self, query: &EntryQuery) -> Vec<EntryRecord> {
        let wanted = |entry: &&EntryRecord| {
            let is_kind = match query.only {
                Only::All => true,
                Only::Heads => entry.head.is_some(),
                Only::Turns => entry.kind == kind::TURN,
            };
            is_kind
                && query.lineage.sees(entry.conversation, entry.id)
                && query.after.is_none_or(|after| entry.id > after)
                && query.before.is_none_or(|before| entry.id < before)
        };
        let mut found: Vec<_> = self.entries.values().filter(wanted).cloned().collect();
        if query.order == Order::NewestFirst {
            found.reverse();
        }
        found.truncate(query.limit);
        found
    }

    pub(super) fn documents(&self, at: Option<Seq>) -> Vec<DocumentState> {
        let mut states: BTreeMap<DocumentId, DocumentState> = BTreeMap::new();
        for (seq, DocumentWrite { record, number, revision }) in &self.revisions {
            if at.is_some_and(|at| *seq > at) {
                continue;
            }
            let (seq, number) = (*seq, *number);
            match revision {
                Revision::Retired => drop(states.remove(&record.id)),
                Revision::Base { version, value } => {
                    let (record, version, base) = (record.clone(), *version, value.clone());
                    let state = DocumentState { record, version, base, deltas: vec![], seq, number };
                    states.insert(state.record.id, state);
                }
                Revision::Delta { operations } => {
                    if let Some(state) = states.get_mut(&record.id) {
                        state.deltas.push(operations.clone());
                        (state.seq, state.number) = (seq, number);
                    }
                }
            }
        }
        states.into_values().collect()
    }

    pub(super) fn tasks(&self, query: &TaskQuery) -> Vec<TaskRecord> {
        let all: Vec<_> = match &query.ids {
            Some(ids) => ids.iter().filter_map(|id| self.tasks.get(id)).collect(),
            None => self.tasks.values().collect(),
        };
        let wanted = |task: &&TaskRecord| {
            (task.is_live() || !query.live) && (query.owner.is_none() || task.owner == query.owner)
        };
        all.into_iter().map(|(_, task)| task).filter(wanted).cloned().collect()
    }

    fn live_tasks(&self) -> Vec<TaskRecord> {
        self.tasks(&TaskQuery { session: self.row.id, live: true, ids: None, owner: None })
    }

    pub(super) fn submissions(&self, only: &SubmissionFilter) -> Vec<SubmissionRecord> {
        let wanted = |one: &&SubmissionRecord| match only {
            SubmissionFilter::All => true,
            SubmissionFilter::Live => one.is_live(),
            SubmissionFilter::Id(id) => one.id == *id,
            SubmissionFilter::Request(conversation, request) => {
                one.conversation == *conversation && one.request.as_ref() == Some(request)
            }
        };
        self.submissions.values().map(|(_, one)| one).filter(wanted).cloned().collect()
    }

    fn open_approvals(&self) -> Vec<ApprovalRecord> {
        self.approvals.values().map(|(_, one)| one).filter(|one| one.is_open()).cloned().collect()
    }

    pub(super) fn runs_by(&self, query: &RunnableQuery) -> Option<Due> {
        let is_owned = self.row.owner.is_some_and(|(_, until)| until > query.now);
        let has_mail = self.mail.iter().any(|(_, row)| row.receipt.is_none());
        let mut blocked = self.tasks.values().filter(|(_, task)| task.blocked.is_some());
        let has_code = blocked.any(|(_, task)| query.code.iter().any(|code| code.unblocks(task)));
        let due = if has_mail || has_code { Due::Now } else { self.due };
        (!is_owned && due <= Due::At(query.now)).then_some(due)
    }

    pub(super) fn search(&self, words: &[String]) -> Vec<(Timestamp, Hit)> {
        let hit = |entry: &EntryRecord| {
            let text = entry.text();
            let found: Vec<_> = terms(&text).collect();
            let (session, excerpt) = (self.row.id, excerpt(&text, &words[0]));
            let hit = Hit { session, conversation: entry.conversation, entry: entry.id, excerpt };
            words.iter().all(|word| found.contains(word)).then_some((entry.time, hit))
        };
        self.entries.values().filter_map(hit).collect()
    }

    pub(super) fn view(&self, part: &Part) -> Result<View> {
        let mut view = View { head: self.row.head, epoch: self.row.epoch, ..View::default() };
        if *part == Part::Tasks || *part == Part::Everything {
            view.tasks = self.live_tasks();
        }
        match part {
            Part::Tasks => {
                let is_live = |owner| view.tasks.iter().any(|task| task.id == owner);
                let owned = |one: &&Conversation| one.owner.is_some_and(is_live);
                view.conversations =
                    self.conversations.values().map(|(_, one)| one).filter(owned).cloned().collect();
            }
            Part::Document { scope, kind } => {
                view.documents = self.documents(None);
                view.documents.retain(|state| state.record.scope == *scope && state.record.kind == *kind);
            }
            Part::Everything => {
                view.conversations = self.conversations.values().map(|(_, one)| one.clone()).collect();
                view.documents = self.documents(None);
                view.submissions = self.submissions(&SubmissionFilter::Live);
                view.approvals = self.open_approvals();
            }
            Part::Conversation(id) => {
                let found = self.conversations.get(id).map(|(_, one)| one.clone());
                let conversation = found
                    .ok_or_else(|| Error::not_found(format!("look at conversation {id}: there is none")))?;
                let all = EntryQuery::of(self.row.id, conversation.lineage.clone());
                let head = self.entries(&EntryQuery { only: Only::Heads, limit: 1, ..all.clone() }).pop();
                let from = head.and_then(|entry| entry.head.map(|head| head.entry(entry.id)));
                view.entries = self.entries(&EntryQuery { order: Order::OldestFirst, ..all.from(from) });
                view.conversations = vec![conversation];
                view.documents = self.documents(None);
                view.documents.retain(|state| state.record.scope == ScopeKey::Conversation(*id));
                view.tasks = self.live_tasks();
                view.tasks.retain(|task| task.conversation == *id);
                view.submissions = self.submissions(&SubmissionFilter::Live);
                view.submissions.retain(|one| one.conversation == *id);
                view.approvals = self.open_approvals();
                view.approvals.retain(|one| one.conversation == *id);
            }
        }
        Ok(view)
    }

    pub(super) fn changes(&self, query: &ChangeQuery) -> Changes {
        let all = self.told_after(query.after);
        let is_cut = all.len() > query.limit;
        let commits: Vec<_> = all.into_values().take(query.limit).collect();
        let told = commits.last().map_or(query.after, |change| change.seq);
        let mut first: BTreeMap<DocumentId, &Revision> = BTreeMap::new();
        for change in commits.iter().flat_map(|change| &change.documents) {
            first.entry(change.record.id).or_insert(&change.revision);
        }
        let mut before = self.documents(Some(query.after));
        before.retain(|state| matches!(first.get(&state.record.id), Some(Revision::Delta { .. })));
        Changes {
            head: self.row.head,
            epoch: self.row.epoch,
            floor: self.floor,
            epochs: self.epochs.iter().filter(|start| start.epoch > query.epoch).copied().collect(),
            until: if is_cut { told } else { self.row.head },
            before,
            commits,
        }
    }

    fn told_after(&self, after: Seq) -> BTreeMap<Seq, Change> {
        let mut told: BTreeMap<Seq, Change> = BTreeMap::new();
        let mut at = |seq: Seq, tell: &dyn Fn(&mut Change)| {
            if seq > after {
                tell(told.entry(seq).or_insert_with(|| Change::of(seq)));
            }
        };
        for (seq, one) in self.conversations.values() {
            at(*seq, &|change| change.conversations.push(one.clone()));
        }
        for entry in self.entries.values() {
            at(entry.seq, &|change| change.entries.push(entry.clone()));
        }
        for (seq, task) in self.tasks.values() {
            at(*seq, &|change| change.tasks.push(task.clone()));
        }
        for (seq, one) in self.submissions.values() {
            at(*seq, &|change| change.submissions.push(one.clone()));
        }
        for (seq, one) in self.approvals.values() {
            at(*seq, &|change| change.approvals.push(one.clone()));
        }
        for (seq, DocumentWrite { record, number, revision }) in &self.revisions {
            let (record, number, revision) = (record, *number, revision);
            at(*seq, &|change| {
                let (record, revision) = (record.clone(), revision.clone());
                change.documents.push(DocumentChange { record, number, revision });
            });
        }
        told
    }
}
