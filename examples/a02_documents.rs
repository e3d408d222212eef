//! Notes beside a conversation: a document is edited in the commits of two entries, and can be read as it is now or
//! as it was at either of them.

use everturn::{
    Document, World,
    entry::Entry,
    id::{ConversationId, EntryId},
    kernel::{Memory, Opener, Session},
    storage::NewSession,
    store::Store,
};
use serde::{Deserialize, Serialize};

/// Typed state of a conversation. `rewindable` keeps what it was; `as_of` says what a fork starts with.
#[derive(Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "example.notes", scope = "conversation", history = "rewindable", fork = "as_of")]
struct Notes {
    text: String,
}

#[tokio::main]
async fn main() -> everturn::Result<()> {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;
    let chat = ConversationId::ROOT;
    assert_eq!(session.snapshot::<Notes>(chat).await?, None, "reading never creates");

    let hello = say(&session, "hello", "she said hello").await?;
    let goodbye = say(&session, "goodbye", "she said goodbye").await?;

    let now = session.snapshot::<Notes>(chat).await?;
    let at_hello = session.snapshot_as_of::<Notes>(chat, hello).await?;
    let at_goodbye = session.snapshot_as_of::<Notes>(chat, goodbye).await?;
    assert_eq!(now, noted("she said goodbye"));
    assert_eq!(at_hello, noted("she said hello"));
    assert_eq!(at_goodbye, noted("she said goodbye"));

    for (when, notes) in [("now", now), ("as of goodbye", at_goodbye), ("as of hello", at_hello)] {
        println!("notes {when}: {}", notes.unwrap_or_default().text);
    }
    Ok(())
}

/// Appends an entry, and changes the notes in the same commit.
async fn say(session: &Session, what: &str, note: &str) -> everturn::Result<EntryId> {
    let mut tx = session.begin().await?;
    let entry = tx.append(ConversationId::ROOT, Entry::new("app.said").data(what))?;
    // The document is made by its first edit; what changed is found by the commit.
    tx.doc::<Notes>(ConversationId::ROOT).await?.text = note.into();
    tx.commit().await?;
    Ok(entry)
}

fn noted(text: &str) -> Option<Notes> {
    Some(Notes { text: text.into() })
}
