//! `everturn signal ID TASK NAME [JSON]`: tells a task that something happened, whoever runs its session.

use everturn::{
    clean,
    id::{SessionId, TaskId},
    storage::{Posted, Receipt},
    task::Signal,
};

use crate::{
    args::Place,
    asking::{new_key, wrong},
    exit::{Exit, Failure},
    host::{Host, Missing},
    screen::say,
};

/// What is said, to whom, and under which key.
pub(crate) struct Told {
    pub(crate) session: SessionId,
    pub(crate) task: TaskId,
    pub(crate) signal: Signal,
    /// One of its own, where none was given.
    pub(crate) key: Option<String>,
}

pub(crate) async fn run(place: &Place, told: Told) -> Result<Exit, Failure> {
    let Told { session, task, signal, key } = told;
    let host = Host::open(place, Missing::Refuse).await?;
    let key = key.unwrap_or_else(|| new_key(&host, "signal"));
    let posted = host.harness.signal(session, &key, task, signal).await.map_err(wrong)?;
    let said = match posted {
        Posted::New => format!("it waits for whoever runs the session (everturn resume {session})"),
        Posted::Waiting => format!(
            "it was there already, and waits for whoever runs the session (everturn resume {session})"
        ),
        Posted::Ended(Receipt::Accepted { .. }) => {
            format!("it was there already, and task {task} has got it")
        }
        Posted::Ended(Receipt::Refused { kind, message }) => {
            let message = format!("{key}: it was there already, and was refused: {kind}: {message}");
            return Err(Failure { exit: Exit::Failed, message });
        }
    };
    say(&format!("{}: {said}", clean::line(&key)))?;
    Ok(Exit::Answered)
}
