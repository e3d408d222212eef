//! The check of a whole candidate, before storage is asked.

use everturn_core::{
    Error, ErrorKind, Result,
    document::ScopeKey,
    entry::{Entry, EntryRecord},
    id::{ConversationId, EntryId, TaskId},
    storage::{DocumentWrite, EntryQuery, Revision, Write},
};

use super::Transaction;

/// The longest name of a kind, in bytes.
const NAME_MAX: usize = 256;
/// The greatest weight of an entry, in bytes of JSON.
pub(crate) const ENTRY_MAX: usize = 1 << 20;
/// The greatest weight of a commit, in bytes of JSON.
const COMMIT_MAX: usize = 16 << 20;

/// What can be said of an entry by itself.
pub(crate) fn entry(entry: &Entry) -> Result<()> {
    if entry.kind.is_empty() {
        return Err(Error::invalid("append an entry: its kind is empty; name what it is"));
    }
    if entry.kind.len() > NAME_MAX {
        let found = entry.kind.len();
        return Err(Error::too_large(format!(
            "append an entry: its kind has {found} bytes, at most {NAME_MAX} are allowed"
        )));
    }
    let weight = weight(entry);
    if weight > ENTRY_MAX {
        return Err(Error::too_large(format!(
            "append entry {}: it weighs about {weight} bytes, at most {ENTRY_MAX} are allowed",
            entry.kind
        )));
    }
    Ok(())
}

/// The bytes of text in an entry: a lower bound of its JSON that costs no encoding.
fn weight(entry: &Entry) -> usize {
    let data = entry.data.as_ref().map_or(0, |data| data.get().len());
    let edited = entry.edits.iter().flat_map(|edit| edit.messages.iter().flatten());
    data + entry.messages.iter().chain(edited).map(|message| message.weight()).sum::<usize>()
}

impl Transaction {
    /// Proves that every record that the writes refer to is there in the final state, and that the whole is not too
    /// large.
    pub(super) async fn check(&self) -> Result<()> {
        let mut total = 0;
        for write in &self.writes {
            total += match write {
                Write::Entry(entry) => {
                    self.check_entry(entry).await?;
                    weight(entry)
                }
                Write::Conversation(conversation) => {
                    self.check_owner(conversation.owner, || format!("conversation {}", conversation.id))?;
                    0
                }
                Write::Task(task) => {
                    self.check_conversation(task.conversation, || format!("task {}", task.id)).await?;
                    if task.is_live() {
                        self.check_owner(task.owner, || format!("task {}", task.id))?;
                    }
                    task.input.get().len()
                }
                Write::Submission(one) => {
                    self.check_conversation(one.conversation, || format!("submission {}", one.id)).await?;
                    0
                }
                Write::Document(write) => self.check_document(write).await?,
                Write::Usage(row) => {
                    self.check_conversation(row.conversation, || "a row of the ledger".into()).await?;
                    0
                }
                Write::Title(title) => title.len(),
            };
        }
        match total {
            total if total > COMMIT_MAX => Err(Error::too_large(format!(
                "commit: it weighs about {total} bytes, at most {COMMIT_MAX} are allowed"
            ))),
            _ => Ok(()),
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

    fn check_owner(&self, owner: Option<TaskId>, what: impl Fn() -> String) -> Result<()> {
        match owner {
            Some(owner) if self.task(owner).is_none_or(|owner| !owner.is_live()) => {
                Err(Error::invalid(format!("commit {}: task {owner}, its owner, is not live", what())))
            }
            _ => Ok(()),
        }
    }

    /// Gives the document's weight.
    async fn check_document(&self, write: &DocumentWrite) -> Result<usize> {
        let kind = &write.record.kind;
        match write.record.scope {
            ScopeKey::Session => {}
            ScopeKey::Conversation(id) => {
                self.check_conversation(id, || format!("document {kind}")).await?;
            }
            ScopeKey::Task(id) => self.check_owner(Some(id), || format!("document {kind}"))?,
        }
        if kind.len() > NAME_MAX {
            let message = format!("commit document {kind}: its kind has more than {NAME_MAX} bytes");
            return Err(Error::too_large(message));
        }
        Ok(match &write.revision {
            Revision::Base { value, .. } => value.get().len(),
            Revision::Delta { operations } => operations.get().len(),
            Revision::Retired => 0,
        })
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
