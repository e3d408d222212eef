//! Session rows and the list of them.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{Epoch, Seq},
    storage::{Created, NewSession, SessionQuery, SessionRow, Store},
};

use super::scene::{Scene, UNTIL, creation, owner, session_id};

fn requested(request: &str) -> NewSession {
    NewSession { request: Some(request.into()), ..NewSession::default() }
}

/// The list is read in pages, which a new session does not shift.
pub async fn sessions_come_newest_first_a_page_at_a_time(store: &Store) {
    for n in [2, 5, 1, 4, 3] {
        Scene::create(store, n, NewSession::default()).await;
    }
    let page = |after, limit| SessionQuery { after, limit, ..SessionQuery::default() };
    let ids = |rows: Vec<SessionRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let first = ids(store.sessions(page(None, 2)).await.unwrap());
    assert_eq!(first, [session_id(5), session_id(4)]);
    Scene::create(store, 6, NewSession::default()).await;
    let rest = ids(store.sessions(page(Some(first[1]), 10)).await.unwrap());
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
    let ids = |rows: Vec<SessionRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(store.sessions(by("c-1")).await.unwrap()), [session_id(1)]);
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
    let row = SessionRow {
        id: session_id(1),
        new,
        created: Timestamp(0),
        used: Timestamp(0),
        head: Seq(1),
        epoch: Epoch(1),
        minted: 1,
        bytes: 0,
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
