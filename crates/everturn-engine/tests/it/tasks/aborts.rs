//! What is told to stop.

use std::time::Duration;

use everturn_core::{
    ErrorKind,
    id::TaskId,
    task::{
        TaskOutcome, TaskState,
        tree::{Aborting, Reach},
    },
};
use everturn_engine::{NewTask, Step, TaskError, task::Remains};
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, below, install, listener, outcome, session, start, state};

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
    session.root().wait_idle().await.unwrap();
    session.root().abort(Reach::Ordinary).await.unwrap();
    session.quiescent().await.unwrap();
    assert!(matches!(state(&session, watch).await, TaskState::Listening { .. }));
    session.root().abort(Reach::Background).await.unwrap();
    assert_eq!(outcome(&session, watch).await.word(), "aborted");
}

// Rule 6.
#[tokio::test]
async fn an_end_in_order_that_never_comes_is_given_up() {
    let hanging = listener().abort(|_, _, _| std::future::pending());
    let (session, clock, _) = session(install(hanging)).await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    task.abort("enough").await.unwrap();
    let ending = tokio::spawn(async move { task.ended().await.map(|ended| ended.outcome().to_string()) });
    while !ending.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    let said = ending.await.unwrap().unwrap();
    assert_eq!(said, "faulted (timed_out: its step had not ended after 300s)");
}
