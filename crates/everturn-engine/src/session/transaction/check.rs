//! The check of a whole candidate, before storage is asked.

use everturn_core::{
    Error, Result,
    entry::{Entry, EntryRecord},
    id::{ConversationId, EntryId},
    storage::{EntryQuery, Write},
};

use super::Transaction;

/// The longest name of a kind, in bytes.
const NAME_MAX: usize = 256;
/// The greatest weight of an entry, in bytes of JSON.
pub(crate) const ENTRY_MAX: usize = 1 << 20;

/// What can be said of an entry by itself.
pub(super) fn entry(entry: &Entry) -> Result<()> {
    if entry.kind.is_empty() || entry.kind.len() > NAME_MAX {
        let found = entry.kind.len();
        return Err(Error::too_large(format!(
            "append an entry: its kind has {found} bytes, 1 to {NAME_MAX} are allowed"
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
    /// Proves that every record that the writes refer to is there in the final state.
    pub(super) async fn check(&self) -> Result<()> {
        for write in &self.writes {
            match write {
                Write::Entry(entry) => self.check_entry(entry).await?,
                Write::Conversation(conversation) => {
                    if let Some(owner) = conversation.owner
                        && self.task(owner).is_none_or(|owner| !owner.is_live())
                    {
                        let id = conversation.id;
                        let message =
                            format!("create conversation {id}: task {owner}, its owner, is not live");
                        return Err(Error::invalid(message));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn check_entry(&self, entry: &EntryRecord) -> Result<()> {
        let invalid = |what: &str| {
            let (id, conversation, kind) = (entry.id, entry.conversation, &entry.kind);
            Error::invalid(format!("append entry {id} ({kind}) to conversation {conversation}: {what}"))
        };
        if self.staged_conversation(entry.conversation).is_none() {
            let found = self.session.conversation(entry.conversation).await;
            found.map_err(|error| invalid("there is no such conversation").caused_by(error))?;
        }
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
        let query = EntryQuery {
            after: Some(EntryId(entry.0.saturating_sub(1))),
            limit: 1,
            ..EntryQuery::of(self.session.id(), lineage.capped(entry))
        };
        Ok(!self.session.0.opener.store.entries(query).await?.is_empty())
    }
}
