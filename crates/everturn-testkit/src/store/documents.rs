//! Documents: bases, deltas, ends, and what they were.

use everturn_core::{
    document::{History, ScopeKey},
    id::{ConversationId, TaskId},
    storage::Store,
};

use super::{notes::Notes, scene::Scene};

/// The newest base, and the deltas since in their order.
pub async fn a_document_is_its_base_and_its_deltas(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Latest);
    for write in [notes.base(r#"{"b":1, "a":2}"#), notes.delta("[1]"), notes.delta("[2]")] {
        scene.commit(vec![write]).await.unwrap();
    }
    let expected = notes.state(r#"{"b":1, "a":2}"#, &["[1]", "[2]"], [4, 3]);
    assert_eq!(notes.read(&scene, None).await, [expected]);
}

/// Every commit's value of a rewindable document stays readable.
pub async fn a_document_as_of_a_seq_is_what_it_was_then(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    for write in [notes.base("0"), notes.delta("[1]"), notes.base("2"), notes.delta("[3]")] {
        scene.commit(vec![write]).await.unwrap();
    }
    assert_eq!(notes.read(&scene, Some(1)).await, []);
    assert_eq!(notes.read(&scene, Some(2)).await, [notes.state("0", &[], [2, 1])]);
    assert_eq!(notes.read(&scene, Some(3)).await, [notes.state("0", &["[1]"], [3, 2])]);
    assert_eq!(notes.read(&scene, Some(4)).await, [notes.state("2", &[], [4, 3])]);
    assert_eq!(notes.read(&scene, Some(99)).await, [notes.state("2", &["[3]"], [5, 4])]);
    assert_eq!(notes.read(&scene, None).await, [notes.state("2", &["[3]"], [5, 4])]);
}

/// Of a document with `latest` history, what a base superseded is not kept.
pub async fn a_base_of_a_latest_document_takes_the_place_of_what_was(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Latest);
    for write in [notes.base("0"), notes.delta("[1]"), notes.base("2")] {
        scene.commit(vec![write]).await.unwrap();
    }
    assert_eq!(notes.read(&scene, None).await, [notes.state("2", &[], [4, 3])]);
    assert_eq!(notes.read(&scene, Some(3)).await, [], "the revisions before are gone");
}

/// A retired document is found no more, whenever it is asked for.
pub async fn a_retired_document_is_gone(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Latest);
    for write in [notes.base("0"), notes.delta("[1]"), notes.retired()] {
        scene.commit(vec![write]).await.unwrap();
    }
    assert_eq!(notes.read(&scene, None).await, []);
    assert_eq!(notes.read(&scene, Some(3)).await, []);
}

/// The past of a rewindable document outlives it.
pub async fn a_retired_rewindable_document_can_still_be_read_as_it_was(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    for write in [notes.base("0"), notes.retired()] {
        scene.commit(vec![write]).await.unwrap();
    }
    assert_eq!(notes.read(&scene, None).await, []);
    assert_eq!(notes.read(&scene, Some(3)).await, []);
    assert_eq!(notes.read(&scene, Some(2)).await, [notes.state("0", &[], [2, 1])]);
}

/// Session, conversation and task are scopes of their own, also where their numbers are the same.
pub async fn documents_belong_to_their_scope(store: &Store) {
    let mut scene = Scene::new(store).await;
    let scopes = [ScopeKey::Session, ScopeKey::Conversation(ConversationId(1)), ScopeKey::Task(TaskId(1))];
    let mut documents = Vec::new();
    for scope in scopes {
        let mut notes = Notes::new(&mut scene, History::Latest);
        notes.record.scope = scope;
        documents.push(notes);
    }
    let writes = documents.iter().map(|notes| notes.base("0")).collect();
    scene.commit(writes).await.unwrap();
    for notes in &documents {
        assert_eq!(notes.read(&scene, None).await, [notes.state("0", &[], [2, 1])]);
    }
    let mut other_kind = Notes::new(&mut scene, History::Latest);
    other_kind.record.kind = "app.other".into();
    assert_eq!(other_kind.read(&scene, None).await, []);
}

/// Ending a document and creating it again makes a new one.
pub async fn a_new_incarnation_follows_a_retired_one(store: &Store) {
    let mut scene = Scene::new(store).await;
    let first = Notes::new(&mut scene, History::Rewindable);
    let second = Notes::new(&mut scene, History::Rewindable);
    scene.commit(vec![first.base("1")]).await.unwrap();
    scene.commit(vec![first.retired(), second.base("2")]).await.unwrap();
    assert_eq!(second.read(&scene, None).await, [second.state("2", &[], [3, 1])]);
    assert_eq!(second.read(&scene, Some(2)).await, [first.state("1", &[], [2, 1])]);
}

/// Writes keep their order, within a commit too.
pub async fn two_revisions_of_one_commit_keep_their_order(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    scene.commit(vec![notes.base("0"), notes.delta("[1]"), notes.delta("[2]")]).await.unwrap();
    assert_eq!(notes.read(&scene, None).await, [notes.state("0", &["[1]", "[2]"], [2, 3])]);
    scene.commit(vec![notes.delta("[3]"), notes.base("4")]).await.unwrap();
    assert_eq!(notes.read(&scene, None).await, [notes.state("4", &[], [3, 5])]);
}
