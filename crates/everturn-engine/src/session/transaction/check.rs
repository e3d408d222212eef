//! The check of a whole candidate, before storage is asked.

use std::collections::BTreeMap;

use everturn_core::{
    Error, ErrorKind, Result,
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    document::ScopeKey,
    entry::{Entry, EntryRecord},
    id::{ConversationId, EntryId, TaskId},
    limits::Limits,
    storage::{DocumentWrite, EntryQuery, Revision, Write, weight_of_task},
    submission::SubmissionRecord,
    task::{TaskRecord, tree},
};

use super::Transaction;

/// What can be said of an entry by itself.
pub(crate) fn entry(entry: &Entry, limits: &Limits) -> Result<()> {
    limits.check_name("the kind of an entry", &entry.kind)?;
    let what = || format!("entry {}", entry.kind);
    limits.check(&what(), entry.weight(), limits.entry)?;
    match &entry.data {
        Some(data) => limits.check_depth(&what(), data.get()),
        None => Ok(()),
    }
}

/// What can be said of labels by themselves. Those that begin with `et.` are Everturn's own.
pub(in crate::session) fn labels(labels: &BTreeMap<String, String>, limits: &Limits) -> Result<()> {
    for (name, value) in labels {
        limits.check_name("the name of a label", name)?;
        limits.check(&format!("label {name}"), value.len(), limits.name)?;
        if name.starts_with("et.") {
            return Err(Error::invalid(format!(
                "write label {name}: names that begin with et. are Everturn's own"
            )));
        }
    }
    Ok(())
}

impl Transaction {
    /// Proves that every record that the writes refer to is there in the final state, and that the whole is not too
    /// large.
    pub(super) async fn check(&self) -> Result<()> {
        let (mut total, limits) = (0, self.limits());
        for write in &self.writes {
            self.check_write(write).await?;
            total += usize::try_from(self.growth(write)).unwrap_or(usize::MAX);
        }
        limits.check("a commit", total, limits.commit)
    }

    /// What a write adds to what is stored: of a task that was there, what it has become heavier by. That all below a task
    /// are told to stop must never be too much for a commit.
    fn growth(&self, write: &Write) -> u64 {
        let before = match write {
            Write::Task(task) => {
                self.session.0.state().live.task(task.id).map(|before| weight_of_task(before))
            }
            _ => None,
        };
        write.weight().saturating_sub(before.unwrap_or(0))
    }

    async fn check_write(&self, write: &Write) -> Result<()> {
        match write {
            Write::Entry(entry) => self.check_entry(entry).await,
            Write::Conversation(conversation) => {
                self.check_owner(conversation.owner, || format!("conversation {}", conversation.id))
            }
            Write::Task(task) => {
                self.check_conversation(task.conversation, || format!("task {}", task.id)).await?;
                self.check_new_task(task)
            }
            Write::Submission(one) => {
                self.check_submission(one)?;
                self.check_conversation(one.conversation, || format!("submission {}", one.id)).await
            }
            Write::Approval(one) => {
                self.check_approval(one, write)?;
                self.check_conversation(one.conversation, || format!("approval {}", one.id)).await
            }
            Write::Document(write) => self.check_document(write).await,
            Write::Usage(row) => {
                self.check_conversation(row.conversation, || "a row of the ledger".into()).await
            }
            Write::Title(title) => self.limits().check("the title", title.len(), self.limits().entry),
            Write::Labels(given) => labels(given, self.limits()),
            // What these refer to is in the store, which checks it.
            Write::Taken(_) | Write::Blob(_) | Write::Purge(_) | Write::Trim(_) => Ok(()),
        }
    }

    fn check_submission(&self, one: &SubmissionRecord) -> Result<()> {
        let limits = self.limits();
        if let Some(request) = &one.request {
            limits.check_name("the request id of a submission", request)?;
        }
        limits.check_name("the actor of a submission", &one.actor)?;
        let queued = one.queued().into_iter();
        for json in queued.flat_map(|queued| queued.options.iter().chain(&queued.entry)) {
            let what = format!("submission {}", one.id);
            limits.check(&what, json.get().len(), limits.entry)?;
            limits.check_depth(&what, json.get())?;
        }
        Ok(())
    }

    /// Who asks is there, and waits while the question is open.
    fn check_approval(&self, one: &ApprovalRecord, write: &Write) -> Result<()> {
        let (what, limits) = (format!("approval {}", one.id), self.limits());
        limits.check(&what, usize::try_from(write.weight()).unwrap_or(usize::MAX), limits.entry)?;
        let (mut json, mut name) = (Vec::new(), None);
        match &one.question {
            Question::Call { tool, arguments, preview, .. } => {
                name = Some(tool);
                json.extend(preview.iter().chain([arguments]));
            }
            Question::Unknown { tool, arguments } => (name, json) = (Some(tool), vec![arguments]),
            Question::Person { .. } => {}
        }
        if let ApprovalState::Decided { decision, actor, .. } = &one.state {
            limits.check_name("the actor of a decision", actor)?;
            if !one.question.takes(decision) {
                return Err(Error::invalid(format!(
                    "commit {what}: what was decided does not fit what is asked"
                )));
            }
            if let Decision::Edit { arguments } = decision {
                json.push(arguments);
            }
        }
        name.map_or(Ok(()), |name| limits.check_name("the tool of an approval", name))?;
        json.into_iter().try_for_each(|json| limits.check_depth(&what, json.get()))?;
        let call = self.task(one.call);
        match call.is_some_and(|call| !one.is_open() || call.outcome().is_none()) {
            true => Ok(()),
            false => Err(Error::invalid(format!("commit {what}: task {}, its call, is not live", one.call))),
        }
    }

    async fn check_conversation(&self, id: ConversationId, what: impl Fn() -> String) -> Result<()> {
        if self.staged_conversation(id).is_none() {
            let found = self.session.conversation(id).await;
            found.map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    Error::invalid(format!("commit {}: there is no conversation {id}", what()))
                        .caused_by(error)
                }
                _ => error,
            })?;
        }
        Ok(())
    }

    /// A task that is live and was not there before begins below something that takes work.
    fn check_new_task(&self, task: &TaskRecord) -> Result<()> {
        if !task.is_live() || self.session.0.state().live.task(task.id).is_some() {
            return Ok(());
        }
        if tree::ancestors(self, task).contains(&task.id) {
            return Err(Error::invalid(format!("commit task {}: it would be above itself", task.id)));
        }
        self.check_owner(tree::above(self, task), || format!("task {}", task.id))
    }

    /// New work is refused below a task that has ended, is about to, or was told to stop. What ends in this transaction may
    /// have begun something first.
    fn check_owner(&self, owner: Option<TaskId>, what: impl Fn() -> String) -> Result<()> {
        let Some(owner) = owner else { return Ok(()) };
        let took_work = self.session.0.state().live.task(owner).is_some_and(|before| before.takes_work());
        let found = match self.task(owner) {
            Some(task) if task.takes_work() || (took_work && task.abort.is_none()) => return Ok(()),
            Some(task) if task.abort.is_some() && task.is_live() => "was told to stop",
            Some(task) if task.is_live() => "is ending",
            _ => "is not live",
        };
        Err(Error::invalid(format!("commit {}: task {owner}, its owner, {found}", what())))
    }

    /// The documents of a task live as long as it does.
    fn check_live(&self, task: TaskId, what: impl Fn() -> String) -> Result<()> {
        match self.task(task).is_some_and(|task| task.is_live()) {
            true => Ok(()),
            false => Err(Error::invalid(format!("commit {}: task {task}, its owner, is not live", what()))),
        }
    }

    async fn check_document(&self, write: &DocumentWrite) -> Result<()> {
        let kind = &write.record.kind;
        match write.record.scope {
            ScopeKey::Session => {}
            ScopeKey::Conversation(id) => {
                self.check_conversation(id, || format!("document {kind}")).await?;
            }
            // The documents of a task may end with it.
            ScopeKey::Task(_) if write.revision == Revision::Retired => {}
            ScopeKey::Task(id) => self.check_live(id, || format!("document {kind}"))?,
        }
        self.limits().check_name("the kind of a document", kind)
    }

    async fn check_entry(&self, entry: &EntryRecord) -> Result<()> {
        let invalid = |what: &str| {
            let (id, conversation, kind) = (entry.id, entry.conversation, &entry.kind);
            Error::invalid(format!("append entry {id} ({kind}) to conversation {conversation}: {what}"))
        };
        self.check_conversation(entry.conversation, || format!("entry {} ({})", entry.id, entry.kind))
            .await?;
        let head = entry.head.map(|head| head.entry(entry.id));
        for target in head.into_iter().chain(entry.edits.iter().map(|edit| edit.target)) {
            if target > entry.id || (target != entry.id && !self.sees(entry.conversation, target).await?) {
                return Err(invalid(&format!(
                    "it points at entry {target}, which is not visible from there"
                )));
            }
        }
        Ok(())
    }

    /// Whether a conversation sees an entry, in this transaction.
    pub(super) async fn sees(&self, conversation: ConversationId, entry: EntryId) -> Result<bool> {
        let lineage = match self.staged_conversation(conversation) {
            Some(staged) => staged.lineage.clone(),
            None => self.session.conversation(conversation).await?.lineage.clone(),
        };
        if let Some(staged) = self.staged_entry(entry) {
            return Ok(lineage.sees(staged.conversation, entry));
        }
        let query = EntryQuery::one(self.session.id(), &lineage, entry);
        Ok(!self.session.0.opener.store.entries(query).await?.is_empty())
    }
}
