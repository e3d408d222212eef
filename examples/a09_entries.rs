//! Entries with types of your own, and conversations that begin with more than their id: what a new conversation or a
//! fork starts with stands in the commit that creates it. A fork keeps the thinking level of its entry.

use everturn::{
    Agent, ErrorKind, Result, World,
    conversation::Ownership,
    entry::{Entry, EntryKind},
    id::ConversationId,
    kernel::{Memory, Opener, Session},
    model::Thinking,
    storage::NewSession,
    store::Store,
};
use serde::{Deserialize, Serialize};

/// An entry of the application. Its data is for people and programs; models never see it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Rating {
    stars: u8,
    why: String,
}

impl EntryKind for Rating {
    const KIND: &'static str = "app.rating";
}

#[tokio::main]
async fn main() -> Result<()> {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;

    // One commit: the conversation, what it runs with, and its first entry.
    let mut tx = session.begin().await?;
    let chat = tx.create_conversation(Ownership::Ownerless);
    tx.doc::<Agent>(chat).await?.thinking = Thinking::High;
    let good = tx.append(chat, Entry::of(&rating(5, "it thought before it spoke")))?;
    let created = tx.commit().await?;
    assert_eq!(session.entry(chat, good).await?.seq, created);

    // Later it thinks less.
    let mut tx = session.begin().await?;
    tx.doc::<Agent>(chat).await?.thinking = Thinking::Off;
    let poor = tx.append(chat, Entry::of(&rating(2, "it was faster than right")))?;
    tx.commit().await?;

    // One commit: the fork at the good entry, and what it goes on with.
    let mut tx = session.begin().await?;
    let fork = tx.fork(chat, good, Ownership::Ownerless).await?;
    let better = tx.append(fork, Entry::of(&rating(4, "as before, but shorter")))?;
    let forked = tx.commit().await?;
    assert_eq!(session.entry(fork, better).await?.seq, forked);

    assert_eq!(thinking(&session, chat).await?, Thinking::Off);
    assert_eq!(thinking(&session, fork).await?, Thinking::High, "as of the entry");
    println!("the conversation now thinks {:?}, its fork {:?}", Thinking::Off, Thinking::High);

    // What was written as a type is read as that type, and as no other.
    let read = session.entry(chat, poor).await?.read::<Rating>()?;
    assert_eq!(read, Some(rating(2, "it was faster than right")));
    let note = Entry::new("app.note").data("no rating")?;
    assert_eq!(note.read::<Rating>()?, None);

    // A conversation is found by its id.
    let found = session.conversation(fork).await?;
    let parent = found.parent.expect("a fork has a parent");
    assert_eq!((found.id, parent.conversation, parent.at), (fork, chat, good));
    let nowhere = session.conversation(ConversationId(999)).await;
    assert_eq!(*nowhere.expect_err("nobody created it").kind(), ErrorKind::NotFound);

    for entry in session.entries(fork, None, 10).await? {
        if let Some(Rating { stars, why }) = entry.read()? {
            println!("entry {}: {stars} stars, {why}", entry.id);
        }
    }
    Ok(())
}

fn rating(stars: u8, why: &str) -> Rating {
    Rating { stars, why: why.into() }
}

async fn thinking(session: &Session, chat: ConversationId) -> Result<Thinking> {
    Ok(session.snapshot::<Agent>(chat).await?.unwrap_or_default().thinking)
}
