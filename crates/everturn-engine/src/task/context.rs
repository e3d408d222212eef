//! What a step reaches its session through.

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use everturn_core::{
    CancelToken, Error, Result,
    clock::Timestamp,
    conversation::Conversation,
    document::{Document, Value},
    entry::EntryRecord,
    id::{ConversationId, EntryId, SessionId, TaskId},
    json::RawJson,
    limits::Limits,
    storage::{Part, TaskQuery},
    task::{TaskOutcome, TaskRecord, Woken},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Runner, Task, TaskError, trouble::is_loss};
use crate::{
    NewTask, Registry, Session, Transaction, WorkContext,
    watch::{DocumentWatch, Start, Watch},
};

/// How often a memo is offered anew whose transaction was lost.
const KEPT_MAX: u32 = 100;

/// What a task last said of its progress: a document of the task, written by [`TaskContext::report`].
///
/// ```
/// use everturn_engine::task::Report;
/// let report = Report { value: serde_json::json!({"done": 3, "of": 10}) };
/// assert_eq!(report.value["done"], 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.report", version = 1, scope = "task", crate = "everturn_core")]
pub struct Report {
    /// What it said.
    pub value: Value,
}

/// What one run of a task's code reaches its session through. Clones share what they know.
///
/// Promise: when the run is over, also by being given up, it refuses everything.
///
/// ```
/// use everturn_engine::task::{TaskContext, TaskError};
///
/// async fn quote(cx: &TaskContext) -> Result<u64, TaskError> {
///     let cents = cx.memo("quote", || async { Ok::<u64, TaskError>(1_250) }).await?;
///     cx.report(&format!("{cents} cents")).await?;
///     Ok(cents)
/// }
/// ```
#[derive(Clone)]
pub struct TaskContext(Arc<Inner>);

struct Inner {
    runner: Weak<Runner>,
    session: Session,
    work: WorkContext,
    id: TaskId,
    conversation: ConversationId,
    woken: Option<Woken>,
    cancel: CancelToken,
    registry: Arc<Registry>,
    is_over: AtomicBool,
    /// The transaction of the commit that the step runs in.
    lent: Mutex<Option<Transaction>>,
    is_joined: AtomicBool,
}

impl TaskContext {
    pub(super) fn new(
        runner: &Arc<Runner>,
        task: &TaskRecord,
        registry: Arc<Registry>,
        cancel: CancelToken,
    ) -> Self {
        Self(Arc::new(Inner {
            runner: Arc::downgrade(runner),
            session: runner.session.clone(),
            work: runner.session.context_of_admitted_work(),
            id: task.id,
            conversation: task.conversation,
            woken: task.woken.clone(),
            cancel,
            registry,
            is_over: AtomicBool::new(false),
            lent: Mutex::default(),
            is_joined: AtomicBool::new(false),
        }))
    }

    /// The task.
    pub fn id(&self) -> TaskId {
        self.0.id
    }

    /// The conversation that it works for.
    pub fn conversation(&self) -> ConversationId {
        self.0.conversation
    }

    /// The session.
    pub fn session_id(&self) -> SessionId {
        self.0.session.id()
    }

    /// Fires when the step should end: the task was told to stop, its deadline has passed, or the session closes.
    pub fn cancel(&self) -> &CancelToken {
        &self.0.cancel
    }

    /// Why the task was told to stop, if it was.
    pub fn abort_reason(&self) -> Option<String> {
        self.record().and_then(|task| task.abort.clone())
    }

    /// The present moment, by the session's clock.
    pub fn now(&self) -> Timestamp {
        self.0.session.0.opener.world.clock.now()
    }

    /// A name for an effect of this task that is the same each time it is asked for, also after a crash and on another
    /// machine: an idempotency key for the far side.
    pub fn key(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.session_id(), self.0.id)
    }

    /// What ended the wait for a signal that led to this step: the signal, or that the time was up.
    pub fn woken_by(&self) -> Option<&Woken> {
        self.0.woken.as_ref()
    }

    /// What was installed when this run began.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }

    /// Says that the effect of this step begins now.
    pub fn enter(&self) {
        if let Some(runner) = self.0.runner.upgrade() {
            runner.enter(self.0.id);
        }
    }

    /// Whether an earlier run of this step may have had its effect: one of this process that had said
    /// [`enter`](Self::enter), or any of an earlier owner of the session.
    pub fn was_entered(&self) -> bool {
        self.0.runner.upgrade().is_none_or(|runner| runner.was_entered(self.0.id))
    }

    /// Whether this owner of the session has begun the effect of this step.
    pub(crate) fn was_entered_here(&self) -> bool {
        self.0.runner.upgrade().is_some_and(|runner| runner.was_entered_here(self.0.id))
    }

    /// Whether an earlier owner of the session may have run this step.
    pub(crate) fn was_carried(&self) -> bool {
        self.0.runner.upgrade().is_none_or(|runner| runner.is_carried(self.0.id))
    }

    /// Begins a transaction of the session. [`Step::with`](super::Step::with) stores it together with the move.
    ///
    /// Errors: `Nested` while one of this context is open; `Closed` when the run is over.
    #[track_caller]
    pub fn begin(&self) -> impl Future<Output = Result<Transaction>> + Send + use<> {
        let (cx, at) = (self.clone(), Location::caller());
        async move {
            cx.check("begin a transaction")?;
            let lent = cx.lent().take();
            let tx = match lent {
                Some(tx) => tx,
                None => cx.0.work.begin_at(at).await?,
            };
            cx.0.work.holds(&tx);
            // It may have waited for longer than its run.
            cx.check("begin a transaction").map(|()| tx)
        }
    }

    /// What `make` gave the first time, in whichever run of the task: stored before it is returned, gone when the task
    /// ends.
    ///
    /// Promise: the first value that is stored wins, and is never lost; `make` runs again only if it was cut off before
    /// that.
    /// Errors: what `make` gives; `Nested` inside a transaction of this context; `Invalid` for a value that cannot be kept,
    /// `TooLarge` where it is over the limit of an entry, or all memos of the task are over that of a document.
    pub async fn memo<V, E, Made>(&self, name: &str, make: impl FnOnce() -> Made) -> Result<V, TaskError>
    where
        V: Serialize + DeserializeOwned,
        E: Into<TaskError>,
        Made: Future<Output = Result<V, E>>,
    {
        let attempted = format!("memo {name} of task {}", self.0.id);
        self.check(&attempted)?;
        self.0.work.check_nested(&attempted)?;
        self.limits().check_name("the name of a memo", name)?;
        let known = self.record().and_then(|task| task.memos.get(name).cloned());
        if let Some(known) = known {
            return Ok(known.read()?);
        }
        let made = make().await.map_err(Into::into)?;
        let json = RawJson::checked(&attempted, &made, self.limits())?;
        let kept = self.record().map_or(0, |task| task.memos.values().map(|memo| memo.get().len()).sum());
        let all = format!("the memos of task {}", self.0.id);
        self.limits().check(&all, kept + json.get().len(), self.limits().document)?;
        Ok(match self.keep_memo(name, json).await? {
            Some(first) => first.read()?,
            None => made,
        })
    }

    /// Stores a memo; gives the one that was there before.
    async fn keep_memo(&self, name: &str, memo: RawJson) -> Result<Option<RawJson>> {
        for tries in 1_u32.. {
            self.check("keep a memo")?;
            let mut tx = self.0.session.begin_last().await?;
            let Some(task) = tx.task(self.0.id).filter(|task| task.is_live()) else {
                return Err(self.over("keep a memo"));
            };
            if let Some(first) = task.memos.get(name) {
                return Ok(Some(first.clone()));
            }
            let mut task = TaskRecord::clone(&task);
            task.memos.insert(name.into(), memo.clone());
            tx.put_task(task);
            match tx.commit_until(self.closing()).await {
                // Nothing was stored, and what was made must not be made again.
                Err(error) if is_loss(&error) && tries < KEPT_MAX => tokio::task::yield_now().await,
                stored => return stored.map(|_| None),
            }
        }
        Err(self.over("keep a memo"))
    }

    /// Says how far the task is, to whoever looks. The newest report is kept until the task ends; a power cut may take it.
    ///
    /// Errors: `Nested` inside a transaction of this context; what storage says.
    pub async fn report(&self, progress: &impl Serialize) -> Result<()> {
        let attempted = format!("report of task {}", self.0.id);
        self.check(&attempted)?;
        self.0.work.check_nested(&attempted)?;
        let value = RawJson::checked(&attempted, progress, self.limits())?.read()?;
        let mut tx = self.0.session.begin_last().await?.relaxed();
        tx.doc::<Report>(self.0.id).await?.value = value;
        tx.commit().await.map(drop)
    }

    /// A task of another kind, below this one. [`Transaction::create_task`] creates it.
    ///
    /// Errors: `Invalid` when the input has no JSON form.
    pub fn child<T: Task>(&self, input: &T::Input) -> Result<NewTask> {
        Ok(NewTask { owner: Some(self.0.id), ..NewTask::of::<T>(self.0.conversation, input)? })
    }

    /// The tasks that this one owns, ended ones included, oldest first.
    pub async fn children(&self) -> Result<Vec<TaskRecord>> {
        self.check("look for children")?;
        let (session, owner) = (self.session_id(), Some(self.0.id));
        self.0.session.store().tasks(TaskQuery { session, live: false, ids: None, owner }).await
    }

    /// How a task ended; none while it lives. A step that has joined the commit that ends it asks the
    /// [transaction](Transaction::outcome).
    ///
    /// Errors: `NotFound` when there is no such task.
    pub async fn outcome(&self, id: TaskId) -> Result<Option<TaskOutcome>> {
        self.check("look for an outcome")?;
        let session = self.session_id();
        let query = TaskQuery::one(session, id);
        let found = self.0.session.store().tasks(query).await?.pop();
        let task = found.ok_or_else(|| {
            Error::not_found(format!("look for the outcome of task {id}: there is no such task"))
        })?;
        Ok(task.outcome().filter(|_| !task.is_live()).cloned())
    }

    /// A document's committed value, as [`Session::snapshot`] gives it.
    pub async fn snapshot<T: Document>(&self, scope: T::Scope) -> Result<Option<T>> {
        self.check("read a document")?;
        self.0.session.snapshot(scope).await
    }

    /// A conversation by its id.
    ///
    /// Errors: `NotFound`.
    pub async fn conversation_of(&self, id: ConversationId) -> Result<Arc<Conversation>> {
        self.check("look for a conversation")?;
        self.0.session.conversation(id).await
    }

    /// A page of what a conversation sees, as [`Session::entries`] gives it.
    pub async fn entries(
        &self,
        conversation: ConversationId,
        before: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryRecord>> {
        self.check("read entries")?;
        self.0.session.entries(conversation, before, limit).await
    }

    /// Follows a document of the session, as [`Session::watch_doc`] does.
    pub fn watch_doc<T: Document>(
        &self,
        scope: T::Scope,
        from: impl Into<Start>,
    ) -> Result<DocumentWatch<T>> {
        self.check("watch a document")?;
        Ok(self.0.session.watch_doc(scope, from))
    }

    /// Follows a part of the session, as [`Session::watch`] does.
    pub fn watch(&self, part: Part, from: impl Into<Start>) -> Result<Watch> {
        self.check("watch")?;
        Ok(self.0.session.watch(part, from))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.session.0.opener.limits
    }

    /// The session, for built-in tasks.
    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    /// Whether the session closes.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing().is_cancelled()
    }

    fn closing(&self) -> CancelToken {
        self.0.runner.upgrade().map_or_else(CancelToken::new, |runner| runner.closing.clone())
    }

    fn record(&self) -> Option<Arc<TaskRecord>> {
        self.0.session.0.state().live.task(self.0.id).cloned()
    }

    fn check(&self, attempted: &str) -> Result<()> {
        match self.0.is_over.load(Ordering::SeqCst) {
            true => Err(self.over(attempted)),
            false => Ok(()),
        }
    }

    fn over(&self, attempted: &str) -> Error {
        let id = self.0.id;
        Error::closed(format!("{attempted}: this run of task {id} is over"))
    }

    fn lent(&self) -> std::sync::MutexGuard<'_, Option<Transaction>> {
        self.0.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends the transaction of the commit that the step runs in.
    pub(super) fn lend(&self, tx: Transaction) {
        self.0.is_joined.store(true, Ordering::SeqCst);
        self.0.work.holds(&tx);
        *self.lent() = Some(tx);
    }

    /// Takes back what was lent and not taken.
    pub(super) fn take_back(&self) -> Option<Transaction> {
        self.lent().take()
    }

    /// Ends the run: nothing goes through this context any more, and a transaction that it has left open is rolled back,
    /// but for the one that the move holds.
    pub(super) fn end(&self, moves: Option<&Transaction>) {
        self.0.is_over.store(true, Ordering::SeqCst);
        // The commit that a step has joined goes on without it.
        if !self.0.is_joined.load(Ordering::SeqCst) {
            self.0.work.expire_but(moves);
        }
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext").field("task", &self.0.id).field("session", &self.0.session).finish()
    }
}
