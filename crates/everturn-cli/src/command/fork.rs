//! `everturn fork ID`: another way on from an entry.

use everturn::{
    AgentChange, Letter,
    id::{EntryId, SessionId},
};

use crate::{
    args::{Place, Where},
    asking::{Asking, Then, ask, conversation, new_key},
    exit::{Exit, Failure},
    host::{Host, Missing},
    screen::say,
};

pub(crate) async fn run(
    place: &Place,
    at: (SessionId, Where),
    entry: Option<EntryId>,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let (session, conversation) = (at.0, conversation(&host, at).await?);
    let change = AgentChange { model: place.model.clone(), ..AgentChange::default() };
    let letter = Letter::Fork { conversation, at: entry, change };
    let key = new_key(&host, "fork");
    let Some(came) = ask(&host, Asking { session, letter, key, then: Then::Rest }).await? else {
        return Ok(Exit::Answered);
    };
    let fork = came.id().map_or(String::new(), |id| id.to_string());
    say(&fork)?;
    eprintln!(
        "everturn: conversation {fork} is a fork of conversation {conversation} (`everturn steer {session} TEXT --conversation {fork}`)"
    );
    Ok(Exit::Answered)
}
