//! `everturn delete` and `everturn purge`: what is taken away for good.

use everturn::{
    id::{ConversationId, EntryId, SessionId},
    kernel::Session,
};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing},
};

pub(crate) async fn delete(place: &Place, id: SessionId) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    Session::open(host.harness.opener(), id).await?.delete().await?;
    eprintln!("everturn: session {id} is deleted");
    Ok(Exit::Answered)
}

/// The entry may be one of any conversation of the session.
pub(crate) async fn purge(place: &Place, id: SessionId, entry: EntryId) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let session = Session::open(host.harness.opener(), id).await?;
    let (conversation, said) = find(&session, entry).await?;
    let mut tx = session.begin().await?;
    tx.purge(conversation, entry).await?;
    // A title is made of the first question.
    let title = host.harness.reader(id).await?.row().new.title.clone().unwrap_or_default();
    if said.contains(title.trim_end_matches('…')) {
        tx.set_title("(purged)");
    }
    tx.commit().await?;
    session.close().await?;
    eprintln!(
        "everturn: the contents of entry {entry} are gone from the transcript and from searches. What a call was given \
         stays in the record of its task, the newest answer in the session's partial output until the next turn, and \
         files, archives and backups are as they were"
    );
    Ok(Exit::Answered)
}

/// The conversation that sees an entry, and what the entry says.
async fn find(session: &Session, entry: EntryId) -> Result<(ConversationId, String), Failure> {
    let mut missing = Failure::usage("the session has no conversation");
    for conversation in session.store().conversations(session.id()).await? {
        match session.entry(conversation.id, entry).await {
            Ok(found) => return Ok((conversation.id, found.text())),
            Err(error) => missing = error.into(),
        }
    }
    Err(missing)
}
