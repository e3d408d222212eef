//! Asking something of a session: at once where nobody has it open, else by mail, whose receipt is waited for.

use std::time::Duration;

use everturn::{
    ErrorKind, Letter, LiveSession, Sender, Taking,
    id::{ConversationId, SessionId, TaskId},
    storage::{Receipt, TaskQuery},
    task::TaskOutcome,
};

use crate::{
    args::Where,
    exit::{Exit, Failure},
    host::{Host, current},
};

/// How long what was asked is waited for.
const WAIT: Duration = Duration::from_secs(7);
/// How long the doorbell is trusted.
const POLL: Duration = Duration::from_millis(500);

/// What is asked of a session.
pub(crate) struct Asking {
    pub(crate) session: SessionId,
    pub(crate) letter: Letter,
    /// The sender's own name of it.
    pub(crate) key: String,
    pub(crate) then: Then,
}

/// What follows where this process takes it, since nobody else has the session open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing is run.
    Rest,
    /// What was asked is worked off, unless other work would begin to run with it.
    Work,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// This process did it, and nobody has the session open now.
    Here(Option<u64>),
    /// It was done where the session runs.
    There(Option<u64>),
}

impl Came {
    /// The id of what came of it.
    pub(crate) fn id(self) -> Option<u64> {
        match self {
            Self::Here(id) | Self::There(id) => id,
        }
    }

    /// How the work goes on that it leads to.
    pub(crate) fn goes_on(self, session: SessionId) -> String {
        match self {
            Self::Here(_) => format!("nobody runs the session: `everturn resume {session}` goes on"),
            Self::There(_) => format!("it goes on where the session runs (`everturn show {session}`)"),
        }
    }
}

/// Asks. What is not done within some seconds waits for whoever opens the session: that is told, and is no failure; there
/// is nothing more to say then.
pub(crate) async fn ask(host: &Host, asking: Asking) -> Result<Option<Came>, Failure> {
    match host.harness.open_session(asking.session).await {
        Ok(session) => {
            let taken = take(host, &session, asking).await;
            // What was taken is stored. A lease that could not be given back ends with this process.
            let _ = session.close().await;
            taken.map(|id| Some(Came::Here(id)))
        }
        Err(error) if matches!(error.kind(), ErrorKind::Owned { .. }) => post(host, asking).await,
        Err(error) => Err(crate::host::explain(error)),
    }
}

async fn take(host: &Host, session: &LiveSession, asking: Asking) -> Result<Option<u64>, Failure> {
    let Asking { letter, then, .. } = asking;
    let taking = Taking { runs: false, ..Taking::default() };
    let id = session.take(letter, taking).await.map_err(wrong)?;
    if then == Then::Work && is_alone(session, id.map(TaskId)).await? {
        tokio::select! {
            quiescent = session.quiescent() => quiescent?,
            () = host.harness.opener().world.clock.sleep(WAIT) => {}
        }
    }
    Ok(id)
}

/// Whether nothing lives but what was asked for just now, and what was told to stop.
async fn is_alone(session: &LiveSession, asked: Option<TaskId>) -> Result<bool, Failure> {
    let tasks = session.inspect().await?.tasks;
    Ok(tasks.iter().all(|view| Some(view.record.id) == asked || view.record.abort.is_some()))
}

async fn post(host: &Host, asking: Asking) -> Result<Option<Came>, Failure> {
    let Asking { session, letter, key, .. } = asking;
    let sender = Sender::key(key);
    let key = letter.key(&sender);
    host.harness.post(session, letter, sender).await.map_err(wrong)?;
    let look = || async { host.harness.receipt(session, &key).await };
    match wait(host, look).await? {
        Some(Receipt::Accepted { id }) => Ok(Some(Came::There(id))),
        Some(Receipt::Refused { kind, message }) => {
            let exit = match kind.as_str() {
                "not_found" => Exit::NotFound,
                "invalid" | "too_large" => Exit::Usage,
                _ => Exit::Failed,
            };
            Err(Failure { exit, message })
        }
        None => {
            let told = format!(
                "session {session} is open elsewhere, and nobody has taken it there yet: it waits, under the key {key}\n"
            );
            crate::screen::try_put(&everturn::clean::text(&told)).map_err(|fault| Failure::output(&fault))?;
            Ok(None)
        }
    }
}

/// Looks again and again, for some seconds.
pub(crate) async fn wait<T, F>(host: &Host, look: impl Fn() -> F) -> Result<Option<T>, Failure>
where
    F: Future<Output = everturn::Result<Option<T>>>,
{
    let (store, clock) = (&host.harness.opener().store, &host.harness.opener().world.clock);
    let (until, mut heard) = (clock.now() + WAIT, 0);
    loop {
        if let Some(found) = look().await? {
            return Ok(Some(found));
        }
        let left = until.since(clock.now());
        if left.is_zero() {
            return Ok(None);
        }
        tokio::select! {
            rung = store.doorbell(heard) => heard = rung,
            () = clock.sleep(left.min(POLL)) => {}
        }
    }
}

/// How a task ended that was asked for; none where it has not, or nobody runs it.
pub(crate) async fn outcome(
    host: &Host,
    session: SessionId,
    came: Came,
) -> Result<Option<TaskOutcome>, Failure> {
    let Some(task) = came.id().map(TaskId) else { return Ok(None) };
    let look = || async {
        let record = host.harness.opener().store.tasks(TaskQuery::one(session, task)).await?.pop();
        Ok(record.filter(|record| !record.is_live()).and_then(|record| record.outcome().cloned()))
    };
    match came {
        Came::Here(_) => Ok(look().await?),
        Came::There(_) => wait(host, look).await,
    }
}

/// The conversation that is meant.
pub(crate) async fn conversation(
    host: &Host,
    (session, at): (SessionId, Where),
) -> Result<ConversationId, Failure> {
    if let Some(conversation) = at.conversation {
        return Ok(conversation);
    }
    let reader = host.harness.reader(session).await.map_err(crate::host::explain)?;
    current(&reader).await
}

/// What was asked is wrong, or cannot be done.
pub(crate) fn wrong(error: everturn::Error) -> Failure {
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::TooLarge => Failure::usage(error.to_string()),
        _ => error.into(),
    }
}

/// A key that nobody has used.
pub(crate) fn new_key(host: &Host, verb: &str) -> String {
    let mut bytes = [0; 8];
    host.harness.opener().world.entropy.fill(&mut bytes);
    format!("{verb}-{:016x}", u64::from_be_bytes(bytes))
}
