//! The memory store: the reference of the storage port.

mod session;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    conversation::Conversation,
    entry::EntryRecord,
    error::{Error, ErrorKind, Result},
    id::{ConversationId, Epoch, OwnerId, SessionId},
    storage::{
        Batch, Claim, Committed, Create, Created, DocumentQuery, DocumentState, EntryQuery, Lease,
        SessionQuery, SessionRow, Stats, Storage, SubmissionQuery, TaskQuery,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
};
use session::Session;

/// A store in memory. It is gone when the last handle is dropped.
///
/// ```
/// use everturn_core::{memory::Memory, storage::Store};
/// let store = Store::new(Memory::new());
/// ```
#[derive(Default)]
pub struct Memory(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    sessions: BTreeMap<SessionId, Session>,
    requests: HashMap<String, SessionId>,
    stats: Stats,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, id: SessionId, read: impl FnOnce(&Session) -> T) -> Result<T> {
        self.tables().sessions.get(&id).map(read).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: SessionId) -> Error {
    Error::not_found(format!("look for session {id}: the store has no such session"))
}

impl Tables {
    fn session(&mut self, id: SessionId) -> Result<&mut Session> {
        self.sessions.get_mut(&id).ok_or_else(|| unknown(id))
    }

    fn count(&mut self, batch: &Batch) {
        self.stats.commits += 1;
        self.stats.groups += 1;
        if batch.durability == crate::storage::Durability::Durable {
            self.stats.syncs += 1;
        }
    }
}

impl Storage for Memory {
    async fn create(&self, create: Create) -> Result<Created> {
        let mut tables = self.tables();
        if let Some(id) = create.new.request.as_ref().and_then(|request| tables.requests.get(request)) {
            return Ok(Created::Existing(*id));
        }
        let id = create.first.session;
        if tables.sessions.contains_key(&id) {
            return Err(Error::conflict(format!("create session {id}: the id is in use")));
        }
        let mut session = Session::new(&create);
        session.commit(&create.first)?;
        tables.count(&create.first);
        let lease = session.lease(create.first.owner, create.until);
        if let Some(request) = create.new.request {
            tables.requests.insert(request, id);
        }
        tables.sessions.insert(id, session);
        Ok(Created::New(lease))
    }

    async fn claim(&self, claim: Claim) -> Result<Lease> {
        let mut tables = self.tables();
        let session = tables.session(claim.session)?;
        if let Some((by, until)) = session.row.owner
            && until > claim.now
        {
            let message = format!("claim session {}: {by} owns it until {until}", claim.session);
            return Err(Error::new(ErrorKind::Owned { by, until }, message));
        }
        session.row.epoch = Epoch(session.row.epoch.0 + 1);
        Ok(session.lease(claim.owner, claim.until))
    }

    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease> {
        let mut tables = self.tables();
        let session = tables.session(claim.session)?;
        session.check_owner(claim.owner, epoch)?;
        Ok(session.lease(claim.owner, claim.until))
    }

    async fn release(&self, id: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let mut tables = self.tables();
        let session = tables.session(id)?;
        if session.check_owner(owner, epoch).is_ok() {
            session.row.owner = None;
        }
        Ok(())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let mut tables = self.tables();
        let committed = tables.session(batch.session)?.commit(&batch)?;
        if committed == Committed::Stored {
            tables.count(&batch);
        }
        Ok(committed)
    }

    async fn session(&self, id: SessionId) -> Result<Option<SessionRow>> {
        Ok(self.tables().sessions.get(&id).map(|session| session.row.clone()))
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        let tables = self.tables();
        let rows = tables.sessions.iter().rev();
        let page = rows.filter(|(id, _)| query.after.is_none_or(|after| **id < after)).take(query.limit);
        Ok(page.map(|(_, session)| session.row.clone()).collect())
    }

    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>> {
        self.read(session, |session| session.conversations.values().cloned().collect())
    }

    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>> {
        self.read(session, |session| session.conversations.get(&id).cloned())
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>> {
        self.read(query.session, |session| session.entries(&query))
    }

    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>> {
        self.read(query.session, |session| session.documents(&query))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>> {
        self.read(query.session, |session| session.tasks(&query))
    }

    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>> {
        self.read(query.session, |session| session.submissions(&query.only))
    }

    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>> {
        self.read(session, |session| session.usage.clone())
    }

    async fn owner(&self) -> Option<OwnerId> {
        None
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.tables().stats)
    }
}
