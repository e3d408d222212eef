//! `everturn reset ID`: a conversation begins anew.

use everturn::{Letter, id::SessionId};

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
    text: Option<String>,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let (session, conversation) = (at.0, conversation(&host, at).await?);
    let letter = Letter::Reset { conversation, hand_off: text };
    let key = new_key(&host, "reset");
    let Some(came) = ask(&host, Asking { session, letter, key, then: Then::Rest }).await? else {
        return Ok(Exit::Answered);
    };
    let entry = came.id().map_or(String::new(), |id| format!(" at entry {id}"));
    say(&format!("conversation {conversation} begins anew{entry}"))?;
    Ok(Exit::Answered)
}
