//! The search index: it survives, catches up, and has no language of its own.

use everturn_core::{
    error::ErrorKind,
    id::ConversationId,
    storage::{NewSession, SearchQuery, Store},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene},
};

use crate::files::Temporary;

async fn found(store: &Store, words: &str) -> Vec<String> {
    let hits = store.search(SearchQuery { words: words.into(), ..SearchQuery::default() }).await.unwrap();
    hits.into_iter().map(|hit| hit.excerpt).collect()
}

#[test]
fn the_index_goes_on_where_it_was_when_the_store_is_opened_again() {
    let file = Temporary::new();
    block_on(async {
        let mut scene = Scene::new(&file.open().await).await;
        scene.say(ConversationId::ROOT, &["one pump"]).await;
        assert_eq!(found(&scene.store, "pump").await, ["one pump"]);
        scene.say(ConversationId::ROOT, &["two pumps and a pump"]).await;
        drop(scene);
        let store = file.open().await;
        assert_eq!(found(&store, "pump").await, ["two pumps and a pump", "one pump"]);
    });
}

#[test]
fn a_long_history_is_indexed_whole() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let entries: Vec<_> = (0..1_000).map(|n| scene.entry(&format!("note {n}")).into_write()).collect();
        scene.commit(entries).await.unwrap();
        let query = SearchQuery { words: "note".into(), limit: usize::MAX, session: Some(scene.id()) };
        assert_eq!(store.search(query).await.unwrap().len(), 1_000);
        assert_eq!(found(&store, "999").await, ["note 999"]);
    });
}

#[test]
fn signs_mean_nothing_and_words_are_those_of_the_port() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let texts =
            ["Grüße aus Köln", "gruße", "col:umn AND NOT near", "ΣΊΣΥΦΟΣ", "日本語 テキスト", "§1 x_y"];
        scene.say(ConversationId::ROOT, &texts).await;
        for (words, expected) in [
            ("grüSSe KÖLN", &[][..]),
            ("GRÜßE köln", &texts[..1]),
            ("gruße", &texts[1..2]),
            ("\"NOT\" (and) col:*", &texts[2..3]),
            ("umn - col", &texts[2..3]),
            ("σίσυφος", &texts[3..4]),
            ("テキスト", &texts[4..5]),
            ("§1", &texts[5..]),
            ("y x", &texts[5..]),
            ("nea*", &[]),
        ] {
            assert_eq!(found(&store, words).await, expected, "{words}");
        }
        let error = store.search(SearchQuery { words: "\"*-".into(), ..SearchQuery::default() }).await;
        assert_eq!(error.unwrap_err().kind(), &ErrorKind::Invalid);
    });
}

#[test]
fn one_session_is_searched_without_the_others() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scenes = Vec::new();
        for n in 1..=3 {
            scenes.push(Scene::create(&store, n, NewSession::default()).await);
            scenes.last_mut().unwrap().say(ConversationId::ROOT, &["a pump", "none"]).await;
        }
        for scene in &scenes {
            let query = SearchQuery { words: "pump".into(), session: Some(scene.id()), limit: 20 };
            let hits = store.search(query).await.unwrap();
            assert_eq!(hits.iter().map(|hit| hit.session).collect::<Vec<_>>(), [scene.id()]);
        }
        let all: Vec<_> = scenes.iter().rev().map(|scene| scene.id()).collect();
        let hits =
            store.search(SearchQuery { words: "pump".into(), ..SearchQuery::default() }).await.unwrap();
        assert_eq!(hits.iter().map(|hit| hit.session).collect::<Vec<_>>(), all, "newest first");
    });
}
