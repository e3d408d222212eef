//! Storage that refuses: nothing is repeated, nothing is lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use everturn_core::{
    Error,
    clock::Timestamp,
    entry::Entry,
    id::ConversationId,
    storage::{Batch, Committed, Layer, Layered, Store},
};
use everturn_engine::{LiveSession, SessionSpec, Step, TaskError};
use everturn_testkit::{faulty::Faults, manual::ManualClock};
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, host, install, start};
use crate::support::store;

/// A session over a store that refuses when it is told to.
async fn refusing(probe: Probe) -> (LiveSession, Faults, Store) {
    let (memory, faults) = (store(), Faults::default());
    let store = faults.around(memory.clone());
    let harness = host(&store, &ManualClock::at(Timestamp(1_000)), install(probe)).await;
    (harness.create(SessionSpec::default()).await.unwrap(), faults, memory)
}

#[tokio::test]
async fn a_move_that_storage_refuses_is_offered_again_and_the_code_is_not() {
    let log = Log::default();
    let ran = log.clone();
    let (session, faults, _) = refusing(Probe::new(move |cx, _, _| {
        let ran = ran.clone();
        async move {
            ran.note("ran");
            let mut tx = cx.begin().await?;
            tx.append(ROOT, Entry::new("test.note"))?;
            Ok(Step::done(Value::Null).with(tx))
        }
    }))
    .await;
    let hold = session.hold();
    let task = start(&session, Value::Null).await;
    faults.refuse("commit", 7);
    drop(hold);
    assert!(task.ended().await.unwrap().outcome().is_completed());
    assert_eq!(log.count("ran"), 1);
    assert_eq!(session.entries(ROOT, None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_memo_that_storage_refuses_is_offered_again_and_not_made_again() {
    let log = Log::default();
    let made = log.clone();
    let (session, faults, _) = refusing(Probe::new(move |cx, _, _| {
        let made = made.clone();
        async move {
            let value = cx.memo("n", || async {
                made.note("made");
                Ok::<u32, TaskError>(4)
            });
            Ok(Step::done(json!(value.await?)))
        }
    }))
    .await;
    let hold = session.hold();
    let task = start(&session, Value::Null).await;
    faults.refuse("commit", 5);
    drop(hold);
    assert_eq!(task.ended().await.unwrap().output().unwrap(), Some(json!(4)));
    assert_eq!(log.count("made"), 1);
}

#[tokio::test]
async fn storage_that_refuses_inside_a_step_ends_the_run_and_not_the_task() {
    let log = Log::default();
    let ran = log.clone();
    let (session, ..) = refusing(Probe::<0>::new(move |_, _, _| {
        let ran = ran.clone();
        async move {
            ran.note("ran");
            if ran.count("ran") < 3 {
                let again_at_once =
                    everturn_core::ErrorKind::Unavailable { retry_after: Some(Default::default()) };
                return Err(Error::new(again_at_once, "read: the store is busy").into());
            }
            Ok(Step::done(Value::Null))
        }
    }))
    .await;
    assert!(start(&session, Value::Null).await.ended().await.unwrap().outcome().is_completed());
    assert_eq!(log.count("ran"), 3);
}

#[tokio::test]
async fn a_session_that_closes_while_storage_refuses_leaves_the_checkpoint() {
    let log = Log::default();
    let ran = log.clone();
    let (session, faults, memory) = refusing(Probe::<0>::new(move |_, _, _| {
        ran.note("ran");
        async { Ok(Step::done(Value::Null)) }
    }))
    .await;
    let hold = session.hold();
    let task = start(&session, Value::Null).await.id();
    faults.refuse("commit", u64::MAX);
    drop(hold);
    log.noted(1).await;
    session.close().await.unwrap();
    let again = host(
        &memory,
        &ManualClock::at(Timestamp(1_000)),
        install(Probe::<0>::new(|_, _, _| async { Ok(Step::done(json!("later"))) })),
    )
    .await;
    let session = again.open_session(session.id()).await.unwrap();
    let ended = session.task::<Probe>(task).ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!("later")));
}

#[tokio::test]
async fn work_for_a_conversation_that_is_not_there_is_refused_and_nothing_is_stored() {
    let (session, ..) = refusing(Probe::new(|_, _, _| async { Ok(Step::done(Value::Null)) })).await;
    let head = session.head();
    let error = session.start_task::<Probe>(ConversationId(99), &Value::Null).await.unwrap_err();
    assert!(error.to_string().contains("there is no conversation 99"), "{error}");
    assert_eq!(session.head(), head);
}

/// A store that does not answer commits while it is told so, and stores none of them.
struct Silent(Store, Arc<AtomicBool>);

impl Layer for Silent {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn commit(&self, batch: Batch) -> everturn_core::Result<Committed> {
        if self.1.load(Ordering::SeqCst) { Ok(Committed::Unknown) } else { self.0.commit(batch).await }
    }
}

// A move that had no answer for a minute was offered again under the epoch that had ended, and shut its session.
// Guards: a move that is offered again after a new claim is the new epoch's.
#[tokio::test]
async fn a_move_that_has_no_answer_for_a_minute_is_stored_once_there_is_one() {
    let (is_silent, clock, log) =
        (Arc::new(AtomicBool::new(false)), ManualClock::at(Timestamp(1_000)), Log::default());
    let store = Store::new(Layered(Silent(store(), is_silent.clone())));
    let ran = log.clone();
    let probe = Probe::<0>::new(move |_, _, _| {
        ran.note("ran");
        async { Ok(Step::done(Value::Null)) }
    });
    let session = host(&store, &clock, install(probe)).await.create(SessionSpec::default()).await.unwrap();
    let hold = session.hold();
    let task = start(&session, Value::Null).await;
    let epoch = session.epoch();
    is_silent.store(true, Ordering::SeqCst);
    drop(hold);
    log.noted(1).await;
    while session.epoch() == epoch {
        clock.advance(std::time::Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    is_silent.store(false, Ordering::SeqCst);
    let ending = tokio::spawn(async move { task.ended().await.map(|ended| ended.outcome().clone()) });
    while !ending.is_finished() {
        clock.advance(std::time::Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(ending.await.unwrap().unwrap().is_completed());
    assert_eq!(log.count("ran"), 1);
    assert!(session.begin().await.is_ok(), "the session lives on");
}
