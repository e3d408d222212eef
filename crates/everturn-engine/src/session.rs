//! Sessions: one line of commits, and what was committed.

mod blob;
mod commit;
mod context;
mod document;
mod lease;
mod line;
mod live;
mod mail;
mod opener;
mod reader;
mod state;
mod stranger;
#[cfg(test)]
mod tests;
mod transaction;
mod verify;
pub mod watch;

use std::{
    fmt,
    panic::Location,
    sync::{Arc, OnceLock, PoisonError, Weak},
};

use everturn_core::{
    Error, Result,
    conversation::Conversation,
    id::{ConversationId, Epoch, OwnerId, Seq, SessionId},
    limits::Limits,
    storage::{Batch, Create, Created, Due, Durability, Lease, NewSession, Store, Write},
};
use tokio::sync::{Notify, OwnedMutexGuard, watch as latest};

use crate::{archive::is_half_restored, metrics::span::Spans};
pub use blob::BlobWriter;
pub use context::WorkContext;
use lease::Held;
use line::{Hold, Line};
pub(crate) use live::{Live, facts};
pub use opener::Opener;
pub(crate) use reader::Sendable;
pub(crate) use state::Adopted;
use state::{Read, State};
pub use stranger::SessionReader;
pub(crate) use transaction::check_entry;
pub use transaction::{NewTask, Transaction};
use watch::Watchers;

/// An open session: the right to commit to it, and a cheap handle. Cloning it shares it.
///
/// Promise: one owner at a time. Dropping the last handle makes the session claimable at once in this process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// use everturn_core::{entry::Entry, id::ConversationId, memory::Memory, storage::{NewSession, Store}};
/// use everturn_engine::{Opener, Session, World};
///
/// let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// let session = Session::create(&opener, NewSession::default()).await?;
/// let mut tx = session.begin().await?;
/// tx.append(ConversationId::ROOT, Entry::new("app.note").data("hello"))?;
/// tx.commit().await?;
///
/// let id = session.id();
/// drop(session);
/// assert!(Session::open(&opener, id).await.is_ok());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) id: SessionId,
    pub(crate) opener: Opener,
    pub(crate) line: Arc<tokio::sync::Mutex<Line>>,
    /// Who holds the line.
    holder: std::sync::Mutex<Weak<Hold>>,
    pub(crate) state: std::sync::Mutex<State>,
    /// The last commit; told when a commit was adopted, and when the session is shut.
    pub(crate) head: latest::Sender<Seq>,
    /// Told when a commit changed tasks, and when the session is shut.
    pub(crate) attention: Arc<Notify>,
    hub: Watchers,
    /// Whether its last owner was gone without having given it up.
    is_left_behind: bool,
    lease: Held,
    keeper: OnceLock<lease::Keeper>,
    pub(crate) spans: Spans,
}

impl Session {
    /// Creates a session with its root conversation, and opens it.
    ///
    /// Promise: repeating `new.request` opens the session that it created.
    /// Errors: `Owned` when that session is open elsewhere; what storage says.
    pub async fn create(opener: &Opener, new: NewSession) -> Result<Self> {
        Self::create_and(opener, new, |_| Ok(())).await
    }

    /// Creates a session whose first commit also holds what `stage` stages.
    pub(crate) async fn create_and(
        opener: &Opener,
        new: NewSession,
        stage: impl FnOnce(&mut Stage) -> Result<()>,
    ) -> Result<Self> {
        let claim = opener.claim(SessionId::new(opener.world.clock.now(), &*opener.world.entropy));
        let root = Conversation::new(ConversationId::ROOT, None, claim.now);
        let mut staged = Stage { minted: ConversationId::ROOT.0, writes: vec![Write::Conversation(root)] };
        stage(&mut staged)?;
        let first = Batch {
            session: claim.session,
            owner: opener.owner,
            epoch: Epoch(1),
            seq: Seq(1),
            time: claim.now,
            durability: Durability::Durable,
            minted: staged.minted,
            due: Due::None,
            writes: staged.writes.into(),
        };
        check_new(&new, &opener.limits)?;
        let (store, create) = (opener.store.clone(), Create { new, first, until: claim.until });
        let create = async move { store.create(create).await };
        let lease = |created: &Created| match created {
            Created::New(lease) => Some(*lease),
            Created::Existing(_) => None,
        };
        match lease::take(opener, create, lease).await? {
            (Created::New(lease), Some(held)) => Self::start(opener, lease, held, false).await,
            (Created::Existing(id), _) => Self::open(opener, id).await,
            (Created::New(lease), None) => {
                Err(Error::closed(format!("create session {}: its lease is lost", lease.session)))
            }
        }
    }

    /// Opens a session by its id: takes its lease and reads what is live. Nothing runs until it is asked to.
    ///
    /// Errors: `NotFound`; `Owned` while someone else has it open.
    pub async fn open(opener: &Opener, id: SessionId) -> Result<Self> {
        let row = opener.store.session(id).await?;
        if row.as_ref().is_some_and(is_half_restored) {
            return Err(Error::conflict(format!(
                "open session {id}: it is being brought back from an archive, or that was cut off; restore it again"
            )));
        }
        // Our own lease may be on its way back: that is no death.
        let is_left_behind = row.and_then(|row| row.owner).is_some_and(|(by, _)| by != opener.owner);
        Self::claim(opener, id, is_left_behind).await
    }

    async fn claim(opener: &Opener, id: SessionId, is_left_behind: bool) -> Result<Self> {
        let (store, claim) = (opener.store.clone(), opener.claim(id));
        let claim = async move { store.claim(claim).await };
        match lease::take(opener, claim, |lease| Some(*lease)).await? {
            (lease, Some(held)) => Self::start(opener, lease, held, is_left_behind).await,
            (_, None) => Err(Error::closed(format!("open session {id}: its lease is lost"))),
        }
    }

    /// Opens a session whose lease was taken; it is given up whatever goes wrong.
    async fn start(opener: &Opener, lease: Lease, held: Held, is_left_behind: bool) -> Result<Self> {
        let session = lease.session;
        let read = Read::of(&opener.store, session).await?;
        let inner = Arc::new(Inner {
            id: session,
            opener: opener.clone(),
            line: Arc::new(tokio::sync::Mutex::new(Line { head: lease.head, minted: lease.minted })),
            holder: std::sync::Mutex::default(),
            state: std::sync::Mutex::new(State::new(read)),
            head: latest::Sender::new(lease.head),
            attention: Arc::default(),
            hub: Watchers::default(),
            is_left_behind,
            lease: held,
            keeper: OnceLock::new(),
            spans: Spans::open(session),
        });
        opener.meter.opened(&inner);
        let _first = inner.keeper.set(lease::keep(&inner));
        Ok(Self(inner))
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.0.id
    }

    /// Whether this is another handle to the same open session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How often it was claimed, this time included.
    pub fn epoch(&self) -> Epoch {
        self.0.epoch()
    }

    /// Whether its last owner was gone without having given it up: its process had ended.
    pub(crate) fn was_left_behind(&self) -> bool {
        self.0.is_left_behind
    }

    /// Who owns it.
    pub fn owner(&self) -> OwnerId {
        self.0.opener.owner
    }

    /// The store that it is in.
    pub fn store(&self) -> &Store {
        &self.0.opener.store
    }

    /// The last commit.
    pub fn head(&self) -> Seq {
        *self.0.head.borrow()
    }

    /// Waits its turn in the line of commits and begins a transaction. The line is fair: first come, first served.
    ///
    /// Promise: cancelling a waiting `begin` leaves no trace. A holder that keeps others waiting for longer than ten
    /// seconds is rolled back, and told `Expired` with the place where it began.
    /// Errors: `Closed` or `Fenced` when this handle can write no more, or is closing.
    #[track_caller]
    pub fn begin(&self) -> impl Future<Output = Result<Transaction>> + Send + use<> {
        self.begin_as(Purpose::NewWork, Location::caller())
    }

    /// Begins a transaction that ends work which was admitted before: closing does not refuse it.
    #[track_caller]
    pub(crate) fn begin_last(&self) -> impl Future<Output = Result<Transaction>> + Send + use<> {
        self.begin_as(Purpose::LastWork, Location::caller())
    }

    fn begin_as(
        &self,
        purpose: Purpose,
        at: &'static Location<'static>,
    ) -> impl Future<Output = Result<Transaction>> + Send + use<> {
        let session = self.clone();
        async move {
            session.0.check_admits(purpose)?;
            let line = match session.0.line.clone().try_lock_owned() {
                Ok(line) => line,
                Err(_) => session.0.wait_in_line().await,
            };
            session.0.check_admits(purpose)?;
            let hold = Arc::new(Hold::new(line, session.0.opener.world.clock.now(), at));
            *session.0.holder.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&hold);
            Ok(Transaction::new(session, hold))
        }
    }

    /// Refuses new work, lets the commit under way finish, and gives the lease up. Closing again changes nothing.
    pub async fn close(&self) -> Result<()> {
        self.0.refuse_new_work();
        let line = self.0.wait_in_line().await;
        self.0.shut(Error::closed("its owner closed it"));
        drop(line);
        let Inner { id, opener, .. } = &*self.0;
        opener.store.release(*id, opener.owner, self.epoch()).await
    }
}

impl Session {
    /// Ends the session for good: its contents go, its id is never used again, its watchers end with `Deleted`.
    ///
    /// Promise: all or nothing. Errors: what storage says; the session is as it was then.
    pub async fn delete(&self) -> Result<()> {
        let session = self.clone();
        // In a task of its own: whoever waits may be dropped, and the handle still learns that the session has ended.
        let deleting = tokio::spawn(async move {
            let line = session.0.wait_in_line().await;
            session.0.check_open()?;
            let Inner { id, opener, .. } = &*session.0;
            opener.store.delete(*id, opener.owner, session.epoch()).await?;
            session.0.shut(Error::closed(watch::DELETED));
            drop(line);
            Ok(())
        });
        deleting.await.unwrap_or_else(|fault| Err(Error::closed(format!("deleting was cut off: {fault}"))))
    }
}

/// Why a transaction begins.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    NewWork,
    LastWork,
}

/// What can be said of a new session before a store is asked.
fn check_new(new: &NewSession, limits: &Limits) -> Result<()> {
    if let Some(request) = &new.request {
        limits.check_name("the request id of a session", request)?;
    }
    limits.check("the title", new.title.as_ref().map_or(0, String::len), limits.entry)?;
    transaction::check_labels(&new.labels, limits)
}

/// The first commit of a session, while it is put together.
pub(crate) struct Stage {
    pub(crate) minted: u64,
    pub(crate) writes: Vec<Write>,
}

impl Inner {
    /// How often the session was claimed, up to now.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lease.epoch()
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_admits(Purpose::LastWork)
    }

    fn check_admits(&self, purpose: Purpose) -> Result<()> {
        let state = self.state();
        match &state.shut {
            Some(why) => Err(why.clone()),
            None if state.is_closing && purpose == Purpose::NewWork => Err(Error::closed("it is closing")),
            None => Ok(()),
        }
    }

    /// From now on only work that was admitted before may begin a transaction.
    pub(crate) fn refuse_new_work(&self) {
        self.state().is_closing = true;
    }

    /// Waits for the line; a holder that keeps it too long meanwhile loses it.
    async fn wait_in_line(&self) -> OwnedMutexGuard<Line> {
        let clock = &self.opener.world.clock;
        let mut line = std::pin::pin!(self.line.clone().lock_owned());
        loop {
            // Held weakly while waiting: a holder that is dropped lets go of the line at once.
            let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let left = || holder.upgrade().map_or(line::HOLD_MAX, |holder| holder.left(clock.now()));
            tokio::select! {
                biased;
                line = &mut line => return line,
                () = clock.sleep(left()) => {
                    if let Some(holder) = holder.upgrade().filter(|holder| holder.left(clock.now()).is_zero()) {
                        holder.expire();
                    }
                }
            }
        }
    }

    /// Ends this handle's right to write; the first reason stays.
    pub(crate) fn shut(&self, why: Error) {
        let mut state = self.state();
        if state.shut.is_none() {
            tracing::debug!(session = %self.id, %why, "session shut");
            state.shut = Some(why.clone());
        }
        drop(state);
        self.hub.end(why.into());
        // Wakes everyone who waits for a commit, and whoever runs tasks.
        self.head.send_modify(|_| {});
        self.attention.notify_one();
    }

    /// Gives the session up at once: whatever still runs can commit nothing more.
    pub(crate) fn give_up(&self) {
        self.shut(Error::closed("its last handle was dropped"));
        self.lease.release();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.0.id).field("epoch", &self.0.epoch()).finish()
    }
}
