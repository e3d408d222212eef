//! Forks: a conversation that inherits history by reference, and documents by their policies.

use everturn_core::{
    Error, Result,
    conversation::Ownership,
    document::{ForkPolicy, ScopeKey, Value},
    id::{ConversationId, DocumentId, EntryId},
    storage::{DocumentQuery, DocumentRecord, Write},
};

use super::{Committed, Slot, Transaction};

/// A fork of this transaction: some of its documents follow their sources until the commit.
#[derive(Clone)]
pub(super) struct Fork {
    child: ConversationId,
    sources: Vec<Follows>,
}

/// Documents of a policy that have the values which a conversation commits together with the fork.
#[derive(Clone, Copy)]
struct Follows {
    source: ConversationId,
    policy: ForkPolicy,
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
        self.hold.place()?;
        if !self.sees(parent, at).await? {
            let message =
                format!("fork conversation {parent} at entry {at}: the entry is not visible from there");
            return Err(Error::invalid(message));
        }
        let id = ConversationId(self.mint());
        let child = match self.staged_conversation(parent) {
            Some(staged) => staged.fork(id, at, ownership.task(), self.time),
            None => self.session.conversation(parent).await?.fork(id, at, ownership.task(), self.time),
        };
        let mut sources = vec![Follows { source: parent, policy: ForkPolicy::Current }];
        match self.staged_entry(at).map(|entry| entry.conversation) {
            Some(source) => sources.push(Follows { source, policy: ForkPolicy::AsOf }),
            None => {
                for inherited in self.as_of(parent, at).await? {
                    self.inherit(id, inherited);
                }
            }
        }
        self.stage(id.0, Write::Conversation(child));
        let fork = Fork { child: id, sources };
        self.follow(&fork).await?;
        self.forks.push(fork);
        Ok(id)
    }

    /// The values of an entry's conversation as of the commit that stored the entry.
    async fn as_of(&self, parent: ConversationId, at: EntryId) -> Result<Vec<Inherited>> {
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

    fn inherit(&mut self, child: ConversationId, Inherited { record, version, value }: Inherited) {
        let id = DocumentId(self.mint());
        let record = DocumentRecord { id, scope: ScopeKey::Conversation(child), ..record };
        self.slots.push(Slot::inherited(record, version, value));
    }

    /// The values of a conversation's documents as they stand in this transaction.
    async fn live(&self, conversation: ConversationId, policy: ForkPolicy) -> Result<Vec<Inherited>> {
        let scope = ScopeKey::Conversation(conversation);
        let mut live = Vec::new();
        for slot in self.slots.iter().filter(|slot| slot.record.scope == scope && slot.record.fork == policy)
        {
            if let Some((version, value)) = slot.value(self.limits())? {
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

    /// Gives the documents of this transaction's forks that nobody has touched what their sources commit.
    pub(super) async fn refresh_forks(&mut self) -> Result<()> {
        for fork in std::mem::take(&mut self.forks) {
            self.follow(&fork).await?;
        }
        Ok(())
    }

    /// Makes the untouched documents of a fork those that its sources have now.
    async fn follow(&mut self, fork: &Fork) -> Result<()> {
        let scope = ScopeKey::Conversation(fork.child);
        for Follows { source, policy } in &fork.sources {
            let live = self.live(*source, *policy).await?;
            let is_gone = |slot: &Slot| {
                let is_followed =
                    slot.record.scope == scope && slot.record.fork == *policy && slot.is_untouched();
                is_followed && live.iter().all(|one| one.record.kind != slot.record.kind)
            };
            self.slots.retain(|slot| !is_gone(slot));
            for inherited in live {
                match self.slots.iter_mut().find(|slot| slot.is(scope, &inherited.record.kind)) {
                    Some(slot) => slot.refresh(inherited.version, inherited.value),
                    None => self.inherit(fork.child, inherited),
                }
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
