//! A fork: another way on from the first entry. It shares what came before, its notes start as they were there, and
//! from then on neither side sees what the other does.

use everturn::{
    Document, World,
    conversation::Ownership,
    entry::Entry,
    id::{ConversationId, EntryId},
    kernel::{Memory, Opener, Session},
    storage::NewSession,
    store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "example.notes", scope = "conversation", history = "rewindable", fork = "as_of")]
struct Notes {
    text: String,
}

#[tokio::main]
async fn main() -> everturn::Result<()> {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;
    let root = ConversationId::ROOT;
    let first = say(&session, root, "shall we go out?", "undecided").await?;
    let second = say(&session, root, "no, it rains", "at home").await?;

    // No entry is copied: a fork costs the same, however long the history is.
    let mut tx = session.begin().await?;
    let fork = tx.fork(root, first, Ownership::Ownerless).await?;
    tx.commit().await?;

    assert_eq!(seen(&session, fork).await?, [first]);
    assert!(session.entry(fork, second).await.is_err(), "it comes after the fork");
    assert_eq!(notes(&session, fork).await?, "undecided");

    // From here on each side is alone.
    let third = say(&session, fork, "yes, the sun shines", "in the park").await?;
    assert_eq!(seen(&session, root).await?, [second, first], "the parent is unchanged");
    assert_eq!(notes(&session, root).await?, "at home");

    let fourth = say(&session, root, "it still rains", "in bed").await?;
    assert_eq!(seen(&session, root).await?, [fourth, second, first]);
    assert_eq!(notes(&session, root).await?, "in bed");
    assert_eq!(seen(&session, fork).await?, [third, first]);
    assert_eq!(notes(&session, fork).await?, "in the park");

    for (name, conversation) in [("parent", root), ("fork", fork)] {
        let (entries, notes) = (seen(&session, conversation).await?, notes(&session, conversation).await?);
        println!("the {name} sees {} entries, and ends {notes}", entries.len());
    }
    Ok(())
}

/// Appends an entry, and changes the notes in the same commit.
async fn say(session: &Session, chat: ConversationId, what: &str, note: &str) -> everturn::Result<EntryId> {
    let mut tx = session.begin().await?;
    let entry = tx.append(chat, Entry::new("app.said").data(what))?;
    tx.doc::<Notes>(chat).await?.text = note.into();
    tx.commit().await?;
    Ok(entry)
}

/// What a conversation sees, newest first.
async fn seen(session: &Session, chat: ConversationId) -> everturn::Result<Vec<EntryId>> {
    let page = session.entries(chat, None, 10).await?;
    Ok(page.iter().map(|entry| entry.id).collect())
}

async fn notes(session: &Session, chat: ConversationId) -> everturn::Result<String> {
    Ok(session.snapshot::<Notes>(chat).await?.unwrap_or_default().text)
}
