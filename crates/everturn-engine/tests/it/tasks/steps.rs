//! What a step returns, and what its context gives.

use std::time::Duration;

use everturn_core::{
    ErrorKind,
    entry::Entry,
    task::{TaskFailure, TaskOutcome},
};
use everturn_engine::{Extension, Step, TaskError, task::Report};
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, install, session, start};

#[tokio::test]
async fn a_task_goes_from_checkpoint_to_checkpoint_to_its_output() {
    let (session, ..) = session(install(Probe::<0>::new(|_, input, state| async move {
        Ok(match state.as_str() {
            "begin" => Step::go("second".into()),
            _ => Step::done(json!({ "given": input, "at": state })),
        })
    })))
    .await;
    let ended = start(&session, json!(7)).await.ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!({ "given": 7, "at": "second" })));
    assert_eq!(ended.input().unwrap(), json!(7));
}

#[tokio::test]
async fn what_a_step_stages_is_stored_with_its_move() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        let mut tx = cx.begin().await?;
        tx.append(ROOT, Entry::new("test.note").data("paid"))?;
        Ok(Step::done(Value::Null).with(tx))
    })))
    .await;
    let head = session.head();
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert_eq!(session.head().0, head.0 + 2, "creating it and moving it are all the commits");
    let entry = session.entries(ROOT, None, 1).await.unwrap().pop().unwrap();
    assert_eq!((entry.kind.as_str(), entry.seq), ("test.note", session.head()));
    assert!(ended.outcome().is_completed());
}

#[tokio::test]
async fn a_failure_keeps_its_kind_its_detail_and_what_came_out_before() {
    let (session, ..) = session(install(Probe::<0>::new(|_, _, _| async {
        let mut error = TaskFailure::new("declined", "the card was declined");
        error.detail = Some(everturn_core::json::RawJson::parse("{\"code\":51}")?);
        Ok(Step::fail(error).output(json!("half")))
    })))
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    let TaskOutcome::Failed { error, .. } = ended.outcome() else { panic!("{:?}", ended.outcome()) };
    assert_eq!((error.kind.as_str(), error.detail.as_ref().unwrap().get()), ("declined", "{\"code\":51}"));
    assert_eq!(ended.output().unwrap(), Some(json!("half")));
}

#[tokio::test]
async fn a_memo_is_made_once_and_is_gone_when_the_task_ends() {
    let log = Log::default();
    let made = log.clone();
    let (session, ..) = session(install(Probe::<0>::new(move |cx, _, state| {
        let made = made.clone();
        async move {
            let rate: u32 = cx
                .memo("rate", || async {
                    made.note("made");
                    Ok::<_, TaskError>(made.count("made") as u32)
                })
                .await?;
            Ok(if state == "begin" { Step::go("again".into()) } else { Step::done(json!(rate)) })
        }
    })))
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert_eq!((ended.output().unwrap(), log.count("made")), (Some(json!(1)), 1));
    assert!(ended.record().memos.is_empty());
}

#[tokio::test]
async fn of_two_memos_of_one_name_the_first_that_is_stored_wins() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        let make = |value: u32| move || async move { Ok::<u32, TaskError>(value) };
        let (one, two) = tokio::join!(cx.memo("n", make(1)), cx.memo("n", make(2)));
        Ok(Step::done(json!([one?, two?])))
    })))
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    let both: [u32; 2] = serde_json::from_value(ended.output().unwrap().unwrap()).unwrap();
    assert_eq!(both[0], both[1]);
}

#[tokio::test]
async fn a_memo_that_gives_an_error_is_made_again() {
    let log = Log::default();
    let tries = log.clone();
    let (session, ..) = session(install(Probe::<0>::new(move |cx, _, _| {
        let tries = tries.clone();
        async move {
            let make = || async {
                tries.note("try");
                if tries.count("try") == 1 { Err(TaskError::new("busy", "later")) } else { Ok(5) }
            };
            let first: Result<u32, _> = cx.memo("n", make).await;
            assert_eq!(first.unwrap_err().failure().kind, "busy");
            Ok(Step::done(json!(cx.memo("n", make).await?)))
        }
    })))
    .await;
    assert_eq!(start(&session, Value::Null).await.ended().await.unwrap().output().unwrap(), Some(json!(5)));
}

#[tokio::test]
async fn whoever_holds_a_transaction_is_told_that_the_rest_is_nested() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        let tx = cx.begin().await?;
        let begun = cx.begin().await.err().unwrap();
        let memo = cx.memo("n", || async { Ok::<u32, TaskError>(1) }).await.unwrap_err();
        let report = cx.report(&1).await.unwrap_err();
        for error in [&begun, memo.engine().unwrap(), &report] {
            assert!(matches!(error.kind(), ErrorKind::Nested), "{error}");
        }
        Ok(Step::done(Value::Null).with(tx))
    })))
    .await;
    assert!(start(&session, Value::Null).await.ended().await.unwrap().outcome().is_completed());
}

#[tokio::test]
async fn a_key_is_the_same_in_every_step_and_of_each_task_another() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, state| async move {
        let key = cx.key("charge");
        Ok(if state == "begin" { Step::go(key) } else { Step::done(json!([state, key])) })
    })))
    .await;
    let mut keys = Vec::new();
    for _ in 0..2 {
        let ended = start(&session, Value::Null).await.ended().await.unwrap();
        let [first, second]: [String; 2] = serde_json::from_value(ended.output().unwrap().unwrap()).unwrap();
        assert_eq!(first, second);
        keys.push(first);
    }
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn what_a_task_reports_can_be_followed() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, state| async move {
        if state == "begin" {
            cx.report(&json!({ "done": 1 })).await?;
            return Ok(Step::wait_signal("go", "reported".into()));
        }
        Ok(Step::done(Value::Null))
    })))
    .await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    let report = session.snapshot::<Report>(task.id()).await.unwrap().unwrap();
    assert_eq!(report.value, json!({ "done": 1 }));
}

#[tokio::test]
async fn a_child_is_started_and_waited_for_and_its_outcome_is_read() {
    let (session, ..) = session(
        Extension::new("test")
            .task(Probe::<0>::new(|cx, _, state| async move {
                if state == "begin" {
                    let mut tx = cx.begin().await?;
                    let child = tx.create_task(cx.child::<Probe<1>>(&json!(20))?)?;
                    let on = [child];
                    return Ok(Step::wait_tasks(on, Default::default(), child.to_string()).with(tx));
                }
                let outcome = cx.outcome(state.parse()?).await?.unwrap();
                let children = cx.children().await?.len();
                Ok(Step::done(json!([outcome.read::<u32>()?, children])))
            }))
            .task(Probe::<1>::new(|_, input, _| async move {
                Ok(Step::done(json!(input.as_u64().unwrap() + 1)))
            })),
    )
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!([21, 1])));
}

// A panicking waiter must not take the end of what it waited for with it.
// Guards: a step that joins a commit and breaks is left out of it, and runs by itself.
#[tokio::test]
async fn a_step_that_joins_a_commit_and_breaks_leaves_that_commit_whole() {
    let log = Log::default();
    let ran = log.clone();
    let (session, ..) = session(
        Extension::new("test")
            .task(Probe::<0>::new(move |cx, _, state| {
                let ran = ran.clone();
                async move {
                    if state == "begin" {
                        let mut tx = cx.begin().await?;
                        let child = tx.create_task(cx.child::<Probe<1>>(&Value::Null)?)?;
                        return Ok(Step::wait_tasks([child], Default::default(), "joined".into())
                            .joined()
                            .with(tx));
                    }
                    ran.note("joined");
                    let _tx = cx.begin().await?;
                    assert!(
                        ran.count("joined") > 1,
                        "the first time it breaks with the transaction in its hands"
                    );
                    Ok(Step::done(Value::Null))
                }
            }))
            .task(Probe::<1>::new({
                let log = log.clone();
                move |_, _, _| {
                    log.note("child");
                    async { Ok(Step::done(Value::Null)) }
                }
            })),
    )
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert!(ended.outcome().is_completed(), "{:?}", ended.outcome());
    assert_eq!((log.count("child"), log.count("joined")), (1, 2));
}

#[tokio::test]
async fn a_joined_step_is_stored_in_the_commit_that_ends_the_wait() {
    let (session, ..) = session(
        Extension::new("test")
            .task(Probe::<0>::new(|cx, _, state| async move {
                if state == "begin" {
                    let mut tx = cx.begin().await?;
                    let child = tx.create_task(cx.child::<Probe<1>>(&Value::Null)?)?;
                    return Ok(Step::wait_tasks([child], Default::default(), "joined".into())
                        .joined()
                        .with(tx));
                }
                let tx = cx.begin().await?;
                Ok(Step::done(Value::Null).with(tx))
            }))
            .task(Probe::<1>::new(|_, _, _| async { Ok(Step::done(Value::Null)) })),
    )
    .await;
    let before = session.head();
    start(&session, Value::Null).await.ended().await.unwrap();
    assert_eq!(session.head().0 - before.0, 3, "created, waiting, and both ends in one");
}

#[tokio::test]
async fn a_sleep_is_over_when_its_moment_has_come() {
    let (session, clock, _) = session(install(Probe::<0>::new(|cx, _, state| async move {
        let later = cx.now() + Duration::from_secs(3_600);
        Ok(if state == "begin" { Step::sleep(later, "woke".into()) } else { Step::done(json!(cx.now().0)) })
    })))
    .await;
    let task = start(&session, Value::Null).await;
    session.quiescent().await.unwrap();
    clock.advance(Duration::from_secs(3_600));
    let ended = task.ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!(3_601_000)));
}

/// A task that starts one child and joins its end by `join`.
fn joining<F>(
    join: impl Fn(everturn_engine::TaskContext, everturn_core::id::TaskId) -> F + Send + Sync + 'static,
) -> Extension
where
    F: Future<Output = Result<Step<Probe>, TaskError>> + Send + 'static,
{
    let join = std::sync::Arc::new(join);
    let waiter = Probe::<0>::new(move |cx, _, state| {
        let join = join.clone();
        async move {
            if state != "begin" {
                return join(cx, state.parse()?).await;
            }
            let mut tx = cx.begin().await?;
            let child = tx.create_task(cx.child::<Probe<1>>(&Value::Null)?)?;
            Ok(Step::wait_tasks([child], Default::default(), child.to_string()).joined().with(tx))
        }
    });
    Extension::new("test").task(waiter).task(Probe::<1>::new(|_, _, _| async { Ok(Step::done(json!(20))) }))
}

// What the check refuses of a joined step was taken for the fault of the task whose commit it joined.
// Guards: what cannot be stored with a commit is left out of it.
#[tokio::test]
async fn a_step_that_joins_a_commit_with_what_cannot_be_stored_is_left_out_of_it() {
    let (session, ..) = session(joining(|cx, _| async move {
        let mut tx = cx.begin().await?;
        tx.append(everturn_core::id::ConversationId(999), Entry::new("test.note"))?;
        Ok(Step::done(Value::Null).with(tx))
    }))
    .await;
    let task = start(&session, Value::Null).await;
    let ended = task.ended().await.unwrap();
    assert_eq!(ended.outcome().word(), "faulted", "it runs by itself, and is faulted by itself");
    let children = everturn_core::storage::TaskQuery {
        session: session.id(),
        live: false,
        ids: None,
        owner: Some(task.id()),
    };
    let child = session.store().tasks(children).await.unwrap().pop().unwrap();
    assert_eq!(child.outcome().map(TaskOutcome::word), Some("completed"));
    assert!(session.head().0 > 0 && session.begin().await.is_ok(), "the session lives on");
}

#[tokio::test]
async fn a_joined_step_reads_what_ended_from_its_transaction_and_does_nothing_beside_it() {
    let (session, ..) = session(joining(|cx, child| async move {
        let memo = cx.memo("n", || async { Ok::<u32, TaskError>(1) }).await.unwrap_err();
        assert!(matches!(memo.engine().unwrap().kind(), ErrorKind::Nested), "{memo}");
        let tx = cx.begin().await?;
        let outcome = tx.outcome(child).await?.expect("it ends in this commit");
        Ok(Step::done(json!(outcome.read::<u32>()?)).with(tx))
    }))
    .await;
    let before = session.head();
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert_eq!((ended.output().unwrap(), session.head().0 - before.0), (Some(json!(20)), 3));
}

#[tokio::test]
async fn a_transaction_of_another_session_is_refused_and_moves_nothing_there() {
    let (other, ..) = session(Extension::new("none")).await;
    let foreign = other.clone();
    let (session, ..) = session(install(Probe::<0>::new(move |_, _, _| {
        let foreign = foreign.clone();
        async move { Ok(Step::done(Value::Null).with(foreign.begin().await?)) }
    })))
    .await;
    let head = other.head();
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert!(ended.outcome().to_string().contains("the transaction is of session"), "{}", ended.outcome());
    assert_eq!(other.head(), head);
}

// A task could keep more memos than a session's archive could hold of it.
// Guards: all memos of a task together have a limit, as each has.
#[tokio::test]
async fn more_memos_than_a_task_can_keep_fault_it() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        for number in 0..34 {
            let make = || async { Ok::<_, TaskError>("x".repeat(1_000_000)) };
            cx.memo(&format!("page {number}"), make).await?;
        }
        Ok(Step::done(Value::Null))
    })))
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    let said = ended.outcome().to_string();
    assert!(said.starts_with("faulted (too_large: write the memos of task"), "{said}");
    session.archive(&mut Vec::new()).await.unwrap();
}
