//! Documents in a session: edited beside entries, read as of them, inherited by forks.

use everturn_core::{
    ErrorKind,
    conversation::Ownership,
    document::{Document, ScopeKey, Value},
    entry::Entry,
    id::ConversationId,
    storage::DocumentQuery,
};
use everturn_engine::{NewTask, Session};
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

/// Notes as an older program knew them.
#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.grown", scope = "conversation", history = "rewindable", fork = "as_of")]
#[document(crate = "everturn_core")]
struct Old {
    text: String,
}

/// The same notes, as a newer one does.
#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.grown", version = 2, scope = "conversation", history = "rewindable", fork = "as_of")]
#[document(migrate = to_lines, crate = "everturn_core")]
struct New {
    lines: Vec<String>,
}

fn to_lines(mut value: Value, _: u32) -> everturn_core::Result<Value> {
    let text: String = serde_json::from_value(value["text"].take()).expect("the old form has a text");
    let lines: Vec<_> = text.lines().collect();
    Ok(serde_json::json!({ "lines": lines }))
}

#[tokio::test]
async fn an_old_value_is_brought_along_when_it_is_read_and_stored_so_by_the_first_commit_that_touches_it() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let entry = tx.append(ROOT, Entry::new("note")).unwrap();
    tx.doc::<Old>(ROOT).await.unwrap().text = "a\nb".into();
    tx.commit().await.unwrap();
    assert_eq!(session.snapshot::<New>(ROOT).await.unwrap().unwrap().lines, ["a", "b"]);
    assert_eq!(session.snapshot_as_of::<New>(ROOT, entry).await.unwrap().unwrap().lines, ["a", "b"]);
    let raw = || async { session.documents(ScopeKey::Conversation(ROOT)).await.unwrap().remove(0) };
    assert_eq!((raw().await.version(), raw().await.number()), (1, 1), "reading changes nothing");

    // A fork copies value and version without knowing the type.
    let mut tx = session.begin().await.unwrap();
    let fork = tx.fork(ROOT, entry, Ownership::Ownerless).await.unwrap();
    tx.commit().await.unwrap();
    let copied = session.documents(ScopeKey::Conversation(fork)).await.unwrap().remove(0);
    assert_eq!((copied.version(), &copied.value()["text"]), (1, &serde_json::json!("a\nb")));

    let mut tx = session.begin().await.unwrap();
    tx.doc::<New>(ROOT).await.unwrap().lines.push("c".into());
    tx.commit().await.unwrap();
    let stored = raw().await;
    assert_eq!((stored.version(), stored.number()), (2, 2));
    assert_eq!(stored.value(), &serde_json::json!({ "lines": ["a", "b", "c"] }));
    assert_eq!(session.snapshot_as_of::<New>(ROOT, entry).await.unwrap().unwrap().lines, ["a", "b"]);
    let error = session.snapshot::<Old>(ROOT).await.err().unwrap();
    assert_eq!(*error.kind(), ErrorKind::Newer { found: 2, known: 1 });
    assert!(error.to_string().contains("test.grown"), "{error}");
}

#[tokio::test]
async fn a_document_of_a_task_belongs_to_it_alone() {
    #[derive(Document, Serialize, Deserialize, Default)]
    #[document(kind = "test.work", scope = "task", crate = "everturn_core")]
    struct Work {
        done: u32,
    }
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let tasks = [1, 2].map(|_| tx.create_task(NewTask::new(ROOT, "test.work", 1)).unwrap());
    for (task, done) in tasks.into_iter().zip([10, 20]) {
        tx.doc::<Work>(task).await.unwrap().done = done;
    }
    tx.commit().await.unwrap();
    for (task, done) in tasks.into_iter().zip([10, 20]) {
        assert_eq!(session.snapshot::<Work>(task).await.unwrap().unwrap().done, done);
    }
    let mut tx = session.begin().await.unwrap();
    tx.doc::<Work>(everturn_core::id::TaskId(999)).await.unwrap().done = 1;
    let error = tx.commit().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_growing_text_is_stored_as_what_was_added_and_its_history_stays_bounded() {
    let session = session().await;
    let text = |n: usize| "line of text\n".repeat(n);
    for n in 1..=200 {
        let mut tx = session.begin().await.unwrap();
        tx.doc::<Latest>(ROOT).await.unwrap().text = text(n);
        tx.commit().await.unwrap();
    }
    let query =
        DocumentQuery { session: session.id(), scope: ScopeKey::Conversation(ROOT), kind: None, at: None };
    let state = session.store().documents(query).await.unwrap().remove(0);
    let deltas: usize = state.deltas.iter().map(|delta| delta.get().len()).sum();
    assert!(deltas <= state.base.get().len(), "reading is bounded");
    assert!(
        state.deltas.iter().all(|delta| delta.get().len() < 80),
        "each stores what it added: {:?}",
        state.deltas
    );
    let row = session.store().session(session.id()).await.unwrap().unwrap();
    let weight = text(200).len() as u64;
    assert!(row.bytes < 16 * weight, "writing is linear in what changed: {} for {weight}", row.bytes);
    assert_eq!(state.number, 200);
}

#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.latest", scope = "conversation", crate = "everturn_core")]
struct Latest {
    text: String,
}
