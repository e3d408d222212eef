//! A listener, and a stranger who has something to say to it.

use std::{sync::Arc, time::Duration};

use everturn::{
    Error, Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction,
    id::TaskId,
    json::RawJson,
    kernel::Opener,
    storage::{Mail, MailFilter, MailKind, Receipt},
    task::{TaskState, Woken},
};
use serde::{Deserialize, Serialize};

use super::{Ledger, Life, Line, ROOT, Scenario};

/// The key of the stranger's mail.
pub const MAIL: &str = "paid 1";

/// When the stranger says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Before anybody listens.
    Early,
    /// When somebody does.
    InTime,
    /// Never.
    Silent,
}

/// A task that listens, twice, and hears something once at most.
#[derive(Clone, Debug)]
pub struct Listen(pub Stranger);

/// The code of a listener.
struct Hear(Arc<Ledger>);

impl Scenario for Listen {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("ears").task(Hear(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<Hear>(ROOT, &())?).map(drop)
    }

    async fn attend(&self, life: &Life) -> Result<()> {
        let task = life.tasks().await?.first().map(|task| task.id).unwrap_or_default();
        match self.0 {
            Stranger::Early => say(life, task).await?,
            Stranger::InTime => {
                let listens = |state: &TaskState| matches!(state, TaskState::Listening { .. });
                life.until(|live| live.iter().all(|task| listens(&task.state))).await?;
                say(life, task).await?;
            }
            Stranger::Silent => {}
        }
        life.until(|live| live.is_empty()).await?;
        let found = life.place.store.mail(life.session.id(), MailFilter::Key(MAIL.into())).await?;
        let receipts: Vec<_> = found.into_iter().map(|row| row.receipt).collect();
        let expected = match self.0 {
            Stranger::Silent => Vec::new(),
            _ => vec![Some(Receipt::Accepted { id: Some(task.0) })],
        };
        // Who was late once more, in a life that found the task ended, is told so, and nothing is done about it.
        if receipts != expected {
            return Err(Error::invalid(format!("the stranger's receipts are {receipts:?}")));
        }
        Ok(())
    }
}

/// Someone who does not own the session posts a signal. He does so in each life, under one key.
async fn say(life: &Life, task: TaskId) -> Result<()> {
    let stranger = Opener::new(life.place.store.clone(), life.place.world.clone()).await;
    if stranger.owner == life.session.owner() {
        return Err(Error::invalid("the stranger owns the session"));
    }
    let body = serde_json::json!({"task": task, "name": "paid", "payload": {"amount": 12}});
    let mail = Mail {
        session: life.session.id(),
        key: MAIL.into(),
        kind: MailKind::Signal,
        conversation: None,
        request: None,
        actor: "stranger".into(),
        time: stranger.world.clock.now(),
        body: RawJson::of(&body)?,
    };
    stranger.post(mail).await.map(drop)
}

/// Where a listener stands.
#[derive(Debug, Serialize, Deserialize)]
enum State {
    /// Nobody listens yet.
    Deaf,
    Listens,
    Heard,
    /// It has listened again, having heard this.
    HeardAgain(String),
}

impl Task for Hear {
    const NAME: &'static str = "worlds.hear";
    type Input = ();
    type State = State;
    type Output = String;

    fn start(&self, (): &()) -> State {
        State::Deaf
    }

    async fn step(&self, cx: &TaskContext, (): &(), state: State) -> Result<Step<Self>, TaskError> {
        let until = cx.now() + Duration::from_secs(30);
        let heard = match cx.woken_by() {
            Some(Woken::Signal(signal)) => format!("{} {}", signal.name, signal.payload.get()),
            Some(Woken::TimedOut) => "nothing".into(),
            None => "no end of a wait".into(),
        };
        Ok(match state {
            State::Deaf => Step::sleep(cx.now() + Duration::from_secs(1), State::Listens),
            State::Listens => Step::wait_signal("paid", State::Heard).until(until),
            State::Heard => {
                self.0.write(Line::Did(heard.clone()));
                Step::wait_signal("paid", State::HeardAgain(heard)).until(until)
            }
            State::HeardAgain(first) => Step::done(format!("{first}, then {heard}")),
        })
    }
}
