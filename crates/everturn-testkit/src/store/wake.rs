//! Which sessions want to run, and when the next one does.

use everturn_core::{
    clock::Timestamp,
    id::SessionId,
    storage::{Due, NewSession, Receipt, RunnableQuery, Store, Taken, Write},
};

use super::scene::{Scene, UNTIL, owner, session_id};

/// The `n`th session, which wants to run at `due`.
async fn due(store: &Store, n: u16, due: Due) -> Scene {
    let mut scene = Scene::create(store, n, NewSession::default()).await;
    let mut batch = scene.batch(vec![]);
    batch.due = due;
    scene.send(batch).await.unwrap();
    scene
}

/// The same, which nobody owns.
async fn left(store: &Store, n: u16, when: Due) -> Scene {
    let scene = due(store, n, when).await;
    store.release(scene.id(), owner(), scene.lease.epoch).await.unwrap();
    scene
}

async fn at(store: &Store, now: i64) -> Vec<SessionId> {
    store.runnable(RunnableQuery::at(Timestamp(now))).await.unwrap()
}

/// What is due now runs at once, what is due later when its time has come, and what is not due never.
pub async fn a_session_is_runnable_when_its_due_has_come(store: &Store) {
    left(store, 1, Due::None).await;
    left(store, 2, Due::At(Timestamp(50))).await;
    left(store, 3, Due::Now).await;
    assert_eq!(at(store, 49).await, [session_id(3)]);
    assert_eq!(at(store, 50).await, [session_id(3), session_id(2)]);
    assert_eq!(at(store, i64::from(u32::MAX)).await, [session_id(3), session_id(2)]);
}

/// Each commit says anew when the session wants to run.
pub async fn the_last_commit_says_when_a_session_is_due(store: &Store) {
    let mut scene = due(store, 1, Due::Now).await;
    assert_eq!(store.next_due().await.unwrap(), Due::Now);
    scene.commit(vec![]).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Due::None);
    assert_eq!(at(store, UNTIL.0).await, []);
}

/// Who owns a session runs it; when the lease has ended, others may.
pub async fn an_owned_session_is_left_to_its_owner(store: &Store) {
    let scene = due(store, 1, Due::Now).await;
    store.post(scene.mail("signal 5")).await.unwrap();
    assert_eq!(at(store, UNTIL.0 - 1).await, []);
    assert_eq!(at(store, UNTIL.0).await, [session_id(1)]);
}

/// Mail makes a session runnable that wants nothing by itself, until the mail is taken.
pub async fn mail_makes_a_session_runnable(store: &Store) {
    let mut scene = left(store, 1, Due::None).await;
    left(store, 2, Due::None).await;
    store.post(scene.mail("signal 5")).await.unwrap();
    assert_eq!(at(store, 1).await, [session_id(1)]);
    scene.claim_again().await;
    let receipt = Receipt::Accepted { id: None };
    scene.commit(vec![Write::Taken(Taken { key: "signal 5".into(), receipt })]).await.unwrap();
    store.release(scene.id(), owner(), scene.lease.epoch).await.unwrap();
    assert_eq!(at(store, UNTIL.0).await, []);
}

/// The first of those that are due at 30.
fn first(limit: usize) -> RunnableQuery {
    RunnableQuery { limit, ..RunnableQuery::at(Timestamp(30)) }
}

/// Those that are due longest come first, and no more than were asked for.
pub async fn those_due_longest_come_first(store: &Store) {
    for (n, time) in [(1, 30), (2, 10), (3, 40), (4, 20)] {
        left(store, n, Due::At(Timestamp(time))).await;
    }
    assert_eq!(at(store, 30).await, [2, 4, 1].map(session_id));
    assert_eq!(store.runnable(first(2)).await.unwrap(), [2, 4].map(session_id));
    assert_eq!(store.runnable(first(0)).await.unwrap(), []);
}

/// A worker that has nothing to do knows how long.
pub async fn the_next_due_is_the_earliest(store: &Store) {
    assert_eq!(store.next_due().await.unwrap(), Due::None);
    left(store, 1, Due::None).await;
    assert_eq!(store.next_due().await.unwrap(), Due::None);
    left(store, 2, Due::At(Timestamp(30))).await;
    left(store, 3, Due::At(Timestamp(10))).await;
    assert_eq!(store.next_due().await.unwrap(), Due::At(Timestamp(10)));
    left(store, 4, Due::Now).await;
    assert_eq!(store.next_due().await.unwrap(), Due::Now);
}
