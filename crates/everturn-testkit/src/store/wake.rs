//! Which sessions want to run, and when the next one does.

use everturn_core::{
    clock::Timestamp,
    id::SessionId,
    storage::{Code, Due, NewSession, Receipt, RunnableQuery, Store, Taken, Write},
    task::{BlockedBy, TaskOutcome, TaskRecord, TaskState},
};

use super::scene::{IntoWrite, Scene, UNTIL, json, owner, session_id};

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

/// Commits a task that waits for code of the kind `app.pay`, version 3, and gives the session up.
async fn leave_blocked(scene: &mut Scene, due: Due) -> TaskRecord {
    let task = Scene::blocked(scene.task(), 3);
    leave(scene, &task, due).await;
    task
}

async fn leave(scene: &mut Scene, task: &TaskRecord, due: Due) {
    let mut batch = scene.batch(vec![task.clone().into_write()]);
    batch.due = due;
    scene.send(batch).await.unwrap();
    scene.store.release(scene.id(), owner(), scene.lease.epoch).await.unwrap();
}

/// What is runnable for who has code, at 30.
async fn with_code(store: &Store, code: &[(&str, u32)]) -> Vec<SessionId> {
    let code = code.iter().map(|(kind, version)| Code { kind: (*kind).into(), version: *version });
    let query = RunnableQuery { code: code.collect(), ..RunnableQuery::at(Timestamp(30)) };
    store.runnable(query).await.unwrap()
}

/// Work that was blocked is found by who has its code, in the version that it needs or a newer one, and by nobody else.
pub async fn blocked_work_is_runnable_for_who_has_its_code(store: &Store) {
    let mut scene = Scene::new(store).await;
    leave_blocked(&mut scene, Due::None).await;
    left(store, 2, Due::None).await;
    for code in [&[][..], &[("app.pay", 2)], &[("app.paint", 3)], &[("app", 3), ("app.pay", 0)]] {
        assert_eq!(with_code(store, code).await, [], "with {code:?}");
    }
    let both: &[_] = &[("app.paint", 1), ("app.pay", 3)];
    for code in [&[("app.pay", 3)][..], &[("app.pay", 4)], both, &[("app.pay", 3), ("app.pay", 4)]] {
        assert_eq!(with_code(store, code).await, [session_id(1)], "with {code:?}");
    }
    assert_eq!(store.next_due().await.unwrap(), Due::None, "it waits for code, not for a moment");
}

/// What newer code could not migrate is found by the code that wrote it: a version that was taken back goes on.
pub async fn what_newer_code_cannot_migrate_is_found_by_older(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut task = TaskRecord { version: 2, ..Scene::blocked(scene.task(), 4) };
    task.blocked.as_mut().unwrap().by = BlockedBy::MigrationFailed;
    leave(&mut scene, &task, Due::None).await;
    for (version, found) in [(1, &[][..]), (2, &[session_id(1)]), (3, &[]), (4, &[session_id(1)])] {
        assert_eq!(with_code(store, &[("app.pay", version)]).await, found, "with version {version}");
    }
}

/// A task that moved on, or has ended, waits for no code; others of its session still do.
pub async fn work_that_moves_on_is_blocked_no_more(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut moved = leave_blocked(&mut scene, Due::None).await;
    scene.claim_again().await;
    let over = leave_blocked(&mut scene, Due::None).await;
    moved.go(TaskState::Sleeping { checkpoint: json("1"), until: UNTIL });
    let ended = TaskState::Ended { outcome: TaskOutcome::Orphaned { reason: "enough".into() } };
    // Whoever ended it left why it had been blocked in the record.
    for task in [moved, TaskRecord { state: ended, ..over }] {
        assert_eq!(with_code(store, &[("app.pay", 3)]).await, [session_id(1)]);
        scene.claim_again().await;
        leave(&mut scene, &task, Due::None).await;
    }
    assert_eq!(with_code(store, &[("app.pay", 3)]).await, []);
}

/// Who owns a session has the code or has not: others are not asked.
pub async fn blocked_work_of_an_owned_session_is_left_to_its_owner(store: &Store) {
    let mut scene = Scene::new(store).await;
    let task = Scene::blocked(scene.task(), 3);
    scene.commit(vec![task.into_write()]).await.unwrap();
    assert_eq!(with_code(store, &[("app.pay", 3)]).await, []);
    store.release(scene.id(), owner(), scene.lease.epoch).await.unwrap();
    assert_eq!(with_code(store, &[("app.pay", 3)]).await, [session_id(1)]);
}

/// New code is due at once, before what has been due for long; and a session comes once, whatever it wants to run for.
pub async fn new_code_is_due_at_once(store: &Store) {
    left(store, 1, Due::At(Timestamp(10))).await;
    for (n, due) in [(2, Due::At(Timestamp(20))), (3, Due::At(Timestamp(90))), (4, Due::None)] {
        let mut scene = Scene::create(store, n, NewSession::default()).await;
        let second = Scene::blocked(scene.task(), 1);
        scene.commit(vec![second.into_write()]).await.unwrap();
        leave_blocked(&mut scene, due).await;
        if n == 4 {
            store.post(scene.mail("signal 5")).await.unwrap();
        }
    }
    assert_eq!(at(store, 30).await, [4, 1, 2].map(session_id));
    let code = [("app.pay", 3)];
    assert_eq!(with_code(store, &code).await, [2, 3, 4, 1].map(session_id));
    let code = vec![Code { kind: "app.pay".into(), version: 3 }];
    for (limit, expected) in [(0, &[][..]), (1, &[2]), (3, &[2, 3, 4]), (9, &[2, 3, 4, 1])] {
        let query = RunnableQuery { code: code.clone(), ..first(limit) };
        let expected: Vec<_> = expected.iter().copied().map(session_id).collect();
        assert_eq!(store.runnable(query).await.unwrap(), expected, "the first {limit}");
    }
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
