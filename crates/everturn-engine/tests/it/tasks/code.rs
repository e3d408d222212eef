//! Code that is missing, too old, or newer than a record.

use everturn_core::{
    clock::Timestamp,
    storage::{Code, RunnableQuery},
    task::{BlockedBy, TaskOutcome, TaskState, tree::Aborting},
};
use everturn_engine::{Extension, SessionSpec, Step};
use everturn_testkit::manual::ManualClock;
use serde_json::{Value, json};

use super::probe::{Probe, ROOT, go, host, install, outcome, session, start};
use crate::support::store;

// Rule 3.
#[tokio::test]
async fn a_task_whose_code_is_missing_is_blocked_and_goes_on_when_it_arrives() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let harness = host(&store, &clock, Extension::new("none")).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let blocked = task.record().await.unwrap().blocked.clone().unwrap();
    assert_eq!((blocked.by, blocked.needs), (BlockedBy::Missing, 1));
    let status = session.inspect().await.unwrap().task(task.id()).unwrap().status.to_string();
    assert_eq!(status, "blocked, missing: no code of kind test.0 is installed");

    harness.install(install(Probe::<0>::new(|_, _, _| async { Ok(Step::done(json!(1))) }))).unwrap();
    let ended = task.ended().await.unwrap();
    assert_eq!((ended.output().unwrap(), &ended.record().blocked), (Some(json!(1)), &None));
}

// Rule 3: who has the code finds the work, and nobody else is woken for it.
#[tokio::test]
async fn blocked_work_is_due_for_who_has_its_code_only() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let harness = host(&store, &clock, Extension::new("none")).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let id = session.id();
    session.close().await.unwrap();
    let query = |code: &[&str]| RunnableQuery {
        code: code.iter().map(|kind| Code { kind: (*kind).into(), version: 1 }).collect(),
        ..RunnableQuery::at(Timestamp(9_000))
    };
    assert_eq!(store.runnable(query(&[])).await.unwrap(), []);
    assert_eq!(store.runnable(query(&["test.1"])).await.unwrap(), []);
    assert_eq!(store.runnable(query(&["test.0"])).await.unwrap(), [id]);
}

// Rules 3 and 4.
#[tokio::test]
async fn code_that_is_too_old_or_cannot_migrate_leaves_the_task_as_it_is() {
    for (probe, by) in [
        (install(Probe::<0, 1>::new(|_, _, _| async { Ok(Step::done(Value::Null)) })), BlockedBy::TooOld),
        (
            install(Probe::<0, 3>::new(|_, _, _| async { Ok(Step::done(Value::Null)) })),
            BlockedBy::MigrationFailed,
        ),
    ] {
        let (session, ..) = session(probe).await;
        let task = session.start_task::<Probe<0, 2>>(ROOT, &json!("given")).await.unwrap();
        session.quiescent().await.unwrap();
        let record = task.record().await.unwrap();
        assert_eq!(record.blocked.as_ref().map(|blocked| blocked.by), Some(by));
        assert_eq!((record.version, record.input.get()), (2, "\"given\""));
        assert_eq!(record.state, TaskState::Ready { checkpoint: None });
    }
}

// Rule 3.
#[tokio::test]
async fn a_blocked_task_that_is_told_to_stop_is_orphaned() {
    let (session, ..) = session(Extension::new("none")).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    assert_eq!(task.abort("enough").await.unwrap(), Aborting::Marked);
    let TaskOutcome::Orphaned { reason } = outcome(&session, task.id()).await else { panic!("orphaned") };
    assert_eq!(reason, "enough; missing: no code of kind test.0 is installed");
}

// Rule 4.
#[tokio::test]
async fn a_newer_version_migrates_before_the_step_and_the_move_stores_it() {
    let probe = Probe::<0, 2>::new(|_, input, state| async move {
        Ok(match state.as_str() {
            "begin" => Step::wait_signal("go", "on".into()),
            state => Step::done(json!([input, state])),
        })
    });
    let probe =
        probe.migrate(|_, checkpoint| Ok((everturn_core::json::RawJson::parse("\"new\"")?, checkpoint)));
    let (session, ..) = session(install(probe)).await;
    let task = session.start_task::<Probe<0, 1>>(ROOT, &json!("old")).await.unwrap();
    session.quiescent().await.unwrap();
    let record = task.record().await.unwrap();
    assert_eq!((record.version, record.input.get()), (2, "\"new\""), "stored with the first move");
    task.signal(go()).await.unwrap();
    assert_eq!(outcome(&session, task.id()).await.read::<Value>().unwrap(), Some(json!(["new", "on"])));
}

// Rule 3: a version that was taken back.
#[tokio::test]
async fn what_newer_code_cannot_migrate_is_still_due_for_the_code_that_wrote_it() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let newer = install(Probe::<0, 2>::new(|_, _, _| async { Ok(Step::done(Value::Null)) }));
    let session = host(&store, &clock, newer).await.create(SessionSpec::default()).await.unwrap();
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    assert_eq!(task.record().await.unwrap().blocked.clone().unwrap().by, BlockedBy::MigrationFailed);
    let id = session.id();
    session.close().await.unwrap();
    let query = RunnableQuery {
        code: vec![Code { kind: "test.0".into(), version: 1 }],
        ..RunnableQuery::at(Timestamp(9_000))
    };
    assert_eq!(store.runnable(query).await.unwrap(), [id], "version 1 wrote it and can run it");
}
