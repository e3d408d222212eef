//! How much runs at once, in what order, and how it is stopped.

use std::{sync::Arc, time::Duration};

use everturn_core::{CancelToken, clock::Timestamp};
use everturn_engine::{NewTask, SessionSpec, Settings, Step};
use everturn_testkit::manual::ManualClock;
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, host_with, install, session, start};
use crate::support::store;

/// A task that notes who it is for and counts how many are inside at once.
fn counting(log: &Log, gate: &CancelToken) -> Probe {
    let (log, gate) = (log.clone(), gate.clone());
    Probe::new(move |_, input, _| {
        let (log, gate) = (log.clone(), gate.clone());
        async move {
            log.note(input.as_str().unwrap());
            gate.cancelled().await;
            Ok(Step::done(Value::Null))
        }
    })
}

async fn start_many(session: &everturn_engine::LiveSession, name: &str, count: usize) {
    session.resume();
    let mut tx = session.begin().await.unwrap();
    for _ in 0..count {
        tx.create_task(NewTask::of::<Probe>(ROOT, &json!(name)).unwrap()).unwrap();
    }
    tx.commit().await.unwrap();
}

/// Lets everything run that can.
async fn settle(log: &Log) {
    let mut seen = usize::MAX;
    while seen != log.read().len() {
        seen = log.read().len();
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
}

// Rule 12.
#[tokio::test]
async fn no_more_steps_run_at_once_than_the_process_and_the_session_may() {
    let (store, clock, log, gate) =
        (store(), ManualClock::at(Timestamp(1_000)), Log::default(), CancelToken::new());
    let settings = Settings { running_max: 5, session_running_max: 3, ..Settings::default() };
    let harness = host_with(&store, &clock, install(counting(&log, &gate)), settings).await;
    let sessions = [(); 2].map(|()| harness.create(SessionSpec::default()));
    let [one, two] = sessions;
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    start_many(&one, "one", 10).await;
    start_many(&two, "two", 10).await;
    settle(&log).await;
    assert_eq!((log.count("one"), log.count("two")), (3, 2));
    gate.cancel();
    for session in [&one, &two] {
        session.root().wait_idle().await.unwrap();
    }
    assert_eq!(log.read().len(), 20);
}

// Rule 12: 1,000 due at once do not starve a session with one.
#[tokio::test]
async fn a_session_with_a_thousand_ready_tasks_takes_turns_with_one_that_has_one() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let open = CancelToken::new();
    open.cancel();
    let settings = Settings { running_max: 2, ..Settings::default() };
    let harness = host_with(&store, &clock, install(counting(&log, &open)), settings).await;
    let flood = harness.create(SessionSpec::default()).await.unwrap();
    let single = harness.create(SessionSpec::default()).await.unwrap();
    start_many(&flood, "flood", 1_000).await;
    single.resume();
    single.quiescent().await.unwrap();
    let before = log.count("flood");
    start(&single, json!("single")).await.ended().await.unwrap();
    let between = log.read().iter().position(|noted| noted == "single").unwrap() - before;
    assert!(between < 20, "{between} of the flood came before it");
    flood.root().wait_idle().await.unwrap();
    assert_eq!(log.count("flood"), 1_000);
}

#[tokio::test]
async fn tasks_of_a_session_take_turns() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let ran = log.clone();
    let probe = Probe::<0>::new(move |_, input, state| {
        ran.note(input.as_str().unwrap());
        async move { Ok(if state == "begin.." { Step::done(Value::Null) } else { Step::go(format!("{state}.")) }) }
    });
    let settings = Settings { session_running_max: 1, ..Settings::default() };
    let harness = host_with(&store, &clock, install(probe), settings).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    let hold = session.hold();
    start_many(&session, "a", 1).await;
    start_many(&session, "b", 1).await;
    drop(hold);
    session.root().wait_idle().await.unwrap();
    assert_eq!(log.read(), ["a", "b", "a", "b", "a", "b"]);
}

// Rule 9.
#[tokio::test]
async fn a_held_session_begins_nothing_until_it_is_let_go_of() {
    let log = Log::default();
    let open = CancelToken::new();
    open.cancel();
    let (session, ..) = session(install(counting(&log, &open))).await;
    let (first, second) = (session.hold(), session.hold());
    start_many(&session, "held", 3).await;
    session.quiescent().await.unwrap();
    drop(first);
    session.quiescent().await.unwrap();
    assert_eq!(log.read().len(), 0);
    drop(second);
    session.quiescent().await.unwrap();
    assert_eq!(log.read().len(), 3);
}

// Rule 11.
#[tokio::test]
async fn a_session_closes_without_code_that_does_not_stop() {
    let (session, clock, _) = session(install(Probe::<0>::new(|_, _, _| std::future::pending()))).await;
    let id = session.id();
    start(&session, Value::Null).await;
    let mut graphs = session.task_graph();
    while !graphs.next().await.unwrap().tasks.iter().any(|task| task.status.to_string() == "running") {}
    let closing = {
        let session = session.clone();
        tokio::spawn(async move { session.close().await })
    };
    while !closing.is_finished() {
        clock.advance(Duration::from_millis(500));
        tokio::task::yield_now().await;
    }
    closing.await.unwrap().unwrap();
    assert!(clock.sleepers() < 5);
    let reader = everturn_engine::SessionReader::open(session.store().clone(), id).await.unwrap();
    let graph = reader.inspect().await.unwrap();
    assert_eq!(graph.tasks[0].status.to_string(), "ready", "its record is as it was");
}

// Rule 11: code that blocks its thread cannot be dropped; the session is closed without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_closes_without_code_that_blocks_its_thread() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let (began, begun) = tokio::sync::oneshot::channel();
    let began = Arc::new(std::sync::Mutex::new(Some(began)));
    let (session, clock, _) = session(install(Probe::<0>::new(move |_, _, _| {
        let (blocked, began) = (blocked.clone(), began.clone());
        async move {
            began.lock().unwrap().take().map(|began| began.send(()));
            let _released = blocked.lock().unwrap().recv();
            Ok(Step::done(Value::Null))
        }
    })))
    .await;
    start(&session, Value::Null).await;
    begun.await.unwrap();
    let closing = {
        let session = session.clone();
        tokio::spawn(async move { session.close().await })
    };
    while !closing.is_finished() {
        clock.advance(Duration::from_millis(500));
        tokio::task::yield_now().await;
    }
    closing.await.unwrap().unwrap();
    release.send(()).unwrap();
}

#[tokio::test]
async fn closing_stops_a_step_without_a_mark_and_it_runs_again() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let ran = log.clone();
    let probe = Probe::<0>::new(move |cx, _, _| {
        ran.note("ran");
        let first = ran.count("ran") == 1;
        async move {
            if first {
                cx.cancel().cancelled().await;
                return Err(everturn_engine::TaskError::new("stopped", "half way"));
            }
            Ok(Step::done(Value::Null))
        }
    });
    let harness = super::probe::host(&store, &clock, install(probe)).await;
    let session = harness.create(SessionSpec::default()).await.unwrap();
    let task = start(&session, Value::Null).await.id();
    log.noted(1).await;
    session.close().await.unwrap();
    let session = harness.open_session(session.id()).await.unwrap();
    assert!(super::probe::outcome(&session, task).await.is_completed());
    assert_eq!(log.count("ran"), 2);
}

// A step could begin behind a hold that had been given.
// Guards: while it is held, a session begins nothing, on however many threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_that_was_given_holds_on_many_threads() {
    let (log, open) = (Log::default(), CancelToken::new());
    open.cancel();
    let (session, ..) = session(install(counting(&log, &open))).await;
    for round in 0..200 {
        start_many(&session, "one", 3).await;
        let hold = session.hold();
        session.quiescent().await.unwrap();
        let seen = log.read().len();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(log.read().len(), seen, "round {round}");
        drop(hold);
    }
    session.root().wait_idle().await.unwrap();
    assert_eq!(log.read().len(), 600);
}

// Steps, signals, aborts and children on many threads at once: all end, and nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_on_many_threads_all_end() {
    let store = store();
    let probe = Probe::<0>::new(|cx, input, state| async move {
        let depth = input.as_u64().unwrap();
        if state == "begin" && depth > 0 {
            let mut tx = cx.begin().await?;
            let mut on = Vec::new();
            for _ in 0..3 {
                on.push(tx.create_task(cx.child::<Probe>(&json!(depth - 1))?)?);
            }
            let policy = everturn_core::task::WaitPolicy::FailFast;
            let step = Step::wait_tasks(on, policy, "waited".into());
            return Ok(if depth % 2 == 0 { step.joined() } else { step }.with(tx));
        }
        if state == "begin" && cx.id().0 % 5 == 0 {
            return Ok(Step::wait_signal("go", "told".into()));
        }
        if cx.id().0 % 17 == 0 {
            return Ok(Step::fail(everturn_core::task::TaskFailure::new("no", "it fails")));
        }
        Ok(Step::done(Value::Null))
    });
    let harness = everturn_engine::Harness::builder(store.clone()).install(install(probe)).unwrap();
    let harness = harness.open().await.unwrap();
    let session = harness.create(SessionSpec::default()).await.unwrap();
    for _ in 0..20 {
        start(&session, json!(3)).await;
    }
    let mut graphs = session.task_graph();
    loop {
        let graph = graphs.next().await.unwrap();
        if graph.tasks.is_empty() {
            break;
        }
        for task in &graph.tasks {
            if let everturn_engine::task::Status::Listening { .. } = task.status {
                // It may have ended meanwhile.
                let _ = session.signal(task.record.id, super::probe::go()).await;
            }
        }
    }
    session.root().wait_idle().await.unwrap();
    assert_eq!(harness.verify(session.id()).await.unwrap(), []);
}

// Whoever waited for a session to rest waited for ever when it was closed meanwhile.
// Guards: the wait ends with why the session is gone.
#[tokio::test]
async fn who_waits_for_a_session_to_rest_is_told_that_it_was_closed() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        cx.cancel().cancelled().await;
        Err(everturn_engine::TaskError::new("stopped", "half way"))
    })))
    .await;
    start(&session, Value::Null).await;
    let waiting = {
        let session = session.clone();
        tokio::spawn(async move { session.quiescent().await })
    };
    tokio::task::yield_now().await;
    session.close().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), everturn_core::ErrorKind::Closed { .. }), "{error}");
}
