//! The mail of a session: signals and aborts of tasks, taken in the commit that acts on them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use everturn_core::{
    BoxFuture, ErrorKind, Result,
    id::TaskId,
    json::RawJson,
    storage::{Mail, MailKind, Receipt},
    task::{Signal, tree::Reach},
};
use serde::{Deserialize, Serialize};

use super::{Runner, error::word};
use crate::{Session, Transaction};

/// How long the doorbell is trusted: then the store is asked whether or not it rang.
const POLL: Duration = Duration::from_secs(5);

/// How long it rests between two looks: the bell rings for every commit of the store.
const REST: Duration = Duration::from_millis(100);

/// How much of why mail was refused is kept, in bytes.
const REFUSAL_MAX: usize = 4 << 10;

/// Does what mail asks that is not about a task, and looks after who waits.
pub(crate) trait Postman: Send + Sync {
    /// Stages what is asked; gives the id of what came of it, where something did.
    fn act<'a>(&'a self, tx: &'a mut Transaction, mail: &'a Mail) -> BoxFuture<'a, Result<Option<u64>>>;

    /// Stages what becomes of what waits while nothing runs that it could wait for: a task has ended and left nothing.
    fn pick_up<'a>(&'a self, tx: &'a mut Transaction) -> BoxFuture<'a, Result<()>>;

    /// Whether anyone in a session waits because of what the host goes by.
    fn has_waiting(&self, session: &Session) -> bool;

    /// Stages that they look again.
    fn wake<'a>(&'a self, tx: &'a mut Transaction) -> BoxFuture<'a, Result<()>>;
}

/// The body of mail that signals a task.
#[derive(Serialize, Deserialize)]
pub(crate) struct SignalBody {
    pub(crate) task: TaskId,
    pub(crate) name: String,
    pub(crate) payload: RawJson,
}

/// The body of mail that aborts a task.
#[derive(Serialize, Deserialize)]
pub(crate) struct AbortBody {
    pub(crate) task: TaskId,
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) background: bool,
}

/// Takes what comes, until the session is over.
pub(super) async fn empty(weak: Weak<Runner>) {
    let Some(runner) = weak.upgrade() else { return };
    let (store, clock) = (runner.session.store().clone(), runner.session.0.opener.world.clock.clone());
    let (closing, mut heard) = (runner.closing.clone(), 0);
    drop(runner);
    loop {
        let Some(runner) = weak.upgrade().filter(|runner| runner.session.0.check_open().is_ok()) else {
            return;
        };
        if let Err(error) = take_all(&runner).await {
            tracing::warn!(session = %runner.session.id(), %error, "mail cannot be taken yet");
        }
        drop(runner);
        let wait = async {
            clock.sleep(REST).await;
            tokio::select! {
                rung = store.doorbell(heard) => heard = rung,
                () = clock.sleep(POLL) => {}
            }
        };
        tokio::select! {
            () = wait => {}
            () = closing.cancelled() => return,
        }
    }
}

async fn take_all(runner: &Arc<Runner>) -> Result<()> {
    for row in runner.session.mail().await? {
        take(runner, row.mail).await?;
    }
    runner.mail_read();
    Ok(())
}

/// Takes one, and does what it asks. What cannot be done, or not be stored, is refused: nobody's mail keeps the others
/// waiting.
async fn take(runner: &Runner, mail: Mail) -> Result<()> {
    let error = match accept(runner, &mail).await {
        Ok(()) => return Ok(()),
        // Its transaction was lost, which says nothing of the mail.
        Err(error) if matches!(error.kind(), ErrorKind::Expired) => return Err(error),
        Err(error) if error.is_passing() || runner.session.0.check_open().is_err() => return Err(error),
        Err(error) => error,
    };
    let mut message = error.to_string();
    message.truncate(message.floor_char_boundary(REFUSAL_MAX));
    let mut tx = runner.session.begin().await?;
    tx.take(mail.key, Receipt::Refused { kind: word(error.kind()).into(), message });
    tx.commit().await.map(drop)
}

async fn accept(runner: &Runner, mail: &Mail) -> Result<()> {
    let mut tx = runner.session.begin().await?;
    let id = act(runner, &mut tx, mail).await?;
    tx.take(mail.key.clone(), Receipt::Accepted { id });
    tx.commit().await.map(drop)
}

async fn act(runner: &Runner, tx: &mut Transaction, mail: &Mail) -> Result<Option<u64>> {
    match mail.kind {
        MailKind::Signal => {
            let SignalBody { task, name, payload } = mail.body.read()?;
            tx.signal(task, Signal { name, payload }).await.map(|()| Some(task.0))
        }
        MailKind::Abort if mail.conversation.is_none() => {
            let AbortBody { task, reason, background } = mail.body.read()?;
            let reach = if background { Reach::Background } else { Reach::Ordinary };
            tx.abort_task(task, &reason, reach).await.map(|_| Some(task.0))
        }
        _ => runner.host.postman.act(tx, mail).await,
    }
}
