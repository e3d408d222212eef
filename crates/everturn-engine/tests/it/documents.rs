//! Documents in a session: edited beside entries, read as of them, inherited by forks.

use everturn_core::{conversation::Ownership, document::Document, entry::Entry, id::ConversationId};
use everturn_engine::Session;
use serde::{Deserialize, Serialize};

use crate::support::session;

const ROOT: ConversationId = ConversationId::ROOT;

macro_rules! texts {
    ($($name:ident, $kind:literal, $history:literal, $fork:literal;)*) => {$(
        #[derive(Debug, Default, PartialEq, Document, Serialize, Deserialize)]
        #[document(kind = $kind, scope = "conversation", history = $history, fork = $fork, crate = "everturn_core")]
        struct $name { text: String }
    )*};
}

texts! {
    Initial, "test.initial", "latest", "initial";
    Current, "test.current", "latest", "current";
    AsOf, "test.as_of", "rewindable", "as_of";
}

/// Writes an entry, and its text into all three documents, in one commit.
async fn write(session: &Session, conversation: ConversationId, text: &str) -> everturn_core::id::EntryId {
    let mut tx = session.begin().await.unwrap();
    let entry = tx.append(conversation, Entry::new("note")).unwrap();
    tx.doc::<Initial>(conversation).await.unwrap().text = text.into();
    tx.doc::<Current>(conversation).await.unwrap().text = text.into();
    tx.doc::<AsOf>(conversation).await.unwrap().text = text.into();
    tx.commit().await.unwrap();
    entry
}

async fn read<T: Document<Scope = ConversationId>>(session: &Session, id: ConversationId) -> Option<String> {
    let value = session.snapshot::<T>(id).await.unwrap()?;
    serde_json::to_value(value).unwrap()["text"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_document_has_the_value_of_each_entry() {
    let session = session().await;
    let one = write(&session, ROOT, "one").await;
    let two = write(&session, ROOT, "two").await;
    assert_eq!(read::<AsOf>(&session, ROOT).await.as_deref(), Some("two"));
    for (entry, text) in [(one, "one"), (two, "two")] {
        assert_eq!(session.snapshot_as_of::<AsOf>(ROOT, entry).await.unwrap().unwrap().text, text);
    }
}

#[tokio::test]
async fn a_fork_starts_with_what_its_policies_say() {
    let session = session().await;
    let one = write(&session, ROOT, "one").await;
    write(&session, ROOT, "two").await;
    let mut tx = session.begin().await.unwrap();
    let fork = tx.fork(ROOT, one, Ownership::Ownerless).await.unwrap();
    assert_eq!(tx.snapshot::<AsOf>(fork).await.unwrap().unwrap().text, "one", "it reads its own writes");
    tx.doc::<Current>(ROOT).await.unwrap().text = "three".into();
    tx.commit().await.unwrap();
    assert_eq!(read::<Initial>(&session, fork).await, None);
    assert_eq!(read::<Current>(&session, fork).await.as_deref(), Some("three"), "when the fork commits");
    assert_eq!(read::<AsOf>(&session, fork).await.as_deref(), Some("one"));
    assert_eq!(session.snapshot_as_of::<AsOf>(fork, one).await.unwrap().unwrap().text, "one");

    write(&session, fork, "mine").await;
    assert_eq!(read::<AsOf>(&session, ROOT).await.as_deref(), Some("two"), "the parent is unchanged");
    let second = session.begin().await.unwrap();
    drop(second);
    let mut tx = session.begin().await.unwrap();
    let grandchild = tx.fork(fork, one, Ownership::Ownerless).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(read::<AsOf>(&session, grandchild).await.as_deref(), Some("one"), "as of an inherited entry");
}

#[tokio::test]
async fn a_fork_of_this_transaction_inherits_what_it_staged() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let entry = tx.append(ROOT, Entry::new("note")).unwrap();
    tx.doc::<AsOf>(ROOT).await.unwrap().text = "staged".into();
    let fork = tx.fork(ROOT, entry, Ownership::Ownerless).await.unwrap();
    let again = tx.fork(fork, entry, Ownership::Ownerless).await.unwrap();
    tx.commit().await.unwrap();
    for conversation in [fork, again] {
        assert_eq!(read::<AsOf>(&session, conversation).await.as_deref(), Some("staged"));
    }
}

#[tokio::test]
async fn a_retired_document_starts_anew() {
    let session = session().await;
    write(&session, ROOT, "one").await;
    let mut tx = session.begin().await.unwrap();
    tx.retire::<Initial>(ROOT).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(read::<Initial>(&session, ROOT).await, None);
    let mut tx = session.begin().await.unwrap();
    assert_eq!(tx.doc::<Initial>(ROOT).await.unwrap().text, "");
    tx.commit().await.unwrap();
    assert_eq!(read::<Initial>(&session, ROOT).await.as_deref(), Some(""));
}

#[tokio::test]
async fn an_unchanged_document_writes_nothing() {
    let session = session().await;
    write(&session, ROOT, "same").await;
    let head = session.head();
    let mut tx = session.begin().await.unwrap();
    tx.doc::<AsOf>(ROOT).await.unwrap().text = "same".into();
    assert_eq!(tx.commit().await.unwrap(), head);
}
