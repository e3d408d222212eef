//! Session rows and the list of them.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{ConversationId, Epoch, Seq, SessionId},
    storage::{Created, NewSession, SessionQuery, SessionRow, Store, Write},
};

use super::scene::{IntoWrite, Scene, UNTIL, creation, owner, session_id};

fn requested(request: &str) -> NewSession {
    NewSession { request: Some(request.into()), ..NewSession::default() }
}

fn labelled(labels: &[(&str, &str)]) -> NewSession {
    let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    NewSession { labels, ..NewSession::default() }
}

async fn listed(store: &Store, query: SessionQuery) -> Vec<SessionId> {
    store.sessions(query).await.unwrap().into_iter().map(|row| row.id).collect()
}

/// The list is read in pages, which a new session does not shift.
pub async fn sessions_come_newest_first_a_page_at_a_time(store: &Store) {
    for n in [2, 5, 1, 4, 3] {
        Scene::create(store, n, NewSession::default()).await;
    }
    let page = |after, limit| SessionQuery { after, limit, ..SessionQuery::default() };
    let first = listed(store, page(None, 2)).await;
    assert_eq!(first, [session_id(5), session_id(4)]);
    Scene::create(store, 6, NewSession::default()).await;
    let rest = listed(store, page(Some(first[1]), 10)).await;
    assert_eq!(rest, [session_id(3), session_id(2), session_id(1)]);
    assert_eq!(store.sessions(page(Some(session_id(1)), 10)).await.unwrap(), []);
}

/// Creating again with the same request id creates nothing.
pub async fn a_repeated_creation_gives_the_same_session(store: &Store) {
    Scene::create(store, 1, requested("c-1")).await;
    let again = store.create(creation(2, requested("c-1"))).await.unwrap();
    assert_eq!(again, Created::Existing(session_id(1)));
    assert_eq!(store.session(session_id(2)).await.unwrap(), None);
    Scene::create(store, 3, requested("c-2")).await;
}

/// A creation that may have gone through is looked for by its request id.
pub async fn a_request_id_finds_the_session_that_it_created(store: &Store) {
    for (n, request) in [(1, "c-1"), (2, "c-2")] {
        Scene::create(store, n, requested(request)).await;
    }
    let by = |request: &str| SessionQuery { request: Some(request.into()), ..SessionQuery::default() };
    assert_eq!(listed(store, by("c-1")).await, [session_id(1)]);
    assert_eq!(store.sessions(by("c-3")).await.unwrap(), []);
    let behind = SessionQuery { after: Some(session_id(1)), ..by("c-2") };
    assert_eq!(store.sessions(behind).await.unwrap(), [], "it does not stand behind the other in the list");
}

/// A session is not created over another.
pub async fn an_id_in_use_is_a_conflict(store: &Store) {
    Scene::create(store, 1, requested("c-1")).await;
    let error = store.create(creation(1, requested("c-2"))).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
    let row = store.session(session_id(1)).await.unwrap().unwrap();
    assert_eq!(row.new, requested("c-1"));
}

/// Title, labels and parent come back with times, head and owner.
pub async fn a_row_says_what_the_creator_said(store: &Store) {
    let new = NewSession {
        request: Some("c-1".into()),
        title: Some("repair the pump".into()),
        labels: [("team", "north"), ("a", "é\"")].map(|(key, value)| (key.into(), value.into())).into(),
        parent: Some(session_id(7)),
    };
    Scene::create(store, 1, new.clone()).await;
    let first = creation(1, new.clone()).first;
    let row = SessionRow {
        id: session_id(1),
        new,
        created: Timestamp(0),
        used: Timestamp(0),
        head: Seq(1),
        epoch: Epoch(1),
        minted: 1,
        bytes: first.writes.iter().map(Write::weight).sum(),
        owner: Some((owner(), UNTIL)),
    };
    assert_eq!(store.session(session_id(1)).await.unwrap(), Some(row.clone()));
    assert_eq!(store.sessions(SessionQuery::default()).await.unwrap(), [row]);
}

/// Looking for a session that is not there is no error.
pub async fn an_unknown_session_has_no_row(store: &Store) {
    assert_eq!(store.session(session_id(9)).await.unwrap(), None);
    assert_eq!(store.sessions(SessionQuery::default()).await.unwrap(), []);
}

/// A session is listed when it has all of the labels that are asked for.
pub async fn labels_choose_from_the_list(store: &Store) {
    for (n, labels) in [
        (1, &[("team", "north"), ("kind", "repair")][..]),
        (2, &[("team", "south"), ("kind", "repair")]),
        (3, &[("team", "north"), ("it's \"odd\"", "50%_é")]),
        (4, &[]),
    ] {
        Scene::create(store, n, labelled(labels)).await;
    }
    for (labels, expected) in [
        (&[][..], &[4, 3, 2, 1][..]),
        (&[("team", "north")], &[3, 1]),
        (&[("team", "north"), ("kind", "repair")], &[1]),
        (&[("it's \"odd\"", "50%_é")], &[3]),
        (&[("team", "n%")], &[]),
        (&[("team", "")], &[]),
        (&[("north", "team")], &[]),
    ] {
        let query = SessionQuery { labels: labelled(labels).labels, ..SessionQuery::default() };
        let expected: Vec<_> = expected.iter().copied().map(session_id).collect();
        assert_eq!(listed(store, query).await, expected, "{labels:?}");
    }
    let page =
        SessionQuery { labels: labelled(&[("team", "north")]).labels, limit: 1, ..SessionQuery::default() };
    assert_eq!(listed(store, page.clone()).await, [session_id(3)]);
    let next = SessionQuery { after: Some(session_id(3)), ..page };
    assert_eq!(listed(store, next).await, [session_id(1)], "a page is filled from those that are wanted");
}

/// A session is listed by when it was last committed to.
pub async fn times_choose_from_the_list(store: &Store) {
    for (n, used) in [(1, 30), (2, 10), (3, 20)] {
        let mut scene = Scene::create(store, n, NewSession::default()).await;
        let mut batch = scene.batch(vec![]);
        batch.time = Timestamp(used);
        scene.send(batch).await.unwrap();
    }
    for (from, before, expected) in [
        (Some(20), None, &[3, 1][..]),
        (None, Some(20), &[2]),
        (Some(10), Some(30), &[3, 2]),
        (Some(20), Some(20), &[]),
        (Some(31), None, &[]),
    ] {
        let (used_from, used_before) = (from.map(Timestamp), before.map(Timestamp));
        let query = SessionQuery { used_from, used_before, ..SessionQuery::default() };
        let expected: Vec<_> = expected.iter().copied().map(session_id).collect();
        assert_eq!(listed(store, query).await, expected, "{from:?} {before:?}");
    }
}

/// A commit can label a session anew: the labels that it says are all that it has.
pub async fn labels_are_replaced_by_a_commit(store: &Store) {
    let mut scene = Scene::create(store, 1, labelled(&[("team", "north"), ("kind", "repair")])).await;
    let new = labelled(&[("team", "south")]);
    scene.commit(vec![Write::Labels(new.labels.clone())]).await.unwrap();
    assert_eq!(store.session(scene.id()).await.unwrap().unwrap().new, new);
    let by = |labels: &[_]| SessionQuery { labels: labelled(labels).labels, ..SessionQuery::default() };
    assert_eq!(listed(store, by(&[("team", "south")])).await, [session_id(1)]);
    for gone in [[("team", "north")], [("kind", "repair")]] {
        assert_eq!(listed(store, by(&gone)).await, [], "{gone:?}");
    }
}

/// A row says how much its commits have brought, so that nobody has to read it all to know.
pub async fn bytes_grow_with_what_is_committed(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut before = store.session(scene.id()).await.unwrap().unwrap().bytes;
    for text in ["a".repeat(1_000), "b".repeat(50_000)] {
        scene.say(ConversationId::ROOT, &[&text]).await;
        let after = store.session(scene.id()).await.unwrap().unwrap().bytes;
        assert!(after >= before + text.len() as u64, "{before} and {} more are {after}", text.len());
        before = after;
    }
    let repeated = scene.entry("once");
    let batch = scene.batch(vec![repeated.into_write()]);
    scene.send(batch.clone()).await.unwrap();
    let once = store.session(scene.id()).await.unwrap();
    scene.send(batch).await.unwrap();
    assert_eq!(store.session(scene.id()).await.unwrap(), once, "what is stored once counts once");
}
