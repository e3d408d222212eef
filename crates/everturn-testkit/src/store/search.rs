//! Search: messages by their words.

use everturn_core::{
    clock::Timestamp,
    entry::Entry,
    error::ErrorKind,
    id::ConversationId,
    message::Message,
    storage::{Hit, NewSession, SearchQuery, Store, Write},
};

use super::scene::{IntoWrite, Scene};

fn words(words: &str) -> SearchQuery {
    SearchQuery { words: words.into(), ..SearchQuery::default() }
}

/// What is found, as excerpts.
async fn found(store: &Store, query: SearchQuery) -> Vec<String> {
    store.search(query).await.unwrap().into_iter().map(|hit| hit.excerpt).collect()
}

/// A hit says where it is, and shows the line in which the first word stands.
pub async fn a_hit_names_the_entry_and_shows_the_line(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("good morning\n  the second pump leaks \nbye, pump");
    scene.commit(vec![entry.clone().into_write()]).await.unwrap();
    let hit = Hit {
        session: scene.id(),
        conversation: ConversationId::ROOT,
        entry: entry.id,
        excerpt: "the second pump leaks".into(),
    };
    assert_eq!(store.search(words("pump bye")).await.unwrap(), [hit]);
}

/// A message is found when it has all of the words, wherever they stand, and whole.
pub async fn a_message_must_have_all_of_the_words(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene
        .say(ConversationId::ROOT, &["the pump leaks", "leaks: the valve, a pump", "a pump", "pumps leaks"])
        .await;
    assert_eq!(found(store, words("pump leaks")).await, ["leaks: the valve, a pump", "the pump leaks"]);
    assert_eq!(found(store, words("pump turbine")).await, [""; 0]);
    assert_eq!(found(store, words("pum")).await, [""; 0]);
}

/// All messages of an entry are one text.
pub async fn the_messages_of_an_entry_are_one_text(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entry = scene.entry("the pump");
    entry.entry = entry.entry.message(Message::user("the valve"));
    scene.commit(vec![entry.into_write()]).await.unwrap();
    assert_eq!(found(store, words("valve pump")).await, ["the valve"]);
}

/// Only messages are looked at: data is the application's own.
pub async fn data_is_not_searched(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entry = scene.entry("");
    entry.entry = Entry::new("app.note").data("the pump").unwrap();
    scene.commit(vec![entry.into_write()]).await.unwrap();
    assert_eq!(found(store, words("pump")).await, [""; 0]);
}

/// Capital letters are the same word, in every script that has them.
pub async fn case_means_nothing(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ConversationId::ROOT, &["Der ÜBERLAUF der Pumpe", "НАСОС"]).await;
    for query in ["überlauf PUMPE", "Überlauf", "pumpe"] {
        assert_eq!(found(store, words(query)).await, ["Der ÜBERLAUF der Pumpe"], "{query}");
    }
    assert_eq!(found(store, words("насос")).await, ["НАСОС"]);
}

/// Words are no query language: signs part them, and names of operators are words like others.
pub async fn signs_are_no_language(store: &Store) {
    let mut scene = Scene::new(store).await;
    let text = "NEAR the pump, OR so: text:field -not AND 3*4 it's \"quoted\"";
    scene.say(ConversationId::ROOT, &[text, "the pump"]).await;
    for query in [
        "\"quoted",
        "\"near pump\"",
        "NEAR(pump",
        "pump OR",
        "pump AND OR NOT",
        "3*4",
        "field:text",
        "-not",
        "it's",
        "{quoted} ^near +so",
        "'; near",
    ] {
        assert_eq!(found(store, words(query)).await, [text], "{query}");
    }
    for query in ["NEAR(pump, 5)", "pump' OR 1=1 --", "pum*", "pump OR turbine", "pump NOT turbine"] {
        assert_eq!(found(store, words(query)).await, [""; 0], "{query} asks for a word that is not there");
    }
}

/// A query without a word would find everything.
pub async fn a_search_without_a_word_is_invalid(store: &Store) {
    for query in ["", " ", "*", "\"\"", "( - )"] {
        let error = store.search(words(query)).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Invalid, "{query:?}: {error}");
    }
}

/// Newest first over all sessions, and no more than were asked for.
pub async fn hits_come_newest_first(store: &Store) {
    let mut one = Scene::new(store).await;
    let mut two = Scene::create(store, 2, NewSession::default()).await;
    for (text, time, scene) in [("pump a", 1, 1), ("pump b", 2, 2), ("pump c", 3, 1), ("pump d", 4, 2)] {
        let scene = if scene == 1 { &mut one } else { &mut two };
        let mut entry = scene.entry(text);
        entry.time = Timestamp(time);
        scene.commit(vec![entry.into_write()]).await.unwrap();
    }
    assert_eq!(found(store, words("pump")).await, ["pump d", "pump c", "pump b", "pump a"]);
    let two_of_them = SearchQuery { limit: 2, ..words("pump") };
    assert_eq!(found(store, two_of_them).await, ["pump d", "pump c"]);
    let in_one = SearchQuery { session: Some(one.id()), ..words("pump") };
    assert_eq!(found(store, in_one).await, ["pump c", "pump a"]);
}

/// A fork shows what it inherits, and it is one message still.
pub async fn a_message_is_found_once_however_often_it_is_forked(store: &Store) {
    let mut scene = Scene::new(store).await;
    let at = scene.say(ConversationId::ROOT, &["the pump"]).await;
    let root = scene.root().await;
    let fork = scene.fork(&root, at).await;
    scene.say(fork.id, &["the valve"]).await;
    assert_eq!(found(store, words("pump")).await, ["the pump"]);
    let [hit] = store.search(words("valve")).await.unwrap().try_into().unwrap();
    assert_eq!(hit.conversation, fork.id);
}

/// What a deleted session said is found no more.
pub async fn nothing_of_a_deleted_session_is_found(store: &Store) {
    let mut gone = Scene::new(store).await;
    let mut kept = Scene::create(store, 2, NewSession::default()).await;
    gone.say(ConversationId::ROOT, &["pump of one"]).await;
    kept.say(ConversationId::ROOT, &["pump of two"]).await;
    store.delete(gone.id(), gone.lease.owner, gone.lease.epoch).await.unwrap();
    assert_eq!(found(store, words("pump")).await, ["pump of two"]);
}

/// What was purged is found no more.
pub async fn nothing_that_was_purged_is_found(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entry = scene.entry("the secret pump");
    scene.commit(vec![entry.clone().into_write()]).await.unwrap();
    scene.say(ConversationId::ROOT, &["another pump"]).await;
    assert_eq!(found(store, words("pump")).await, ["another pump", "the secret pump"]);
    entry.entry = entry.entry.purged("abc");
    scene.commit(vec![Write::Purge(entry)]).await.unwrap();
    assert_eq!(found(store, words("pump")).await, ["another pump"]);
    assert_eq!(found(store, words("secret")).await, [""; 0]);
}
