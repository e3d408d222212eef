//! A worker's own handle of a session: it knows the transaction that it has open.

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use everturn_core::{Error, ErrorKind, Result};

use super::{Purpose, Session, Transaction, line::Hold};

/// What one piece of work (a task's step, a call) reaches its session through. Clones share what they know.
///
/// Promise: whoever holds a transaction of this context and asks it for another is told `Nested`, instead of waiting for
/// itself.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{ErrorKind, memory::Memory, storage::{NewSession, Store}};
/// # use everturn_engine::{Opener, Session, World};
/// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// # let session = Session::create(&opener, NewSession::default()).await?;
/// let context = session.context_of_work();
/// let tx = context.begin().await?;
/// let nested = context.begin().await.err().unwrap();
/// assert!(matches!(nested.kind(), ErrorKind::Nested));
/// drop(tx);
/// assert!(context.begin().await.is_ok());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct WorkContext {
    session: Session,
    purpose: Purpose,
    open: Arc<Mutex<Weak<Hold>>>,
}

impl Session {
    /// A context for one piece of work.
    pub fn context_of_work(&self) -> WorkContext {
        WorkContext { session: self.clone(), purpose: Purpose::NewWork, open: Arc::default() }
    }

    /// A context for work that was admitted before: closing does not refuse it.
    pub(crate) fn context_of_admitted_work(&self) -> WorkContext {
        WorkContext { purpose: Purpose::LastWork, ..self.context_of_work() }
    }
}

impl WorkContext {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Begins a transaction, as [`Session::begin`] does.
    ///
    /// Errors: `Nested` while one of this context is open, naming where it began.
    #[track_caller]
    pub fn begin(&self) -> impl Future<Output = Result<Transaction>> + Send + use<> {
        let (context, at) = (self.clone(), Location::caller());
        async move { context.begin_at(at).await }
    }

    pub(crate) async fn begin_at(&self, at: &'static Location<'static>) -> Result<Transaction> {
        self.check_nested("begin a transaction")?;
        let tx = self.session.begin_as(self.purpose, at).await?;
        self.holds(&tx);
        Ok(tx)
    }

    /// Knows a transaction as one of this context.
    pub(crate) fn holds(&self, tx: &Transaction) {
        // Another clone may have been faster: two that waited hold the line one after the other.
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = tx.hold();
    }

    /// Rolls back a transaction that this context has open, unless it is this one.
    pub(crate) fn expire_but(&self, kept: Option<&Transaction>) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let is_kept = |hold: &Arc<Hold>| kept.is_some_and(|tx| tx.is_held_by(hold));
        if let Some(hold) = open.filter(|hold| hold.is_open() && !is_kept(hold)) {
            hold.give_up();
        }
    }

    /// Proves that nothing of this context would wait for itself.
    ///
    /// Errors: `Nested`.
    pub fn check_nested(&self, attempted: &str) -> Result<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match open.filter(|hold| hold.is_open()) {
            None => Ok(()),
            Some(hold) => Err(Error::new(
                ErrorKind::Nested,
                format!(
                    "{attempted}: this context has a transaction open, begun at {}; use that one, or end it first",
                    hold.at()
                ),
            )),
        }
    }
}

impl fmt::Debug for WorkContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkContext").field("session", &self.session).finish()
    }
}
