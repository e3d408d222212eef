//! A conversation in a memory store. One commit creates it together with its first entry; a transaction that is
//! dropped leaves nothing behind.

use everturn::{
    ErrorKind, World,
    conversation::Ownership,
    entry::Entry,
    id::ConversationId,
    kernel::{Memory, Opener, Session},
    storage::NewSession,
    store::Store,
};

#[tokio::main]
async fn main() -> everturn::Result<()> {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;

    // Everything in a transaction becomes visible in one commit, or not at all.
    let mut tx = session.begin().await?;
    let chat = tx.create_conversation(Ownership::Ownerless);
    let hello = tx.append(chat, Entry::new("app.note").data("hello"))?;
    let seq = tx.commit().await?;

    let conversation = session.conversation(chat).await?;
    assert_eq!((conversation.owner, conversation.parent), (None, None));
    let entry = session.entry(chat, hello).await?;
    assert_eq!((entry.kind.as_str(), entry.seq), ("app.note", seq));
    println!("commit {seq} created conversation {chat} with entry {hello}");

    // An id is a plain number: keep it wherever you keep numbers.
    let kept: u64 = chat.0;
    assert_eq!(session.conversation(ConversationId(kept)).await?, conversation);

    // Dropping a transaction is the way to change one's mind.
    let mut tx = session.begin().await?;
    let regretted = tx.create_conversation(Ownership::Ownerless);
    tx.append(regretted, Entry::new("app.note").data("never mind"))?;
    tx.append(chat, Entry::new("app.note").data("never mind"))?;
    drop(tx);

    let error = session.conversation(regretted).await.expect_err("it was rolled back");
    assert_eq!(*error.kind(), ErrorKind::NotFound);
    assert_eq!(session.entries(chat, None, 10).await?, [entry]);
    assert_eq!(session.head(), seq);
    println!("a dropped transaction left nothing: the session is still at commit {seq}");
    Ok(())
}
