//! `everturn undo` and `everturn compact`: work that is begun, and whose end is told where it comes soon.

use everturn::{
    Letter, clean,
    id::{EntryId, SessionId, TaskId},
    json::RawJson,
    task::TaskOutcome,
};

use crate::{
    args::{Place, Where},
    asking::{Asking, Came, Then, ask, conversation, new_key, outcome},
    exit::{Exit, Failure},
    host::{Host, Missing, explain},
    screen::say,
};

pub(crate) async fn undo(place: &Place, session: SessionId, turn: TaskId) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    host.harness.reader(session).await.map_err(explain)?;
    let key = new_key(&host, "undo");
    work(&host, Asking { session, letter: Letter::Undo { turn }, key, then: Then::Work }, |output| {
        let paths: Vec<String> = output.read()?;
        Ok(restored(turn, &paths))
    })
    .await
}

/// What the undoing of a turn has done.
pub(super) fn restored(turn: TaskId, paths: &[String]) -> String {
    match paths {
        [] => format!("turn {turn} had changed no files"),
        paths => format!("restored as before turn {turn}: {}", paths.join(", ")),
    }
}

pub(crate) async fn compact(
    place: &Place,
    at: (SessionId, Where),
    focus: Option<String>,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let (session, conversation) = (at.0, conversation(&host, at).await?);
    let key = new_key(&host, "compact");
    let letter = Letter::Compact { conversation, focus };
    work(&host, Asking { session, letter, key, then: Then::Work }, |output| {
        let entry: EntryId = output.read()?;
        Ok(format!("the context of conversation {conversation} begins at entry {entry}"))
    })
    .await
}

/// Asks for work, and tells how it ended.
async fn work(
    host: &Host,
    asking: Asking,
    told: impl Fn(&RawJson) -> everturn::Result<String>,
) -> Result<Exit, Failure> {
    let session = asking.session;
    let Some(came) = ask(host, asking).await? else { return Ok(Exit::Answered) };
    let said = match outcome(host, session, came).await? {
        Some(TaskOutcome::Completed { output }) => told(&output)?,
        Some(failed) => return Err(Failure { exit: Exit::Failed, message: failed.to_string() }),
        None => {
            let task = came.id().map_or(String::new(), |task| format!(" as task {task}"));
            match came {
                Came::Here(_) => format!("it waits{task}; `everturn resume {session}` does it"),
                Came::There(_) => {
                    format!("it is under way{task} where the session runs (`everturn tasks {session}`)")
                }
            }
        }
    };
    say(&clean::text(&said))?;
    Ok(Exit::Answered)
}
