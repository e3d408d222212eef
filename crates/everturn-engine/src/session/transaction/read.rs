//! What a transaction sees: what is committed, with its own writes in place.

use everturn_core::{
    Error, Result,
    compaction::{tokens_of, weigh},
    context::Context,
    conversation::Conversation,
    entry::EntryRecord,
    id::{ConversationId, EntryId},
    prompt::Standing,
    storage::{EntryQuery, Write},
};

use super::{Transaction, response::LastResponse};

impl Transaction {
    /// A conversation by its id, one of this transaction's own included.
    ///
    /// Errors: `NotFound`.
    pub async fn conversation(&self, id: ConversationId) -> Result<Conversation> {
        self.hold.place()?;
        match self.staged_conversation(id) {
            Some(staged) => Ok(staged.clone()),
            None => self.session.conversation(id).await.map(|found| Conversation::clone(&found)),
        }
    }

    /// An entry that a conversation sees, one of this transaction's own included.
    ///
    /// Errors: `NotFound`.
    pub async fn entry(&self, conversation: ConversationId, id: EntryId) -> Result<EntryRecord> {
        let lineage = self.conversation(conversation).await?.lineage;
        let unknown = || {
            let message = format!("look for entry {id} in conversation {conversation}: it does not see one");
            Error::not_found(message)
        };
        if let Some(staged) = self.staged_entry(id) {
            let is_seen = lineage.sees(staged.conversation, id);
            return if is_seen { Ok(staged.clone()) } else { Err(unknown()) };
        }
        let query = EntryQuery::one(self.session.id(), &lineage, id);
        let found = self.session.store().entries(query).await?.pop().ok_or_else(unknown)?;
        Ok(self.as_purged(found))
    }

    /// What this transaction has left of an entry.
    fn as_purged(&self, committed: EntryRecord) -> EntryRecord {
        match self.staged(committed.id.0) {
            Some(Write::Purge(left)) => left.clone(),
            _ => committed,
        }
    }

    /// What of a conversation is sent, this transaction's own entries included.
    pub(crate) async fn context(&self, conversation: ConversationId) -> Result<Context> {
        let lineage = self.conversation(conversation).await?.lineage;
        let staged: Vec<EntryRecord> = self
            .staged_entries()
            .filter(|entry| lineage.sees(entry.conversation, entry.id))
            .cloned()
            .collect();
        let head = |entry: &EntryRecord| entry.head.map(|head| head.entry(entry.id));
        let begin = staged.iter().rev().find_map(head);
        let mut entries = self.session.visible(lineage, begin).await?;
        entries.extend(staged);
        Ok(Context::derive(&entries))
    }

    /// About how many tokens a conversation's next request has, this transaction's own entries included.
    pub(crate) async fn tokens(&self, conversation: ConversationId) -> Result<u64> {
        let staged = || self.staged_entries().filter(|entry| entry.conversation == conversation);
        let is_stored = self.staged_conversation(conversation).is_none();
        if !is_stored || staged().any(|entry| entry.head.is_some() || !entry.edits.is_empty()) {
            return Ok(tokens_of(&self.context(conversation).await?));
        }
        let messages = staged().flat_map(|entry| &entry.messages);
        let more: u64 = messages.map(|message| weigh(message)).sum();
        Ok(self.session.tokens(conversation).await? + more)
    }

    /// The entries that it appends, oldest first.
    fn staged_entries(&self) -> impl DoubleEndedIterator<Item = &EntryRecord> {
        self.writes.iter().filter_map(|write| match write {
            Write::Entry(entry) => Some(entry),
            _ => None,
        })
    }

    /// The newest entry that a conversation sees, this transaction's own included.
    pub(crate) async fn newest(&self, conversation: ConversationId) -> Result<Option<EntryId>> {
        let mut staged = self.staged_entries().rev();
        let staged = staged.find(|entry| entry.conversation == conversation).map(|entry| entry.id);
        let known = || self.session.0.state().tails.get(&conversation).copied();
        match staged.or_else(known) {
            Some(newest) => Ok(Some(newest)),
            None => Ok(self.entries(conversation, None, 1).await?.first().map(|entry| entry.id)),
        }
    }

    /// The newest response in a conversation's context and the results of its calls, this transaction's own included.
    pub(crate) async fn last_response(&self, conversation: ConversationId) -> Result<LastResponse> {
        let mut messages = self.session.context_tail(conversation).await?;
        let staged = self.staged_entries().filter(|entry| entry.conversation == conversation);
        messages.extend(staged.flat_map(|entry| entry.messages.iter().cloned()));
        Ok(LastResponse::of(&messages))
    }

    /// What the model of a conversation has been told beside the messages, this transaction's own entries included.
    pub(crate) async fn standing(&self, conversation: ConversationId) -> Result<Standing> {
        let lineage = self.conversation(conversation).await?.lineage;
        let mut standing = match self.staged_conversation(conversation) {
            Some(_) => self.session.inherited_standing(lineage.clone()).await?,
            None => self.session.standing(conversation).await?,
        };
        let staged = self.staged_entries().filter(|entry| lineage.sees(entry.conversation, entry.id));
        staged.for_each(|entry| standing.take(entry));
        Ok(standing)
    }

    /// A page of what a conversation sees, newest first, this transaction's own entries included: up to `limit` entries
    /// older than the cursor `before` (from the tail, without one).
    pub async fn entries(
        &self,
        conversation: ConversationId,
        before: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        let lineage = self.conversation(conversation).await?.lineage;
        let is_wanted = |entry: &&EntryRecord| {
            before.is_none_or(|before| entry.id < before) && lineage.sees(entry.conversation, entry.id)
        };
        let staged = self.writes.iter().rev().filter_map(|write| match write {
            Write::Entry(entry) => Some(entry),
            _ => None,
        });
        // Ids grow: what is staged is newer than all that is committed.
        let mut page: Vec<_> = staged.filter(is_wanted).take(limit).cloned().collect();
        let rest = limit - page.len();
        if rest > 0 {
            let query = EntryQuery { before, limit: rest, ..EntryQuery::of(self.session.id(), lineage) };
            let committed = self.session.store().entries(query).await?;
            page.extend(committed.into_iter().map(|entry| self.as_purged(entry)));
        }
        Ok(page)
    }
}
