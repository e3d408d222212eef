//! Ids and seqs: one line of commits per session.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::Seq,
    storage::{Committed, Durability, NewSession, Store},
};

use super::scene::{IntoWrite, Scene};

/// Sending a batch again, because its answer was lost, stores nothing and says that it is stored.
pub async fn a_repeated_batch_is_stored_once(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("once").into_write();
    let batch = scene.batch(vec![entry]);
    assert_eq!(scene.send(batch.clone()).await.unwrap(), Committed::Stored);
    assert_eq!(scene.send(batch).await.unwrap(), Committed::Already);
    assert_eq!(scene.texts().await, ["once"]);
}

/// A seq may not be left out.
pub async fn a_batch_ahead_of_the_head_is_a_conflict(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut batch = scene.batch(vec![]);
    batch.seq = Seq(3);
    let error = store.commit(batch).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict);
    assert!(error.to_string().ends_with("at seq 3: the session is at 1"), "{error}");
    scene.commit(vec![]).await.expect("the session is usable afterwards");
}

/// A seq may not be taken twice.
pub async fn a_batch_behind_the_head_is_a_conflict(store: &Store) {
    let mut scene = Scene::new(store).await;
    let outdated = scene.batch(vec![]);
    scene.commit(vec![]).await.unwrap();
    scene.commit(vec![]).await.unwrap();
    let error = store.commit(outdated).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
}

/// The session's row follows each commit.
pub async fn the_head_and_the_mint_mark_move_with_the_commit(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("hello").into_write();
    let mut batch = scene.batch(vec![entry]);
    batch.time = Timestamp(99);
    scene.send(batch).await.unwrap();
    let row = store.session(scene.id()).await.unwrap().unwrap();
    assert_eq!((row.head, row.minted, row.used), (Seq(2), 2, Timestamp(99)));
    assert_eq!(row.created, Timestamp(0));
}

/// Partial output and what ends it keep their order.
pub async fn relaxed_and_durable_batches_share_one_line(store: &Store) {
    let mut scene = Scene::new(store).await;
    for (text, durability) in [
        ("a", Durability::Relaxed),
        ("b", Durability::Durable),
        ("c", Durability::Relaxed),
        ("d", Durability::Relaxed),
    ] {
        let entry = scene.entry(text).into_write();
        let mut batch = scene.batch(vec![entry]);
        batch.durability = durability;
        assert_eq!(scene.send(batch).await.unwrap(), Committed::Stored);
    }
    assert_eq!(scene.texts().await, ["d", "c", "b", "a"]);
}

/// A commit without writes is one like any other to the store.
pub async fn an_empty_batch_takes_a_seq(store: &Store) {
    let mut scene = Scene::new(store).await;
    assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored);
    assert_eq!(store.session(scene.id()).await.unwrap().unwrap().head, Seq(2));
}

/// The same ids in two sessions are two records.
pub async fn sessions_do_not_share_their_ids(store: &Store) {
    let mut one = Scene::new(store).await;
    let mut two = Scene::create(store, 2, NewSession::default()).await;
    let (of_one, of_two) = (one.entry("one"), two.entry("two"));
    assert_eq!(of_one.id, of_two.id);
    let (task, submission) = (two.task(), two.submission(Some("r-1")));
    one.commit(vec![of_one.into_write(), task.clone().into_write()]).await.unwrap();
    two.commit(vec![of_two.into_write(), task.into_write(), submission.into_write()]).await.unwrap();
    assert_eq!(one.texts().await, ["one"]);
    assert_eq!(two.texts().await, ["two"]);
}

/// Counters tell what happened, no more: a repeated batch is no commit.
pub async fn what_is_counted_is_what_was_stored(store: &Store) {
    let mut scene = Scene::new(store).await;
    let before = store.stats().await.unwrap();
    let batch = scene.batch(vec![]);
    scene.send(batch.clone()).await.unwrap();
    scene.send(batch).await.unwrap();
    let mut relaxed = scene.batch(vec![]);
    relaxed.durability = Durability::Relaxed;
    scene.send(relaxed).await.unwrap();
    let after = store.stats().await.unwrap();
    let added = (after.commits - before.commits, after.groups - before.groups, after.syncs - before.syncs);
    assert_eq!(added, (2, 2, 1));
}
