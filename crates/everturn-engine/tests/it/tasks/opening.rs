//! Opening a session, and what an owner finds that an earlier one left.

use std::time::Duration;

use everturn_core::{
    clock::Timestamp,
    id::{Epoch, OwnerId, SessionId},
    storage::{Layer, Layered, Store},
    task::{TaskOutcome, TaskState},
};
use everturn_engine::{Extension, NewTask, SessionSpec, Step};
use everturn_testkit::manual::ManualClock;
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, host, install, listener, outcome, start, state};
use crate::support::store;

// Rule 1.
#[tokio::test]
async fn opening_and_reading_run_nothing_and_resuming_does() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let idle = host(&store, &clock, Extension::new("none")).await;
    let session = idle.create(SessionSpec::default()).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let id = tx.create_task(NewTask::of::<Probe>(ROOT, &Value::Null).unwrap()).unwrap();
    tx.commit().await.unwrap();
    session.close().await.unwrap();

    let ran = log.clone();
    let probe = Probe::<0>::new(move |_, _, _| {
        ran.note("ran");
        async { Ok(Step::done(Value::Null)) }
    });
    let harness = host(&store, &clock, install(probe)).await;
    let session = harness.open_session(session.id()).await.unwrap();
    let head = session.head();
    session.inspect().await.unwrap();
    session.entries(ROOT, None, 9).await.unwrap();
    assert_eq!((session.head(), log.count("ran")), (head, 0));
    session.resume();
    assert!(outcome(&session, id).await.is_completed());
    assert_eq!(log.count("ran"), 1);
}

/// A store whose owners never give a session up: they end with their process.
struct Left(Store);

impl Layer for Left {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn release(&self, _: SessionId, _: OwnerId, _: Epoch) -> everturn_core::Result<()> {
        Ok(())
    }
}

/// A step that never ends, and notes that it began.
fn hanging(log: &Log) -> Probe {
    let log = log.clone();
    Probe::new(move |_, _, _| {
        log.note("ran");
        std::future::pending()
    })
}

// Rule 1: a step that kills its process does not kill node after node.
#[tokio::test]
async fn a_step_that_ends_with_its_process_ten_times_is_a_crash_loop() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let store = Store::new(Layered(Left(store)));
    // Each life is another owner's.
    let life = || host(&store, &clock, install(hanging(&log)));
    let first = life().await.create(SessionSpec::default()).await.unwrap();
    let (id, task) = (first.id(), start(&first, Value::Null).await.id());
    log.noted(1).await;
    drop(first);
    for attempt in 1..10 {
        clock.advance(Duration::from_secs(60));
        let session = life().await.open_session(id).await.unwrap();
        session.resume();
        log.noted(attempt + 1).await;
        assert_eq!(session.task::<Probe>(task).record().await.unwrap().attempts as usize, attempt);
    }
    clock.advance(Duration::from_secs(60));
    let session = life().await.open_session(id).await.unwrap();
    let TaskOutcome::Faulted { error, .. } = outcome(&session, task).await else { panic!("it is faulted") };
    assert_eq!((error.kind.as_str(), log.count("ran")), ("crash_loop", 10));
}

// Long steps that outlive ten deploys were taken for steps that kill their process.
// Guards: an owner that gives the session up in order did not die with its tasks.
#[tokio::test]
async fn a_step_that_is_handed_over_in_order_is_no_crash_loop() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let harness = host(&store, &clock, install(hanging(&log))).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    let (id, task) = (session.id(), start(&session, Value::Null).await.id());
    drop(session);
    for _ in 0..20 {
        let session = harness.open_session(id).await.unwrap();
        session.resume();
        let seen = log.read().len();
        log.noted(seen + 1).await;
        let record = session.task::<Probe>(task).record().await.unwrap();
        assert!(record.is_live() && record.attempts == 0);
    }
}

#[tokio::test]
async fn a_move_clears_the_attempts() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let idle = host(&store, &clock, Extension::new("none")).await;
    let session = idle.create(SessionSpec::default()).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let id = tx.create_task(NewTask::of::<Probe>(ROOT, &Value::Null).unwrap()).unwrap();
    tx.commit().await.unwrap();
    session.close().await.unwrap();
    let session = host(&store, &clock, install(listener())).await.open_session(session.id()).await.unwrap();
    session.quiescent().await.unwrap();
    let record = session.task::<Probe>(id).record().await.unwrap();
    assert!(matches!(record.state, TaskState::Listening { .. }));
    assert_eq!(record.attempts, 0);
}

// Rule 7.
#[tokio::test]
async fn what_is_abandoned_on_restart_ends_at_the_first_resume() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let harness = host(&store, &clock, install(listener())).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let new = NewTask { abandon_on_restart: true, ..NewTask::of::<Probe>(ROOT, &Value::Null).unwrap() };
    let task = tx.create_task(new).unwrap();
    tx.commit().await.unwrap();
    session.quiescent().await.unwrap();
    assert!(matches!(state(&session, task).await, TaskState::Listening { .. }));
    session.close().await.unwrap();
    let session = harness.open_session(session.id()).await.unwrap();
    assert!(matches!(state(&session, task).await, TaskState::Listening { .. }), "opening runs nothing");
    let outcome = outcome(&session, task).await;
    assert_eq!(outcome, TaskOutcome::Aborted { reason: "restart".into(), output: None });
}

// What an owner left was counted in one commit, whatever it weighed; one that was too heavy was tried for ever.
// Guards: any number of tasks of any size go on after a crash.
#[tokio::test]
async fn what_was_left_may_weigh_more_than_a_commit() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let store = Store::new(Layered(Left(store)));
    let idle = host(&store, &clock, Extension::new("none")).await;
    let session = idle.create(SessionSpec::default()).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..40 {
        let mut tx = session.begin().await.unwrap();
        let new = NewTask::of::<Probe>(ROOT, &Value::String("x".repeat(900 << 10))).unwrap();
        tasks.push(tx.create_task(NewTask { abandon_on_restart: true, ..new }).unwrap());
        tx.commit().await.unwrap();
    }
    let id = session.id();
    drop(session);
    clock.advance(Duration::from_secs(60));
    let session = host(&store, &clock, install(listener())).await.open_session(id).await.unwrap();
    for task in tasks {
        assert_eq!(outcome(&session, task).await.to_string(), "aborted (restart)");
    }
}

// Tasks beside one that ended its process ten times were ended with it, as if each of them had done so.
// Guards: who is suspected runs alone, and is counted for itself.
#[tokio::test]
async fn tasks_beside_one_that_ends_its_process_are_not_ended_with_it() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let store = Store::new(Layered(Left(store)));
    // Whoever runs beside the killer does not come to its end either.
    let probe = || {
        let died = log.clone();
        Probe::<0>::new(move |_, input, _| {
            let (died, is_killer) = (died.clone(), input == json!("killer"));
            async move {
                if is_killer {
                    died.note("died");
                }
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                match is_killer {
                    true => std::future::pending().await,
                    false => Ok(Step::done(Value::Null)),
                }
            }
        })
    };
    let life = || host(&store, &clock, install(probe()));
    let first = life().await.create(SessionSpec::default()).await.unwrap();
    let hold = first.hold();
    let mut pay = vec![start(&first, json!("pay")).await.id()];
    let killer = start(&first, json!("killer")).await.id();
    pay.push(start(&first, json!("pay")).await.id());
    let id = first.id();
    drop((hold, first));
    for died in 1..10 {
        clock.advance(Duration::from_secs(60));
        let session = life().await.open_session(id).await.unwrap();
        session.resume();
        log.noted(died).await;
    }
    clock.advance(Duration::from_secs(60));
    let session = life().await.open_session(id).await.unwrap();
    assert!(outcome(&session, killer).await.to_string().starts_with("faulted (crash_loop"));
    for task in pay {
        assert!(outcome(&session, task).await.is_completed());
    }
}
