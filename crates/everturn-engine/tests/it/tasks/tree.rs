//! How tasks hang together.

use everturn_core::{
    ErrorKind,
    conversation::Ownership,
    id::TaskId,
    task::{TaskFailure, TaskState, WaitPolicy, tree::Reach},
};
use everturn_engine::{Extension, NewTask, Step, task::Remains};
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, below, go, install, listener, outcome, session, start, state};

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
    let idle = tokio::spawn(async move { idle.wait_idle().await });
    session.quiescent().await.unwrap();
    assert!(!idle.is_finished(), "work in a conversation that its task owns keeps the root busy");
    session.signal(deep, go()).await.unwrap();
    idle.await.unwrap().unwrap();
    owner.ended().await.unwrap();
}

#[tokio::test]
async fn a_task_above_itself_is_refused() {
    let (session, ..) = session(install(listener())).await;
    let mut tx = session.begin().await.unwrap();
    let first = tx.create_task(NewTask::of::<Probe>(ROOT, &Value::Null).unwrap()).unwrap();
    let own = tx.create_conversation(Ownership::Task(TaskId(first.0 + 2)));
    tx.create_task(NewTask::of::<Probe>(own, &Value::Null).unwrap()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(error.to_string().ends_with("it would be above itself"), "{error}");
    let mut tx = session.begin().await.unwrap();
    let first = tx.create_task(NewTask::of::<Probe>(ROOT, &Value::Null).unwrap()).unwrap();
    let ring =
        NewTask { owner: Some(TaskId(first.0 + 2)), ..NewTask::of::<Probe>(ROOT, &Value::Null).unwrap() };
    tx.create_task(ring).unwrap();
    tx.create_task(NewTask {
        owner: Some(TaskId(first.0 + 1)),
        ..NewTask::of::<Probe>(ROOT, &Value::Null).unwrap()
    })
    .unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(error.to_string().ends_with("it would be above itself"), "{error}");
}

// Rule 7.
#[tokio::test]
async fn background_work_whose_owner_has_ended_is_reached_by_its_conversation() {
    let (session, ..) = session(install(listener())).await;
    let owner = start(&session, Value::Null).await;
    let mut tx = session.begin().await.unwrap();
    let new = NewTask {
        owner: Some(owner.id()),
        background: true,
        ..NewTask::of::<Probe>(ROOT, &Value::Null).unwrap()
    };
    let watch = tx.create_task(new).unwrap();
    tx.commit().await.unwrap();
    owner.signal(go()).await.unwrap();
    owner.ended().await.unwrap();
    session.root().abort(Reach::Background).await.unwrap();
    assert_eq!(outcome(&session, watch).await.word(), "aborted");
}

#[tokio::test]
async fn a_step_may_begin_work_in_the_commit_that_ends_it() {
    let (session, ..) =
        session(Extension::new("test").task(listener()).task(Probe::<1>::new(|cx, _, _| async move {
            let mut tx = cx.begin().await?;
            let child = tx.create_task(cx.child::<Probe>(&Value::Null)?)?;
            Ok(Step::done(json!(child)).with(tx))
        })))
        .await;
    let owner = session.start_task::<Probe<1>>(ROOT, &Value::Null).await.unwrap();
    session.quiescent().await.unwrap();
    let record = owner.record().await.unwrap();
    let TaskState::Completing { outcome } = &record.state else { panic!("{:?}", record.state) };
    session.signal(outcome.read().unwrap().unwrap(), go()).await.unwrap();
    assert!(owner.ended().await.unwrap().outcome().is_completed());
}

// Telling many heavy tasks to stop was too much for a commit, and so they could not be stopped.
// Guards: what is stored already does not count.
#[tokio::test]
async fn a_heavy_tree_can_be_told_to_stop() {
    let (session, ..) = session(install(listener())).await;
    let owner = start(&session, Value::Null).await;
    for _ in 0..24 {
        below(&session, owner.id(), &[json!("x".repeat(900 << 10))]).await;
    }
    owner.abort("enough").await.unwrap();
    assert_eq!(owner.ended().await.unwrap().outcome().to_string(), "aborted (enough)");
}
