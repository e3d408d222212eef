//! Storage that refuses, holders that forget, callers that go away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    BoxFuture, CancelToken, ErrorKind,
    clock::{Clock, Timestamp},
    entry::Entry,
    id::ConversationId,
    memory::Memory,
    message::Message,
    storage::{NewSession, Store},
    submission::End,
    tool::Replay,
    usage::RequestEnd,
};
use everturn_engine::{EventKind, Extension, Input, Opener, Session, SystemEntropy, World};
use everturn_testkit::{
    faulty::Faults,
    scripted::{Reply, Scripted},
};
use futures_util::FutureExt;

use crate::support::{Counting, harness, scripted, spec, store};

/// A store that refuses commits when it is told to.
fn refusing() -> (Store, Faults) {
    let faults = Faults::default();
    (faults.around(Store::new(Memory::new())), faults)
}

// A flush that storage refused for a moment left a hole in the partial text, or failed the turn.
// Guards: what is shown is always a prefix of the answer, and a busy store fails no turn.
#[tokio::test]
async fn a_store_that_refuses_partial_text_for_a_moment_loses_none_of_it() {
    for refused in [1, 2, 3] {
        let (store, faults) = refusing();
        let gates = [CancelToken::new(), CancelToken::new()];
        let reply = Reply::text("one ")
            .then_wait(&gates[0])
            .then_text("two ")
            .then_wait(&gates[1])
            .then_text("three");
        let model = Scripted::new([reply]);
        let harness = harness(&store, &model, Extension::new("none")).await;
        let session = harness.create(spec()).await.unwrap();
        let asked = session.root().submit(Input::text("a")).await.unwrap();
        faults.refuse("commit", refused);
        let mut events = asked.events();
        let mut shown = String::new();
        while let Some(event) = events.next().await {
            if let EventKind::Text { delta, .. } = event.unwrap().kind {
                shown.push_str(&delta);
                if shown.starts_with("one ") {
                    gates[0].cancel();
                }
                if shown.starts_with("one two ") {
                    gates[1].cancel();
                }
            }
        }
        assert_eq!(shown, "one two three");
        assert_eq!(asked.answer().await.unwrap().text, shown);
    }
}

#[tokio::test]
async fn a_store_that_refuses_an_outcome_gets_it_later_and_the_tool_runs_once() {
    let (store, faults) = refusing();
    let tool = Counting { gate: Some(CancelToken::new()), ..Counting::new(Replay::Never) };
    let model = Scripted::new([Reply::calls([("count", "{}")]), Reply::text("done")]);
    let harness = harness(&store, &model, Extension::new("test").tool(tool.clone())).await;
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    while !matches!(events.next().await.unwrap().unwrap().kind, EventKind::CallProposed { .. }) {}
    faults.refuse("commit", 3);
    tool.gate.as_ref().unwrap().cancel();
    assert_eq!(asked.answer().await.unwrap().text, "done");
    assert_eq!(tool.count(), 1);
}

// A follow-up that no entry can hold was only measured when it was placed, and then failed the turn before it.
// Guards: what cannot be stored is refused when it is handed over.
#[tokio::test]
async fn an_input_that_no_entry_can_hold_is_refused_at_once() {
    let gate = CancelToken::new();
    let (session, _) = scripted([Reply::text("one").then_wait(&gate)]).await;
    let running = session.root().submit(Input::text("a")).await.unwrap();
    let error = session.root().submit(Input::text("x".repeat(2 << 20))).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooLarge);
    gate.cancel();
    assert_eq!(running.answer().await.unwrap().text, "one");
}

// A response that was whole when its turn was cancelled had its calls run all the same.
// Guards: nothing with an effect begins behind a cancellation that was acknowledged.
#[tokio::test]
async fn calls_of_a_turn_that_is_cancelled_meanwhile_do_not_run() {
    let gate = CancelToken::new();
    let tool = Counting::new(Replay::Never);
    let model = Scripted::new([Reply::calls([("count", "{}")]).after_wait(&gate), Reply::text("never")]);
    let harness = harness(&store(), &model, Extension::new("test").tool(tool.clone())).await;
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    while model.count() == 0 {
        tokio::task::yield_now().await;
    }
    // The line is taken: the response waits behind the cancellation.
    let held = session.begin().await.unwrap();
    let cancel = tokio::spawn({
        let asked = asked.clone();
        async move { asked.cancel().await }
    });
    tokio::task::yield_now().await;
    gate.cancel();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    drop(held);
    assert!(cancel.await.unwrap().unwrap());
    assert_eq!(asked.answer().await.unwrap().end, End::Cancelled);
    assert_eq!((tool.count(), model.count()), (0, 1));
}

// Work that was admitted stood still when its sender went away before the answer to the commit.
// Guards: what is committed goes on by itself.
#[tokio::test]
async fn an_input_whose_sender_goes_away_is_answered() {
    let (session, model) = scripted([Reply::text("one")]).await;
    let root = session.root();
    let mut submit = Box::pin(root.submit(Input::text("a")));
    assert!((&mut submit).now_or_never().is_none(), "the commit is under way");
    drop(submit);
    while session.history().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.count(), 1);
}

// A follower that was given up while it looked, or that was told of an end and a shutdown at once, hung for ever.
// Guards: waiting for an event can be given up at any time and loses nothing.
#[tokio::test]
async fn a_follower_that_is_given_up_again_and_again_misses_nothing() {
    let (session, _) = scripted([Reply::words("one two three four five six seven eight")]).await;
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    let (mut shown, mut is_over) = (String::new(), false);
    while !is_over {
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(event) => if let EventKind::Text { delta, .. } = event.unwrap().kind { shown.push_str(&delta) },
                None => is_over = true,
            },
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(shown, "one two three four five six seven eight");
}

#[tokio::test]
async fn a_session_whose_last_handle_is_dropped_in_mid_turn_opens_at_once() {
    let (store, never) = (store(), CancelToken::new());
    let model = Scripted::new([Reply::words("half of ").then_wait(&never), Reply::text("whole")]);
    let harness = harness(&store, &model, Extension::new("none")).await;
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    while !matches!(events.next().await.unwrap().unwrap().kind, EventKind::Text { .. }) {}
    let id = session.id();
    drop((session, asked, events));
    let session = harness.open_session(id).await.expect("nobody owns it any more");
    assert_eq!(session.open_submissions().pop().unwrap().answer().await.unwrap().text, "whole");
    let ends: Vec<RequestEnd> = session.usage().await.unwrap().iter().map(|row| row.end).collect();
    assert_eq!(ends, [RequestEnd::Unknown, RequestEnd::Complete]);
}

#[tokio::test]
async fn a_closing_session_refuses_new_work() {
    let (session, _) = scripted([Reply::text("one")]).await;
    session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    session.close().await.unwrap();
    session.close().await.unwrap();
    let error = session.root().submit(Input::text("b")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed { .. }), "{error}");
}

// A close that was given up while it waited left a session that refused all work and told no follower of its end.
// Guards: once closing has begun, it ends, whether or not anyone waits for it.
#[tokio::test]
async fn a_close_that_is_given_up_goes_on() {
    let (session, _) = scripted([]).await;
    let mut events = session.root().events(None).await.unwrap();
    let held = session.begin().await.unwrap();
    assert!(session.close().now_or_never().is_none(), "it waits for the line");
    drop(held);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let told = events.next().now_or_never().expect("the session has ended").unwrap();
    assert!(matches!(told.unwrap_err().kind(), ErrorKind::Closed { .. }));
}

/// A clock that a test turns; waiting ends when it was turned far enough.
#[derive(Clone)]
struct Turned(Arc<AtomicI64>, Arc<tokio::sync::Notify>);

impl Clock for Turned {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (clock, end) = (self.clone(), self.now() + duration);
        Box::pin(async move {
            while clock.now() < end {
                clock.1.notified().await;
            }
        })
    }
}

#[tokio::test]
async fn a_holder_that_keeps_others_waiting_is_rolled_back_and_told_where_it_began() {
    let clock = Turned(Arc::new(AtomicI64::new(0)), Arc::default());
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let session = Session::create(&Opener::new(store(), world).await, NewSession::default()).await.unwrap();
    let mut careless = session.begin().await.unwrap();
    careless.append(ConversationId::ROOT, Entry::new("careless")).unwrap();
    let mut waiting = tokio::spawn({
        let session = session.clone();
        async move {
            let mut tx = session.begin().await?;
            tx.append(ConversationId::ROOT, Entry::new("careful").message(Message::user("a")))?;
            tx.commit().await
        }
    });
    tokio::task::yield_now().await;
    assert!((&mut waiting).now_or_never().is_none(), "the line is held");
    clock.0.store(10_001, Ordering::SeqCst);
    clock.1.notify_waiters();
    waiting.await.unwrap().unwrap();
    let error = careless.commit().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Expired);
    assert!(error.to_string().contains("trouble.rs:"), "{error}");
    let kinds: Vec<String> = session
        .entries(ConversationId::ROOT, None, 9)
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.kind.clone())
        .collect();
    assert_eq!(kinds, ["careful"]);
}
