//! Stopping: by a person, by closing, by the end of the process.

use everturn_core::{
    CancelToken, ErrorKind,
    message::{Message, Outcome},
    submission::End,
    task::tree::Reach,
    tool::Replay,
};
use everturn_engine::{EventKind, Extension, Input, TurnEnd};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Counting, harness, scripted, spec, store};

#[tokio::test]
async fn a_cancelled_turn_keeps_what_it_had_said() {
    let never = CancelToken::new();
    let (session, model) = scripted([Reply::words("half of ").then_wait(&never), Reply::text("again")]).await;
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    while !matches!(events.next().await.unwrap().unwrap().kind, EventKind::Text { .. }) {}
    assert!(asked.cancel().await.unwrap());
    assert_eq!(asked.answer().await.unwrap().end, End::Cancelled);
    assert!(!asked.cancel().await.unwrap(), "there is nothing left to stop");
    let entries = session.entries(session.root().id(), None, 10).await.unwrap();
    assert!(entries.iter().any(|entry| entry.messages.iter().any(|message| message.text() == "half of ")));
    session.root().submit(Input::text("b")).await.unwrap().answer().await.unwrap();
    let texts = model.requests()[1].texts();
    assert_eq!(texts, ["a", "b"], "an aborted answer is never sent");
    assert_eq!(session.usage().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_cancelled_turn_stops_its_calls() {
    let tool = Counting { gate: Some(CancelToken::new()), ..Counting::new(Replay::Safe) };
    let model = Scripted::new([Reply::calls([("count", "{}"), ("count", "{}")]), Reply::text("never")]);
    let harness = harness(&store(), &model, Extension::new("test").tool(tool.clone())).await;
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    while !matches!(events.next().await.unwrap().unwrap().kind, EventKind::CallProposed { .. }) {}
    asked.cancel().await.unwrap();
    assert_eq!(asked.answer().await.unwrap().end, End::Cancelled);
    assert_eq!(model.count(), 1);
    let results = session.context(session.root().id(), None).await.unwrap();
    let cancelled = results.messages().iter().filter(
        |message| matches!(&***message, Message::Result(result) if result.outcome == Outcome::Cancelled),
    );
    assert_eq!(cancelled.count(), 2);
}

#[tokio::test]
async fn aborting_a_conversation_withdraws_what_waits() {
    let never = CancelToken::new();
    let (session, _) = scripted([Reply::text("half").then_wait(&never)]).await;
    let running = session.root().submit(Input::text("a")).await.unwrap();
    let waiting = session.root().submit(Input::text("b")).await.unwrap();
    session.root().abort(Reach::Ordinary).await.unwrap();
    assert_eq!(running.answer().await.unwrap().end, End::Cancelled);
    assert_eq!(waiting.answer().await.unwrap().end, End::Withdrawn);
    session.root().abort(Reach::Ordinary).await.unwrap();
}

#[tokio::test]
async fn a_closed_session_goes_on_where_it_is_opened_next() {
    let (store, never) = (store(), CancelToken::new());
    let model = Scripted::new([Reply::words("half of ").then_wait(&never), Reply::text("whole")]);
    let harness = harness(&store, &model, Extension::new("none")).await;
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    while !matches!(events.next().await.unwrap().unwrap().kind, EventKind::Text { .. }) {}
    session.close().await.unwrap();
    assert!(matches!(asked.answer().await.unwrap_err().kind(), ErrorKind::Closed { .. }));

    let session = harness.open_session(session.id()).await.unwrap();
    let asked = session.open_submissions().pop().unwrap();
    let answer = asked.answer().await.unwrap();
    assert_eq!(answer.text, "whole");
    assert_eq!((answer.total.requests, answer.total.unknown), (2, 2), "the cut attempt is counted");
    assert_eq!(model.requests()[0].messages, model.requests()[1].messages, "the same request is sent again");
    let TurnEnd::Answered = session.history().await.unwrap()[0].record.outcome else { panic!("answered") };
}

/// Runs a turn with one call up to the middle of the call, loses the owner, and goes on elsewhere.
async fn lose_the_owner_during_a_call(replay: Replay) -> (usize, Outcome) {
    let store = store();
    let hanging = Counting { gate: Some(CancelToken::new()), ..Counting::new(replay) };
    let free = Counting { gate: None, ..hanging.clone() };
    let model = Scripted::new([Reply::calls([("count", "{}")]), Reply::text("done")]);
    let first = harness(&store, &model, Extension::new("test").tool(hanging.clone())).await;
    let session = first.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    while hanging.count() == 0 {
        tokio::select! {
            event = events.next() => drop(event.unwrap().unwrap()),
            () = tokio::task::yield_now() => {}
        }
    }
    // What a crash leaves: the records as they are, and a lease that its owner no longer renews.
    store.release(session.id(), session.owner(), session.epoch()).await.unwrap();
    let second = harness(&store, &model, Extension::new("test").tool(free)).await;
    let reopened = second.open_session(session.id()).await.unwrap();
    let asked = reopened.open_submissions().pop().unwrap();
    assert_eq!(asked.answer().await.unwrap().text, "done");
    let context = reopened.context(reopened.root().id(), None).await.unwrap();
    let outcome = context.messages().iter().find_map(|message| match &**message {
        Message::Result(result) => Some(result.outcome.clone()),
        _ => None,
    });
    (hanging.count(), outcome.unwrap())
}

#[tokio::test]
async fn a_never_call_that_was_cut_off_is_unknown_and_not_repeated() {
    assert_eq!(lose_the_owner_during_a_call(Replay::Never).await, (1, Outcome::Unknown));
}

#[tokio::test]
async fn a_safe_call_that_was_cut_off_runs_again() {
    assert_eq!(lose_the_owner_during_a_call(Replay::Safe).await, (2, Outcome::Ok));
}
