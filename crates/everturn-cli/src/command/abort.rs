//! `everturn abort ID`: withdraws what waits in a conversation and stops all its work.

use everturn::{Letter, id::SessionId};

use crate::{
    args::{Place, Where},
    asking::{Asking, Came, Then, ask, conversation, new_key},
    exit::{Exit, Failure},
    host::{Host, Missing},
    screen::say,
};

pub(crate) async fn run(place: &Place, at: (SessionId, Where), background: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let (session, conversation) = (at.0, conversation(&host, at).await?);
    let letter = Letter::Abort { conversation, background };
    let key = new_key(&host, "abort");
    let Some(came) = ask(&host, Asking { session, letter, key, then: Then::Work }).await? else {
        return Ok(Exit::Answered);
    };
    let reader = host.harness.reader(session).await?;
    let is_left = reader.inspect().await?.tasks.iter().any(|view| view.record.abort.is_some());
    let left = match (is_left, came) {
        (false, _) => String::new(),
        (true, Came::Here(_)) => {
            format!("; what was told to stop ends when the session runs (`everturn resume {session}`)")
        }
        (true, Came::There(_)) => "; what was told to stop is ending where the session runs".into(),
    };
    say(&format!("conversation {conversation} is aborted{left}"))?;
    Ok(Exit::Answered)
}
