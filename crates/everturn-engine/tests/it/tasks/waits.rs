//! Tasks that wait for others.

use everturn_core::{
    id::TaskId,
    storage::TaskQuery,
    task::{TaskFailure, TaskOutcome, WaitPolicy},
};
use everturn_engine::{Extension, NewTask, Step};
use serde_json::{Value, json};

use super::probe::{Probe, ROOT, go, listener, outcome, session, start};

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
        let children = TaskQuery { session: session.id(), live: false, ids: None, owner: Some(owner.id()) };
        let patient = session.store().tasks(children).await.unwrap()[0].id;
        if policy == WaitPolicy::AllSettled {
            session.signal(patient, go()).await.unwrap();
        }
        assert_eq!(outcome(&session, patient).await.word(), word);
        assert!(owner.ended().await.unwrap().outcome().is_completed());
    }
}
