//! Reading a session: what was committed, from memory where it is there and from the store where it is not.

use std::sync::Arc;

use everturn_core::{
    Error, Result,
    approval::ApprovalRecord,
    compaction::tokens_of,
    context::Context,
    conversation::{Conversation, Lineage},
    document::{Document, History, Scope, ScopeKey},
    entry::EntryRecord,
    id::{ApprovalId, ConversationId, EntryId},
    message::Message,
    prompt::Standing,
    storage::{ApprovalQuery, DocumentQuery, EntryQuery, Only, Order},
    tool::ToolSpec,
    usage::{Total, UsageRow},
};

use super::{Session, document::Committed, watch::DocumentView};

/// What of a conversation goes into a request.
pub(crate) struct Sendable {
    pub(crate) messages: Arc<Vec<Arc<Message>>>,
    pub(crate) tools: Arc<[ToolSpec]>,
}

impl Sendable {
    fn of(context: &mut Context) -> Result<Self> {
        context.check()?;
        Ok(Self { messages: context.messages().clone(), tools: context.standing().prompt.tools.clone() })
    }
}

impl Session {
    /// A conversation by its id.
    ///
    /// Errors: `NotFound`.
    pub async fn conversation(&self, id: ConversationId) -> Result<Arc<Conversation>> {
        if let Some(conversation) = self.0.state().conversations.get(&id) {
            return Ok(conversation.clone());
        }
        let found = self.0.opener.store.conversation(self.id(), id).await?;
        let conversation = Arc::new(found.ok_or_else(|| {
            Error::not_found(format!("look for conversation {id} of session {}: there is none", self.id()))
        })?);
        // Conversations never change, so that a cache of them is never old.
        self.0.state().conversations.insert(id, conversation.clone());
        Ok(conversation)
    }

    /// A page of what a conversation sees, newest first, heads and edits notwithstanding: up to `limit` entries older
    /// than the cursor `before` (from the tail, without one).
    pub async fn entries(
        &self,
        conversation: ConversationId,
        before: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        let lineage = self.conversation(conversation).await?.lineage.clone();
        self.0.opener.store.entries(EntryQuery { before, limit, ..EntryQuery::of(self.id(), lineage) }).await
    }

    /// What a conversation sends to a model at a cutoff (the tail, without one).
    pub async fn context(&self, conversation: ConversationId, cutoff: Option<EntryId>) -> Result<Context> {
        let lineage = self.conversation(conversation).await?.lineage.clone();
        self.context_of(match cutoff {
            Some(cutoff) => lineage.capped(cutoff),
            None => lineage,
        })
        .await
    }

    /// What is sent of all that a lineage sees.
    async fn context_of(&self, lineage: Lineage) -> Result<Context> {
        Ok(Context::derive(&self.visible(lineage, None).await?))
    }

    /// What a lineage sees, oldest first, as far as a context may need it: from where it begins, or from where its newest
    /// head says that it does.
    pub(crate) async fn visible(&self, lineage: Lineage, begin: Option<EntryId>) -> Result<Vec<EntryRecord>> {
        let store = &self.0.opener.store;
        let begin = match begin {
            Some(begin) => Some(begin),
            None => {
                let heads =
                    EntryQuery { only: Only::Heads, limit: 1, ..EntryQuery::of(self.id(), lineage.clone()) };
                let newest = store.entries(heads).await?;
                newest.first().and_then(|entry| entry.head.map(|head| head.entry(entry.id)))
            }
        };
        let all = EntryQuery { order: Order::OldestFirst, ..EntryQuery::of(self.id(), lineage) };
        store.entries(all.from(begin)).await
    }

    /// What is sent at a cutoff, proven to be legal. It comes from memory unless something that came behind the cutoff
    /// changes what the conversation says.
    pub(crate) async fn sendable(&self, conversation: ConversationId, cutoff: EntryId) -> Result<Sendable> {
        if let Some(context) = self.0.state().contexts.get_mut(&conversation)
            && context.stands_at(cutoff)
        {
            return Sendable::of(context);
        }
        let mut context = self.context(conversation, None).await?;
        if !context.stands_at(cutoff) {
            return Sendable::of(&mut self.context(conversation, Some(cutoff)).await?);
        }
        let sendable = Sendable::of(&mut context)?;
        // What is kept must stand at the tail, and only the holder of the line knows that nothing came behind it.
        let line = self.0.wait_in_line().await;
        let newest = self.entries(conversation, None, 1).await?;
        if newest.first().map(|entry| entry.id) == context.newest() {
            self.0.state().keep_context(conversation, context);
        }
        drop(line);
        Ok(sendable)
    }

    /// What the model of a conversation has been told beside the messages, up to the tail; for the holder of the line, who
    /// knows that nothing comes behind it.
    pub(super) async fn standing(&self, conversation: ConversationId) -> Result<Standing> {
        if let Some(context) = self.0.state().contexts.get(&conversation) {
            return Ok(context.standing().clone());
        }
        let context = self.context(conversation, None).await?;
        let standing = context.standing().clone();
        self.0.state().keep_context(conversation, context);
        Ok(standing)
    }

    /// Keeps the context of a conversation at hand, where there is room for it; for the holder of the line.
    async fn warm(&self, conversation: ConversationId) -> Result<()> {
        let is_known = self.0.state().contexts.contains_key(&conversation);
        if !is_known {
            let context = self.context(conversation, None).await?;
            self.0.state().keep_context(conversation, context);
        }
        Ok(())
    }

    /// About how many tokens a conversation has as a request; for the holder of the line.
    pub(super) async fn tokens(&self, conversation: ConversationId) -> Result<u64> {
        self.warm(conversation).await?;
        Ok(self.0.state().contexts.get(&conversation).map_or(0, tokens_of))
    }

    /// The newest response that is sent, and what comes behind it; for the holder of the line.
    pub(super) async fn context_tail(&self, conversation: ConversationId) -> Result<Vec<Arc<Message>>> {
        self.warm(conversation).await?;
        let state = self.0.state();
        let Some(context) = state.contexts.get(&conversation) else { return Ok(Vec::new()) };
        let messages = context.messages();
        let is_response = |message: &Arc<Message>| matches!(**message, Message::Assistant(_));
        let at = messages.iter().rposition(is_response).unwrap_or(messages.len());
        Ok(messages[at..].to_vec())
    }

    /// The same of a conversation that is not stored yet, for all that it inherits.
    pub(super) async fn inherited_standing(&self, lineage: Lineage) -> Result<Standing> {
        Ok(self.context_of(lineage).await?.standing().clone())
    }

    /// A document's committed value; none where there is no such document. Never creates one.
    ///
    /// Errors: `Newer`, or `Invalid` when it does not read as a `T`.
    pub async fn snapshot<T: Document>(&self, scope: T::Scope) -> Result<Option<T>> {
        match self.committed(scope.key(), T::KIND).await? {
            Some(committed) => committed.read().map(Some),
            None => Ok(None),
        }
    }

    /// A document's value as of the commit that stored an entry; none where there was no such document then. Works
    /// from a fork for the entries that it inherits.
    ///
    /// Errors: `NotFound` when the conversation does not see the entry; `Invalid` for a type whose past is not kept.
    pub async fn snapshot_as_of<T: Document<Scope = ConversationId>>(
        &self,
        conversation: ConversationId,
        entry: EntryId,
    ) -> Result<Option<T>> {
        if T::HISTORY == History::Latest {
            let kind = T::KIND;
            return Err(Error::invalid(format!(
                "read document {kind} as of entry {entry}: its history is `latest`, only the newest value is kept"
            )));
        }
        let entry = self.entry(conversation, entry).await?;
        let query = DocumentQuery {
            session: self.id(),
            scope: ScopeKey::Conversation(entry.conversation),
            kind: Some(T::KIND.into()),
            at: Some(entry.seq),
        };
        match self.0.opener.store.documents(query).await?.first() {
            Some(state) => Committed::fold(state)?.read().map(Some),
            None => Ok(None),
        }
    }

    /// The documents that a scope has, whether or not their types are known, in the order in which they were created.
    pub async fn documents(&self, scope: ScopeKey) -> Result<Vec<DocumentView>> {
        DocumentView::all(self.store(), self.id(), scope).await
    }

    /// An entry that a conversation sees.
    ///
    /// Errors: `NotFound`.
    pub async fn entry(&self, conversation: ConversationId, id: EntryId) -> Result<EntryRecord> {
        let seen_by = self.conversation(conversation).await?;
        let newest = self.0.state().newest.find(|entry| entry.id == id);
        if let Some(entry) = newest.filter(|entry| seen_by.lineage.sees(entry.conversation, id)) {
            return Ok(EntryRecord::clone(&entry));
        }
        let query = EntryQuery::one(self.id(), &seen_by.lineage, id);
        self.0.opener.store.entries(query).await?.pop().ok_or_else(|| {
            Error::not_found(format!(
                "look for entry {id} in conversation {conversation}: it does not see one"
            ))
        })
    }

    /// An approval, open or not.
    ///
    /// Errors: `NotFound` when there is none, or it was trimmed.
    pub async fn approval(&self, id: ApprovalId) -> Result<ApprovalRecord> {
        if let Some(open) = self.0.state().live.approval(id) {
            return Ok(ApprovalRecord::clone(open));
        }
        let query = ApprovalQuery { limit: 1, ..ApprovalQuery::of(self.id()).from(id) };
        let found = self.store().approvals(query).await?.pop().filter(|row| row.record.id == id);
        found.map(|row| row.record).ok_or_else(|| {
            Error::not_found(format!("look for approval {id} of session {}: there is none", self.id()))
        })
    }

    /// The approvals that are open, oldest first.
    pub fn open_approvals(&self) -> Vec<Arc<ApprovalRecord>> {
        self.0.state().live.approvals().cloned().collect()
    }

    /// The ledger: one row per request to a provider, oldest first.
    pub async fn usage(&self) -> Result<Vec<UsageRow>> {
        self.0.opener.store.usage(self.id()).await
    }

    /// What a conversation's own requests cost. A fork starts at nothing.
    pub async fn usage_of(&self, conversation: ConversationId) -> Result<Total> {
        Ok(self.usage().await?.iter().filter(|row| row.conversation == conversation).collect())
    }

    /// A document's committed value, from memory where it is there.
    pub(crate) async fn committed(&self, scope: ScopeKey, kind: &str) -> Result<Option<Arc<Committed>>> {
        let key = (scope, kind.to_owned());
        if let Some(known) = self.0.state().documents.get(&key) {
            return Ok(known.clone());
        }
        let head = self.head();
        let query = DocumentQuery { session: self.id(), scope, kind: Some(kind.into()), at: None };
        let found = self.0.opener.store.documents(query).await?;
        let committed = found.first().map(Committed::fold).transpose()?.map(Arc::new);
        let mut state = self.0.state();
        // A commit that came meanwhile may have changed the document.
        if self.head() == head {
            state.documents.entry(key).or_insert_with(|| committed.clone());
        }
        Ok(committed)
    }
}
