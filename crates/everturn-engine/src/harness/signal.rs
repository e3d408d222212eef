//! Telling a task something, by someone who does not own its session.

use everturn_core::{
    Error, Result,
    id::{SessionId, TaskId},
    json::RawJson,
    storage::{Mail, MailFilter, MailKind, Posted, TaskQuery},
    task::Signal,
};

use super::Harness;
use crate::task::SignalBody;

/// Who asks, where nobody else is named.
const ACTOR: &str = "local";

impl Harness {
    /// Tells a task that something happened, whoever owns its session: the signal lies there as mail, and is taken where
    /// the session runs, now or next. With an open session, [`LiveSession::signal`](super::LiveSession::signal) does it at
    /// once.
    ///
    /// Promise: idempotent by its key. When it returns it survives the power.
    /// Errors: `NotFound` for an unknown session or task; `Conflict` when the task has ended, or other mail lies under the
    /// key; `TooLarge` or `Invalid` for a key, a name or a payload beyond the limits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
    /// # use everturn_core::{id::{ConversationId, TaskId}, memory::Memory, storage::{Posted, Store}};
    /// # use everturn_engine::{Harness, NewTask, SessionSpec};
    /// use everturn_core::{json::RawJson, task::Signal};
    ///
    /// # let harness = Harness::builder(Store::new(Memory::new())).open().await?;
    /// # let session = harness.create(SessionSpec::default()).await?;
    /// # let mut tx = session.begin().await?;
    /// # let task = tx.create_task(NewTask::new(ConversationId::ROOT, "example.payment", 1))?;
    /// # tx.commit().await?;
    /// let paid = Signal { name: "paid".into(), payload: RawJson::parse("12")? };
    /// assert_eq!(harness.signal(session.id(), "invoice 7", task, paid.clone()).await?, Posted::New);
    /// assert_eq!(harness.signal(session.id(), "invoice 7", task, paid).await?, Posted::Waiting);
    /// # Ok(()) }
    /// ```
    pub async fn signal(
        &self,
        session: SessionId,
        key: &str,
        task: TaskId,
        signal: Signal,
    ) -> Result<Posted> {
        let opener = self.opener();
        opener.limits.check_name("the name of a signal", &signal.name)?;
        let Signal { name, payload } = signal;
        let body = RawJson::of(&SignalBody { task, name, payload })?;
        let only = MailFilter::Key(key.into());
        match opener.store.mail(session, only).await?.pop() {
            // What was taken before may have ended the task.
            Some(known) if known.mail.kind == MailKind::Signal && known.mail.body == body => {}
            Some(_) => {
                return Err(Error::conflict(format!(
                    "signal task {task} under key {key:?}: it is the key of other mail"
                )));
            }
            None => self.check_signalled(session, task).await?,
        }
        let mail = Mail {
            session,
            key: key.into(),
            kind: MailKind::Signal,
            conversation: None,
            request: None,
            actor: ACTOR.into(),
            time: opener.world.clock.now(),
            body,
        };
        opener.post(mail).await
    }

    /// Proves that there is a task to be told something.
    async fn check_signalled(&self, session: SessionId, id: TaskId) -> Result<()> {
        let query = TaskQuery::one(session, id);
        let task = self.opener().store.tasks(query).await?.pop();
        let task = task.ok_or_else(|| {
            Error::not_found(format!("signal task {id}: session {session} has no such task"))
        })?;
        match task.outcome() {
            Some(outcome) => {
                let ended = if task.is_live() { "is ending" } else { "has ended" };
                Err(Error::conflict(format!("signal task {id}: it {ended}, {outcome}")))
            }
            None => Ok(()),
        }
    }
}
