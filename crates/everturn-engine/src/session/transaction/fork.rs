//! Forks: a conversation that inherits history by reference, and documents by their policies.

use everturn_core::{
    Error, Result,
    conversation::Ownership,
    document::{ForkPolicy, ScopeKey, Value},
    id::{ConversationId, DocumentId, EntryId},
    storage::{DocumentQuery, DocumentRecord, Write},
};

use super::{Committed, Slot, Transaction};

/// A fork of this transaction whose documents follow the parent's until the commit.
pub(super) struct Fork {
    parent: ConversationId,
    child: ConversationId,
    /// Kinds whose value is the parent's when the fork commits.
    current: Vec<String>,
}

/// A document that a fork starts with.
struct Inherited {
    record: DocumentRecord,
    version: u32,
    value: Value,
}

impl Transaction {
    /// Forks a conversation at an entry that it sees: the fork sees all up to and including that entry. No entry is
    /// copied; a document is copied where its fork policy says so.
    ///
    /// Errors: `Invalid` when the conversation does not see the entry; `NotFound` when there is no such conversation.
    pub async fn fork(
        &mut self,
        parent: ConversationId,
        at: EntryId,
        ownership: Ownership,
    ) -> Result<ConversationId> {
        if !self.sees(parent, at).await? {
            let message =
                format!("fork conversation {parent} at entry {at}: the entry is not visible from there");
            return Err(Error::invalid(message));
        }
        let inherited = self.inherited(parent, at).await?;
        let id = ConversationId(self.mint());
        let child = match self.staged_conversation(parent) {
            Some(staged) => staged.fork(id, at, ownership.task(), self.time),
            None => self.session.conversation(parent).await?.fork(id, at, ownership.task(), self.time),
        };
        self.writes.push(Write::Conversation(child));
        let is_current = |one: &&Inherited| one.record.fork == ForkPolicy::Current;
        let current = inherited.iter().filter(is_current).map(|one| one.record.kind.clone()).collect();
        self.forks.push(Fork { parent, child: id, current });
        for Inherited { record, version, value } in inherited {
            let record =
                DocumentRecord { id: DocumentId(self.mint()), scope: ScopeKey::Conversation(id), ..record };
            self.slots.push(Slot::inherited(record, version, value));
        }
        Ok(id)
    }

    async fn inherited(&self, parent: ConversationId, at: EntryId) -> Result<Vec<Inherited>> {
        let mut inherited = self.live(parent, ForkPolicy::Current).await?;
        inherited.extend(self.as_of(parent, at).await?);
        Ok(inherited)
    }

    /// The values of an entry's conversation as of the commit that stores the entry.
    async fn as_of(&self, parent: ConversationId, at: EntryId) -> Result<Vec<Inherited>> {
        if let Some(staged) = self.staged_entry(at) {
            return self.live(staged.conversation, ForkPolicy::AsOf).await;
        }
        let entry = match self.staged_conversation(parent) {
            // A fork of this transaction forks again: the entry is its parent's.
            Some(staged) => {
                let parent = staged.parent.expect("what a new conversation sees is staged or inherited");
                return Box::pin(self.as_of(parent.conversation, at)).await;
            }
            None => self.session.entry(parent, at).await?,
        };
        let query = DocumentQuery {
            session: self.session.id(),
            scope: ScopeKey::Conversation(entry.conversation),
            kind: None,
            at: Some(entry.seq),
        };
        let states = self.session.0.opener.store.documents(query).await?;
        let states = states.iter().filter(|state| state.record.fork == ForkPolicy::AsOf);
        states.map(|state| Committed::fold(state).map(Inherited::from)).collect()
    }

    /// The values of a conversation's documents as they stand in this transaction.
    async fn live(&self, conversation: ConversationId, policy: ForkPolicy) -> Result<Vec<Inherited>> {
        let scope = ScopeKey::Conversation(conversation);
        let mut live = Vec::new();
        for slot in self.slots.iter().filter(|slot| slot.record.scope == scope && slot.record.fork == policy)
        {
            if let Some((version, value)) = slot.value()? {
                live.push(Inherited { record: slot.record.clone(), version, value });
            }
        }
        if self.staged_conversation(conversation).is_none() {
            let query = DocumentQuery { session: self.session.id(), scope, kind: None, at: None };
            for state in self.session.0.opener.store.documents(query).await? {
                let is_edited = self.slots.iter().any(|slot| slot.is(scope, &state.record.kind));
                if state.record.fork == policy && !is_edited {
                    live.push(Committed::fold(&state)?.into());
                }
            }
        }
        Ok(live)
    }

    /// Gives untouched documents of this transaction's forks the value that the parent commits.
    pub(super) fn refresh_forks(&mut self) -> Result<()> {
        for Fork { parent, child, current } in std::mem::take(&mut self.forks) {
            for kind in current {
                let (parent, child) = (ScopeKey::Conversation(parent), ScopeKey::Conversation(child));
                let edited = self.slots.iter().find(|slot| slot.is(parent, &kind)).map(Slot::value);
                let Some((version, value)) = edited.transpose()?.flatten() else {
                    continue;
                };
                self.slots.iter_mut().filter(|slot| slot.is(child, &kind)).for_each(|slot| {
                    slot.refresh(version, value.clone());
                });
            }
        }
        Ok(())
    }
}

impl From<Committed> for Inherited {
    fn from(Committed { record, version, value, .. }: Committed) -> Self {
        Self { record, version, value }
    }
}
