//! What a store's keeper does, on a store that is well.

use everturn_core::{
    clock::Timestamp,
    document::History,
    id::ConversationId,
    storage::{Part, Store, Swept, ViewQuery},
};

use super::{notes::Notes, scene::Scene};

/// There is nothing to remove where there is nothing.
pub async fn sweeping_an_empty_store_removes_nothing(store: &Store) {
    assert_eq!(store.sweep(Timestamp(i64::MAX)).await.unwrap(), Swept::default());
}

/// What a deletion left is gone after a sweep; the next one finds nothing.
pub async fn a_second_sweep_finds_nothing(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ConversationId::ROOT, &["a", "b"]).await;
    store.delete(scene.id(), scene.lease.owner, scene.lease.epoch).await.unwrap();
    store.sweep(Timestamp(i64::MAX)).await.unwrap();
    assert_eq!(store.sweep(Timestamp(i64::MAX)).await.unwrap(), Swept::default());
}

/// A store that is whole has no findings, before and after its room was given back, and nothing of it is lost.
pub async fn vacuum_and_check_leave_a_healthy_store_alone(store: &Store) {
    store.vacuum().await.unwrap();
    assert_eq!(store.check().await.unwrap(), []);
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    scene.say(ConversationId::ROOT, &["a", "b"]).await;
    scene.commit(vec![notes.base("0"), notes.delta("[1]")]).await.unwrap();
    let everything = ViewQuery { session: scene.id(), part: Part::Everything };
    let before = store.view(everything.clone()).await.unwrap();
    assert_eq!(store.check().await.unwrap(), []);
    store.vacuum().await.unwrap();
    assert_eq!(store.check().await.unwrap(), []);
    assert_eq!(store.view(everything).await.unwrap(), before);
    assert_eq!(scene.texts().await, ["b", "a"]);
    scene.say(ConversationId::ROOT, &["c"]).await;
}
