//! `everturn signal ID TASK NAME [JSON]`: tells a task that something happened, whoever runs its session.

use everturn::{
    ErrorKind, clean,
    id::{SessionId, TaskId},
    storage::{Posted, Receipt},
    task::Signal,
};

use crate::{
    args::Place,
    asking::new_key,
    exit::{Exit, Failure},
    host::{Host, Missing},
    screen::Screen,
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
    let posted = host.harness.signal(session, &key, task, signal).await.map_err(|error| {
        let is_wrong = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge);
        if is_wrong { Failure::usage(error.to_string()) } else { error.into() }
    })?;
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
    let mut screen = Screen::new();
    screen.text(&format!("{}: {said}", clean::line(&key)));
    screen.delivered().map_err(|fault| Failure::output(&fault))?;
    Ok(Exit::Answered)
}
