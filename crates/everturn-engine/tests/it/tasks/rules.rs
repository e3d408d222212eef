//! The rules of the tree, of versions and of what is told to stop.

use std::time::Duration;

use everturn_core::{
    CancelToken, ErrorKind,
    clock::Timestamp,
    conversation::Ownership,
    id::TaskId,
    storage::Code,
    task::{
        BlockedBy, TaskFailure, TaskOutcome, TaskState, WaitPolicy,
        tree::{Aborting, Reach},
    },
};
use everturn_engine::{Extension, NewTask, SessionSpec, Step, TaskError, task::Remains};
use everturn_testkit::manual::ManualClock;
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, below, host, install, outcome, session, start, state};
use crate::support::store;

/// A task that listens until it is told to go on, and then completes.
fn listener() -> Probe {
    Probe::new(|_, _, state| async move {
        Ok(if state == "begin" { Step::wait_signal("go", "on".into()) } else { Step::done(Value::Null) })
    })
}

fn go() -> everturn_core::task::Signal {
    everturn_core::task::Signal { name: "go".into(), payload: everturn_core::json::RawJson::empty() }
}

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

// Rule 1: a step that kills its process does not kill node after node.
#[tokio::test]
async fn a_step_that_ends_with_its_process_ten_times_is_a_crash_loop() {
    let (store, clock, log) = (store(), ManualClock::at(Timestamp(1_000)), Log::default());
    let (ran, never) = (log.clone(), CancelToken::new());
    let probe = Probe::<0>::new(move |_, _, _| {
        ran.note("ran");
        let never = never.clone();
        async move {
            never.cancelled().await;
            Ok(Step::done(Value::Null))
        }
    });
    let harness = host(&store, &clock, install(probe)).await;
    let first = harness.create(SessionSpec::default()).await.unwrap();
    let (id, task) = (first.id(), start(&first, Value::Null).await.id());
    log.noted(1).await;
    drop(first);
    for attempt in 1..=10 {
        let session = harness.open_session(id).await.unwrap();
        session.resume();
        log.noted(attempt + 1).await;
        let record = session.task::<Probe>(task).record().await.unwrap();
        assert_eq!(record.attempts as usize, attempt);
    }
    let session = harness.open_session(id).await.unwrap();
    let TaskOutcome::Faulted { error, .. } = outcome(&session, task).await else { panic!("it is faulted") };
    assert_eq!((error.kind.as_str(), log.count("ran")), ("crash_loop", 11));
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
    let query = |code: &[&str]| everturn_core::storage::RunnableQuery {
        code: code.iter().map(|kind| Code { kind: (*kind).into(), version: 1 }).collect(),
        ..everturn_core::storage::RunnableQuery::at(Timestamp(9_000))
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

// Rule 5.
#[tokio::test]
async fn new_work_below_what_ends_or_stops_is_refused() {
    let (session, ..) = session(install(listener())).await;
    let refused = |owner: TaskId| {
        let session = session.clone();
        async move {
            let mut tx = session.begin().await.unwrap();
            let task = NewTask { owner: Some(owner), ..NewTask::of::<Probe>(ROOT, &Value::Null).unwrap() };
            tx.create_task(task).unwrap();
            let by_task = tx.commit().await.unwrap_err();
            let mut tx = session.begin().await.unwrap();
            tx.create_conversation(Ownership::Task(owner));
            let by_conversation = tx.commit().await.unwrap_err();
            assert!(matches!(by_conversation.kind(), ErrorKind::Invalid), "{by_conversation}");
            by_task.to_string()
        }
    };
    let ended = start(&session, Value::Null).await;
    ended.signal(go()).await.unwrap();
    ended.ended().await.unwrap();
    assert!(refused(ended.id()).await.ends_with(", its owner, is not live"));

    let completing = start(&session, Value::Null).await;
    below(&session, completing.id(), &[Value::Null]).await;
    completing.signal(go()).await.unwrap();
    session.quiescent().await.unwrap();
    assert!(matches!(state(&session, completing.id()).await, TaskState::Completing { .. }));
    assert!(refused(completing.id()).await.ends_with(", its owner, is ending"));

    let aborted = start(&session, Value::Null).await;
    below(&session, aborted.id(), &[Value::Null]).await;
    let hold = session.hold();
    aborted.abort("enough").await.unwrap();
    assert!(refused(aborted.id()).await.ends_with(", its owner, was told to stop"));
    drop(hold);
}

// Rule 5.
#[tokio::test]
async fn a_task_that_ends_before_its_work_is_completing_and_its_waiters_wait() {
    let (session, ..) = session(Extension::new("test").task(listener()).task(Probe::<1>::new(
        |_, input, state| async move {
            if state == "begin" {
                let on = TaskId(input.as_u64().unwrap());
                return Ok(Step::wait_tasks([on], WaitPolicy::AllSettled, "over".into()));
            }
            Ok(Step::done(json!("waited")))
        },
    )))
    .await;
    let owner = start(&session, Value::Null).await;
    let child = below(&session, owner.id(), &[Value::Null]).await[0];
    let waiter = session.start_task::<Probe<1>>(ROOT, &json!(owner.id().0)).await.unwrap();
    owner.signal(go()).await.unwrap();
    session.quiescent().await.unwrap();
    assert!(matches!(state(&session, owner.id()).await, TaskState::Completing { .. }));
    assert!(matches!(waiter.record().await.unwrap().state, TaskState::Waiting { .. }));
    session.signal(child, go()).await.unwrap();
    assert!(outcome(&session, owner.id()).await.is_completed());
    assert_eq!(waiter.ended().await.unwrap().output().unwrap(), Some(json!("waited")));
}

// Rule 5.
#[tokio::test]
async fn a_failed_end_aborts_the_work_below_first() {
    let log = Log::default();
    let ends = log.clone();
    let (session, ..) = session(
        Extension::new("test")
            .task(listener().abort(move |cx, _, _| {
                ends.note(cx.abort_reason().unwrap());
                async { Ok(Remains::output(json!("stopped"))) }
            }))
            .task(Probe::<1>::new(|cx, _, state| async move {
                if state == "begin" {
                    let mut tx = cx.begin().await?;
                    tx.create_task(cx.child::<Probe>(&Value::Null)?)?;
                    return Ok(Step::wait_signal("go", "on".into()).with(tx));
                }
                Ok(Step::fail(TaskFailure::new("no", "it cannot be done")))
            })),
    )
    .await;
    let owner = session.start_task::<Probe<1>>(ROOT, &Value::Null).await.unwrap();
    session.quiescent().await.unwrap();
    owner.signal(go()).await.unwrap();
    let ended = owner.ended().await.unwrap();
    assert_eq!(ended.outcome().word(), "failed");
    assert_eq!(log.read(), [format!("task {}, above it, failed", owner.id())]);
}

// Rule 6.
#[tokio::test]
async fn an_abort_goes_down_and_ends_come_from_the_bottom_up() {
    let log = Log::default();
    let ends = log.clone();
    let probe = listener().abort(move |_, input, _| {
        ends.note(input.as_str().unwrap());
        async { Ok(Remains::default()) }
    });
    let (session, ..) = session(install(probe)).await;
    let top = start(&session, json!("top")).await;
    let middle = below(&session, top.id(), &[json!("middle")]).await[0];
    below(&session, middle, &[json!("bottom")]).await;
    session.quiescent().await.unwrap();
    let hold = session.hold();
    assert_eq!(top.abort("enough").await.unwrap(), Aborting::Marked);
    assert_eq!(top.abort("again").await.unwrap(), Aborting::Marked);
    drop(hold);
    let ended = top.ended().await.unwrap();
    assert_eq!(*ended.outcome(), TaskOutcome::Aborted { reason: "enough".into(), output: None });
    assert_eq!(log.read(), ["bottom", "middle", "top"]);
    assert_eq!(top.abort("late").await.unwrap(), Aborting::AlreadyEnded);
    let unknown = session.abort_task(TaskId(999), "", Reach::Ordinary).await.unwrap_err();
    assert!(matches!(unknown.kind(), ErrorKind::NotFound), "{unknown}");
}

// Rule 6.
#[tokio::test]
async fn a_running_step_is_told_by_its_token_and_what_it_gives_is_kept() {
    let (session, ..) = session(install(
        Probe::<0>::new(|cx, _, _| async move {
            cx.cancel().cancelled().await;
            Ok(Step::go("told".into()))
        })
        .abort(|_, _, state| async move { Ok(Remains::output(json!(state))) }),
    ))
    .await;
    let task = start(&session, Value::Null).await;
    task.abort("enough").await.unwrap();
    assert_eq!(task.ended().await.unwrap().output().unwrap(), Some(json!("told")));
}

// Rule 6.
#[tokio::test]
async fn code_that_does_not_stop_within_the_grace_is_given_up_and_its_context_refuses_everything() {
    let log = Log::default();
    let (noted, kept) = (log.clone(), std::sync::Arc::new(std::sync::Mutex::new(None)));
    let (keep, begun) = (kept.clone(), Log::default());
    let begins = begun.clone();
    let (session, clock, _) = session(install(
        Probe::<0>::new(move |cx, _, _| {
            *keep.lock().unwrap() = Some(cx.clone());
            let begins = begins.clone();
            async move {
                // Held while the step hangs: it must not stop the session.
                let _tx = cx.begin().await?;
                begins.note("begun");
                std::future::pending::<Result<Step<Probe>, TaskError>>().await
            }
        })
        .abort(move |_, _, _| {
            noted.note("aborted");
            async { Ok(Remains::default()) }
        }),
    ))
    .await;
    let task = start(&session, Value::Null).await;
    begun.noted(1).await;
    // The mark waits in the line behind the step's transaction, which expires.
    let marking = {
        let task = task.clone();
        tokio::spawn(async move { task.abort("enough").await })
    };
    while !marking.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(marking.await.unwrap().unwrap(), Aborting::Marked);
    let ending = tokio::spawn(async move { task.ended().await.map(|ended| ended.outcome().clone()) });
    while !ending.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(ending.await.unwrap().unwrap().word(), "aborted");
    assert_eq!(log.read(), ["aborted"]);
    let cx = kept.lock().unwrap().take().unwrap();
    for refused in [cx.begin().await.err(), cx.report(&1).await.err(), cx.children().await.err()] {
        let error = refused.expect("the run is over");
        assert!(matches!(error.kind(), ErrorKind::Closed { .. }), "{error}");
    }
}

// Rule 6.
#[tokio::test]
async fn an_abort_handler_that_fails_faults_the_task() {
    let failing = listener().abort(|_, _, _| async { Err(TaskError::new("refund", "the bank is gone")) });
    let (session, ..) = session(install(failing)).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    task.abort("enough").await.unwrap();
    let TaskOutcome::Faulted { error, .. } = outcome(&session, task.id()).await else { panic!("faulted") };
    assert_eq!(error.to_string(), "refund: the bank is gone");
}

// Rule 7.
#[tokio::test]
async fn background_work_keeps_nobody_busy_and_dies_by_its_own_abort_only() {
    let (session, ..) = session(install(listener())).await;
    let mut tx = session.begin().await.unwrap();
    let new = NewTask { background: true, ..NewTask::of::<Probe>(ROOT, &Value::Null).unwrap() };
    let watch = tx.create_task(new).unwrap();
    tx.commit().await.unwrap();
    session.root().idle().await.unwrap();
    session.root().abort(Reach::Ordinary).await.unwrap();
    session.quiescent().await.unwrap();
    assert!(matches!(state(&session, watch).await, TaskState::Listening { .. }));
    session.root().abort(Reach::Background).await.unwrap();
    assert_eq!(outcome(&session, watch).await.word(), "aborted");
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

// Rule 8.
#[tokio::test]
async fn a_wait_on_what_has_ended_is_over_at_once() {
    let (session, ..) = session(
        Extension::new("test").task(Probe::<0>::new(|_, _, _| async { Ok(Step::done(Value::Null)) })).task(
            Probe::<1>::new(|_, input, state| async move {
                let on = input
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|id| TaskId(id.as_u64().unwrap()))
                    .collect::<Vec<_>>();
                Ok(match state.as_str() {
                    "begin" => Step::wait_tasks(on, WaitPolicy::FailFast, "over".into()),
                    _ => Step::done(Value::Null),
                })
            }),
        ),
    )
    .await;
    let ended = start(&session, Value::Null).await;
    ended.ended().await.unwrap();
    for on in [json!([ended.id().0]), json!([])] {
        let waiter = session.start_task::<Probe<1>>(ROOT, &on).await.unwrap();
        assert!(waiter.ended().await.unwrap().outcome().is_completed());
    }
}

// Rule 8.
#[tokio::test]
async fn a_wait_on_itself_on_what_is_above_or_on_nothing_is_invalid() {
    let (session, ..) =
        session(Extension::new("test").task(listener()).task(Probe::<1>::new(|cx, input, _| async move {
            let on = input.as_u64().map_or(cx.id(), TaskId);
            Ok(Step::wait_tasks([on], WaitPolicy::AllSettled, "over".into()))
        })))
        .await;
    let owner = start(&session, Value::Null).await;
    for (on, found) in [
        (Value::Null, "waits for itself"),
        (json!(owner.id().0), "which is above it"),
        (json!(999), "there is no such task"),
    ] {
        let mut tx = session.begin().await.unwrap();
        let new = NewTask { owner: Some(owner.id()), ..NewTask::of::<Probe<1>>(ROOT, &on).unwrap() };
        let id = tx.create_task(new).unwrap();
        tx.commit().await.unwrap();
        let ended = session.task::<Probe<1>>(id).ended().await.unwrap();
        let TaskOutcome::Faulted { error, .. } = ended.outcome() else { panic!("{:?}", ended.outcome()) };
        assert_eq!(error.kind, "invalid");
        assert!(error.message.contains(found), "{}", error.message);
    }
    assert!(owner.record().await.unwrap().is_live(), "what fails below does not end what is above");
}

// Rule 8.
#[tokio::test]
async fn who_fails_fast_aborts_the_others_and_all_settled_does_not() {
    for (policy, word) in [(WaitPolicy::FailFast, "aborted"), (WaitPolicy::AllSettled, "completed")] {
        let (session, ..) = session(
            Extension::new("test")
                .task(Probe::<0>::new(|_, input, state| async move {
                    Ok(match (state.as_str(), input.as_str()) {
                        ("begin", Some("declined")) => Step::fail(TaskFailure::new("declined", "no")),
                        ("begin", _) => Step::wait_signal("go", "on".into()),
                        _ => Step::done(Value::Null),
                    })
                }))
                .task(Probe::<1>::new(move |cx, _, state| async move {
                    if state != "begin" {
                        return Ok(Step::done(Value::Null));
                    }
                    let mut tx = cx.begin().await?;
                    let patient = tx.create_task(cx.child::<Probe>(&json!("patient"))?)?;
                    let declined = tx.create_task(cx.child::<Probe>(&json!("declined"))?)?;
                    Ok(Step::wait_tasks([patient, declined], policy, patient.to_string()).with(tx))
                })),
        )
        .await;
        let owner = session.start_task::<Probe<1>>(ROOT, &Value::Null).await.unwrap();
        session.quiescent().await.unwrap();
        let children = everturn_core::storage::TaskQuery {
            session: session.id(),
            live: false,
            ids: None,
            owner: Some(owner.id()),
        };
        let patient = session.store().tasks(children).await.unwrap()[0].id;
        if policy == WaitPolicy::AllSettled {
            session.signal(patient, go()).await.unwrap();
        }
        assert_eq!(outcome(&session, patient).await.word(), word);
        assert!(owner.ended().await.unwrap().outcome().is_completed());
    }
}

// Rule 9.
#[tokio::test]
async fn a_conversation_is_idle_when_no_ordinary_work_below_it_lives() {
    let (session, ..) = session(install(listener())).await;
    let owner = start(&session, Value::Null).await;
    let mut tx = session.begin().await.unwrap();
    let child = tx.create_conversation(Ownership::Task(owner.id()));
    let deep = tx.create_task(NewTask::of::<Probe>(child, &Value::Null).unwrap()).unwrap();
    tx.commit().await.unwrap();
    owner.signal(go()).await.unwrap();
    session.quiescent().await.unwrap();
    let idle = session.root();
    let idle = tokio::spawn(async move { idle.idle().await });
    session.quiescent().await.unwrap();
    assert!(!idle.is_finished(), "work in a conversation that its task owns keeps the root busy");
    session.signal(deep, go()).await.unwrap();
    idle.await.unwrap().unwrap();
    owner.ended().await.unwrap();
}
