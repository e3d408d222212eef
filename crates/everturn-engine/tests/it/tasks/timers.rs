//! Sleeps, signals and mail: what wakes a task, also when nobody has its session open.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    CancelToken, ErrorKind,
    clock::{Clock, Timestamp},
    id::{SessionId, TaskId},
    json::RawJson,
    storage::{Due, Mail, MailFilter, MailKind, Posted, Receipt, RunnableQuery, Store},
    task::{Signal, TaskState, Woken},
};
use everturn_engine::{Extension, Opener, SessionSpec, Step, SystemEntropy, Worker, WorkerSettings, World};
use everturn_testkit::manual::ManualClock;
use serde_json::{Value, json};

use super::probe::{Probe, host, install, session, start};
use crate::support::store;

const HOUR: Duration = Duration::from_secs(3_600);

fn signal(name: &str, payload: &str) -> Signal {
    Signal { name: name.into(), payload: RawJson::parse(payload).unwrap() }
}

/// A task that listens for `go`, for an hour at most where its input says so, and gives what woke it.
fn listener() -> Probe {
    Probe::new(|cx, input, state| async move {
        if state == "begin" {
            let step = Step::wait_signal("go", "woken".into());
            return Ok(if input == json!("an hour") { step.until(cx.now() + HOUR) } else { step });
        }
        Ok(Step::done(match cx.woken_by() {
            Some(Woken::Signal(signal)) => signal.payload.read()?,
            Some(Woken::TimedOut) => json!("timed out"),
            None => json!("nothing"),
        }))
    })
}

/// A task that sleeps for an hour.
fn sleeper() -> Probe {
    Probe::new(|cx, _, state| async move {
        Ok(match state.as_str() {
            "begin" => Step::sleep(cx.now() + HOUR, "woke".into()),
            _ => Step::done(json!(cx.now().0)),
        })
    })
}

// Rule 2.
#[tokio::test]
async fn a_sleep_survives_a_restart_and_the_store_knows_its_moment() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let harness = host(&store, &clock, install(sleeper())).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    let task = start(&session, Value::Null).await.id();
    session.quiescent().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Due::At(Timestamp(3_601_000)));
    assert_eq!(store.runnable(RunnableQuery::at(Timestamp(3_600_999))).await.unwrap(), []);
    assert_eq!(store.runnable(RunnableQuery::at(Timestamp(3_601_000))).await.unwrap(), [session.id()]);
    clock.advance(2 * HOUR);
    let session = harness.open_session(session.id()).await.unwrap();
    let ended = session.task::<Probe>(task).ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!(7_201_000)));
}

// Rule 2.
#[tokio::test]
async fn a_signal_that_comes_before_anyone_listens_is_kept_and_taken_once() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, state| async move {
        Ok(match state.as_str() {
            "begin" => Step::wait_signal("ready", "first".into()),
            "first" => Step::wait_signal("go", "second".into()),
            "second" => {
                let Some(Woken::Signal(signal)) = cx.woken_by() else {
                    return Ok(Step::done(json!("nothing")));
                };
                Step::wait_signal("go", signal.payload.get().into())
            }
            first => {
                let Some(Woken::Signal(signal)) = cx.woken_by() else {
                    return Ok(Step::done(json!("nothing")));
                };
                Step::done(json!([first, signal.payload.get()]))
            }
        })
    })))
    .await;
    let task = start(&session, Value::Null).await;
    task.signal(signal("go", "1")).await.unwrap();
    task.signal(signal("go", "2")).await.unwrap();
    session.quiescent().await.unwrap();
    assert_eq!(task.record().await.unwrap().signals.len(), 2);
    task.signal(signal("ready", "0")).await.unwrap();
    assert_eq!(task.ended().await.unwrap().output().unwrap(), Some(json!(["1", "2"])));
}

// Rule 2.
#[tokio::test]
async fn who_waits_for_a_signal_is_told_that_the_time_was_up() {
    let (session, clock, _) = session(install(listener())).await;
    let task = start(&session, json!("an hour")).await;
    session.quiescent().await.unwrap();
    clock.advance(HOUR);
    assert_eq!(task.ended().await.unwrap().output().unwrap(), Some(json!("timed out")));
    let late = task.signal(signal("go", "1")).await.unwrap_err();
    assert!(matches!(late.kind(), ErrorKind::Conflict), "{late}");
}

#[tokio::test]
async fn what_woke_a_task_is_in_its_record_until_its_next_move() {
    let (session, ..) = session(install(listener())).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let hold = session.hold();
    task.signal(signal("go", "7")).await.unwrap();
    let record = task.record().await.unwrap();
    assert_eq!(record.woken, Some(Woken::Signal(signal("go", "7"))));
    assert!(matches!(record.state, TaskState::Ready { .. }));
    drop(hold);
    let ended = task.ended().await.unwrap();
    assert_eq!((ended.output().unwrap(), &ended.record().woken), (Some(json!(7)), &None));
}

async fn stranger(store: &Store, clock: &ManualClock) -> Opener {
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    Opener::new(store.clone(), world).await
}

fn mail(session: SessionId, key: &str, kind: MailKind, body: &Value) -> Mail {
    let body = RawJson::of(body).unwrap();
    let (conversation, request, actor, time) = (None, None, "local".into(), Timestamp(1_000));
    Mail { session, key: key.into(), kind, conversation, request, actor, time, body }
}

/// Waits for a mail's receipt, on a clock that it moves.
async fn receipt(store: &Store, clock: &ManualClock, session: SessionId, key: &str) -> Receipt {
    loop {
        let row = store.mail(session, MailFilter::Key(key.into())).await.unwrap().pop().unwrap();
        if let Some(receipt) = row.receipt {
            return receipt;
        }
        clock.advance(Duration::from_millis(50));
        tokio::task::yield_now().await;
    }
}

// Rule 2.
#[tokio::test]
async fn a_signal_by_mail_reaches_its_task_and_ends_in_a_receipt() {
    let (session, clock, store) = session(install(listener())).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let opener = stranger(&store, &clock).await;
    let body = json!({ "task": task.id(), "name": "go", "payload": { "paid": 12 } });
    let signal = mail(session.id(), "s-1", MailKind::Signal, &body);
    assert_eq!(opener.post(signal.clone()).await.unwrap(), Posted::New);
    let taken = receipt(&store, &clock, session.id(), "s-1").await;
    assert_eq!(taken, Receipt::Accepted { id: Some(task.id().0) });
    assert_eq!(task.ended().await.unwrap().output().unwrap(), Some(json!({ "paid": 12 })));
    assert_eq!(opener.post(signal).await.unwrap(), Posted::Ended(taken), "it is taken once");
}

#[tokio::test]
async fn mail_that_cannot_be_done_is_refused_with_its_reason() {
    let (session, clock, store) = session(install(sleeper())).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let opener = stranger(&store, &clock).await;
    for (key, kind, body, refused) in [
        ("a", MailKind::Signal, json!({ "task": 999, "name": "go", "payload": 1 }), "not_found"),
        ("b", MailKind::Signal, json!({ "task": task.id() }), "invalid"),
        ("c", MailKind::Signal, json!({ "task": task.id(), "name": "", "payload": 1 }), "invalid"),
        ("d", MailKind::Abort, json!({ "task": 999, "reason": "x" }), "not_found"),
        ("e", MailKind::Undo, json!({}), "invalid"),
    ] {
        opener.post(mail(session.id(), key, kind, &body)).await.unwrap();
        let Receipt::Refused { kind, .. } = receipt(&store, &clock, session.id(), key).await else {
            panic!("{key}")
        };
        assert_eq!(kind, refused, "{key}");
    }
    assert!(task.record().await.unwrap().is_live());
    let body = json!({ "task": task.id(), "reason": "by mail" });
    opener.post(mail(session.id(), "f", MailKind::Abort, &body)).await.unwrap();
    assert_eq!(receipt(&store, &clock, session.id(), "f").await, Receipt::Accepted { id: Some(task.id().0) });
    assert_eq!(task.ended().await.unwrap().outcome().to_string(), "aborted (by mail)");
}

// 10,000 sleeping tasks cost no wake-ups.
#[tokio::test]
async fn ten_thousand_sleeping_tasks_wait_by_one_timer() {
    let (session, clock, _) = session(install(sleeper())).await;
    let hold = session.hold();
    let mut tx = session.begin().await.unwrap();
    for _ in 0..10_000 {
        tx.create_task(everturn_engine::NewTask::of::<Probe>(super::probe::ROOT, &Value::Null).unwrap())
            .unwrap();
    }
    tx.commit().await.unwrap();
    drop(hold);
    session.quiescent().await.unwrap();
    let (slept, sleepers) = (clock.slept(), clock.sleepers());
    assert!(sleepers < 10, "{sleepers} wait for the clock: the loop, the lease and the mail");
    for _ in 0..10 {
        clock.advance(Duration::from_secs(1));
        session.quiescent().await.unwrap();
    }
    let again = clock.slept() - slept;
    assert!(again < 40, "waited {again} times in ten seconds");
}

/// A worker over a store, and what stops it.
async fn worker(
    store: &Store,
    clock: &ManualClock,
    extension: Extension,
) -> (tokio::task::JoinHandle<()>, CancelToken) {
    let harness = host(store, clock, extension).await;
    let stop = CancelToken::new();
    let token = stop.clone();
    let working = tokio::spawn(async move {
        Worker::new(harness, WorkerSettings::default()).run(&token).await.unwrap();
    });
    (working, stop)
}

/// How a task of a session that others run has ended.
async fn ended(store: &Store, clock: &ManualClock, session: SessionId, task: TaskId) -> String {
    let reader = everturn_engine::SessionReader::open(store.clone(), session).await.unwrap();
    loop {
        let query = everturn_core::storage::TaskQuery::one(session, task);
        let record = reader.store().tasks(query).await.unwrap().pop().unwrap();
        if let TaskState::Ended { outcome } = &record.state {
            return outcome.to_string();
        }
        clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
}

// Rule 2: a worker wakes sessions that nobody has open.
#[tokio::test]
async fn a_worker_wakes_a_session_when_its_moment_has_come_and_when_it_has_mail() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let code = || {
        Extension::new("test").task(sleeper()).task(Probe::<1>::new(|_, _, state| async move {
            Ok(if state == "begin" { Step::wait_signal("go", "on".into()) } else { Step::done(Value::Null) })
        }))
    };
    let harness = host(&store, &clock, code()).await;
    let sleeping = harness.create(SessionSpec::default()).await.unwrap();
    let asleep = start(&sleeping, Value::Null).await.id();
    let listening = harness.create(SessionSpec::default()).await.unwrap();
    let listens = listening.start_task::<Probe<1>>(super::probe::ROOT, &Value::Null).await.unwrap().id();
    for session in [&sleeping, &listening] {
        session.quiescent().await.unwrap();
        session.close().await.unwrap();
    }
    let (working, stop) = worker(&store, &clock, code()).await;
    assert_eq!(ended(&store, &clock, sleeping.id(), asleep).await, "completed");
    assert!(clock.now() >= Timestamp(3_601_000));
    let body = json!({ "task": listens, "name": "go", "payload": null });
    let opener = stranger(&store, &clock).await;
    opener.post(mail(listening.id(), "s-1", MailKind::Signal, &body)).await.unwrap();
    assert_eq!(ended(&store, &clock, listening.id(), listens).await, "completed");
    stop.cancel();
    working.await.unwrap();
    assert!(harness.open_session(sleeping.id()).await.is_ok(), "it gives up what it has open");
}

#[tokio::test]
async fn a_worker_leaves_alone_what_it_has_no_code_for_until_it_has() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let idle = host(&store, &clock, Extension::new("none")).await;
    let session = idle.create(SessionSpec::default()).await.unwrap();
    let task = start(&session, Value::Null).await.id();
    session.quiescent().await.unwrap();
    session.close().await.unwrap();
    let epoch = session.epoch();
    let (working, stop) = worker(&store, &clock, Extension::new("none")).await;
    for _ in 0..100 {
        clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    assert_eq!(store.session(session.id()).await.unwrap().unwrap().epoch, epoch, "it was not opened");
    let (other, stop_other) = worker(&store, &clock, install(sleeper())).await;
    assert_eq!(ended(&store, &clock, session.id(), task).await, "completed");
    for (working, stop) in [(working, stop), (other, stop_other)] {
        stop.cancel();
        working.await.unwrap();
    }
}

// A task that slept when its code went away made its session due for ever: workers opened it again and again.
// Guards: waiting for code sets no due, however the task waits.
#[tokio::test]
async fn a_task_that_slept_and_has_no_code_any_more_is_not_due() {
    let (store, clock) = (store(), ManualClock::at(Timestamp(1_000)));
    let session =
        host(&store, &clock, install(sleeper())).await.create(SessionSpec::default()).await.unwrap();
    start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    session.close().await.unwrap();
    clock.advance(2 * HOUR);
    let without = host(&store, &clock, Extension::new("none")).await;
    let session = without.open_session(session.id()).await.unwrap();
    session.quiescent().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(store.runnable(RunnableQuery::at(clock.now())).await.unwrap(), []);
    assert_eq!(store.next_due().await.unwrap(), Due::None);
}

// A letter that could be read and not be stored was tried again and again, and those behind it never came.
// Guards: mail that cannot be done keeps no other waiting.
#[tokio::test]
async fn a_letter_that_cannot_be_stored_keeps_no_other_waiting() {
    let (session, clock, store) = session(install(listener())).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let opener = stranger(&store, &clock).await;
    let long = json!({ "task": task.id(), "reason": "x".repeat(900 << 10) });
    opener.post(mail(session.id(), "a", MailKind::Abort, &long)).await.unwrap();
    let signal = json!({ "task": task.id(), "name": "go", "payload": 1 });
    opener.post(mail(session.id(), "b", MailKind::Signal, &signal)).await.unwrap();
    assert_eq!(receipt(&store, &clock, session.id(), "b").await, Receipt::Accepted { id: Some(task.id().0) });
    let refused = receipt(&store, &clock, session.id(), "a").await;
    assert!(matches!(&refused, Receipt::Refused { kind, .. } if kind == "too_large"), "{refused:?}");
}

#[tokio::test]
async fn signals_that_nobody_waits_for_are_kept_up_to_a_limit() {
    let (session, ..) = session(install(sleeper())).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let half = format!("\"{}\"", "x".repeat(600 << 10));
    task.signal(signal("go", &half)).await.unwrap();
    let error = task.signal(signal("go", &half)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge), "{error}");
    assert_eq!(task.record().await.unwrap().signals.len(), 1);
}
