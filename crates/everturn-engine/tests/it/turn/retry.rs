//! Requests that fail in passing.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    CancelToken,
    clock::{Clock, Entropy, Timestamp},
    model::{Delta, Fault, FaultClass},
    storage::{Store, TaskQuery},
    submission::End,
    task::TaskState,
    usage::RequestEnd,
};
use everturn_engine::{
    EventKind, Harness, Input, LiveSession, Models, SessionSpec, Settings, Submission, World, view::TurnPhase,
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};
use futures_util::FutureExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{ask, assert_legal, kinds, spec, store};

/// Randomness from a seed (splitmix64).
struct Seeded(AtomicU64);

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

const NOON: Timestamp = Timestamp(1_790_000_000_000);

async fn harness(store: &Store, model: &Scripted, clock: &ManualClock) -> Harness {
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(Seeded(AtomicU64::new(7))) };
    let models = Models::new().provider("scripted", model.clone()).provider("other", model.clone());
    Harness::builder(store.clone()).models(models).world(world).open().await.unwrap()
}

fn busy(wait_ms: Option<u64>) -> Reply {
    Reply::pieces([Err(Fault { wait_ms, ..Fault::new(FaultClass::Overloaded, "busy") })])
}

/// When the turn that waits in a session goes on.
async fn until(session: &LiveSession) -> Timestamp {
    session.quiescent().await.unwrap();
    let query = TaskQuery { session: session.id(), live: true, ids: None, owner: None };
    let tasks = session.store().tasks(query).await.unwrap();
    let sleeping = tasks.iter().find_map(|task| match task.state {
        TaskState::Sleeping { until, .. } => Some(until),
        _ => None,
    });
    sleeping.expect("the turn waits")
}

async fn ends(session: &LiveSession) -> Vec<(u32, u32, RequestEnd)> {
    let rows = session.usage().await.unwrap();
    rows.iter().map(|row| (row.step, row.attempt, row.end)).collect()
}

#[tokio::test]
async fn the_wait_that_the_server_asks_for_is_kept_to_the_millisecond() {
    let (clock, model) = (ManualClock::at(NOON), Scripted::new([busy(Some(90_000)), Reply::text("one")]));
    let session = harness(&store(), &model, &clock).await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    assert_eq!(until(&session).await, NOON + Duration::from_secs(90));
    clock.advance(Duration::from_millis(89_999));
    session.quiescent().await.unwrap();
    assert_eq!(model.count(), 1);
    clock.advance(Duration::from_millis(1));
    let answer = asked.answer().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.steps, answer.total.requests), ("one", 1, 2));
    assert_eq!(ends(&session).await, [(1, 1, RequestEnd::Failed), (1, 2, RequestEnd::Complete)]);
    let requests = model.requests();
    assert_eq!(requests[0].messages, requests[1].messages, "the same request is sent again");
    assert_legal(&model);
}

#[tokio::test]
async fn waits_of_our_own_are_bounded_and_no_two_sessions_come_back_together() {
    let (clock, model) = (ManualClock::at(NOON), Scripted::answering(|_| busy(None)));
    let harness = harness(&store(), &model, &clock).await;
    harness.set(Settings { retries_max: 7, ..harness.settings() }).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let session = harness.create(spec()).await.unwrap();
        let asked = session.root().submit(Input::text("a")).await.unwrap();
        sessions.push((session, asked));
    }
    for retry in 0..7_u32 {
        let bound = Duration::from_secs(2 << retry).min(Duration::from_mins(1));
        let mut waits = Vec::new();
        for (session, _) in &sessions {
            let wait = until(session).await.since(clock.now());
            assert!(wait <= bound, "{wait:?} before retry {retry}");
            waits.push(wait);
        }
        assert_ne!(waits[0], waits[1]);
        clock.advance(bound);
    }
    for (session, asked) in sessions {
        assert_eq!(asked.answer().await.unwrap().end, End::Failed { reason: "overloaded".into() });
        assert_eq!(session.usage().await.unwrap().len(), 8, "one row for each attempt");
    }
    assert_legal(&model);
}

#[tokio::test]
async fn a_restart_during_the_wait_keeps_its_end() {
    let (store, clock) = (store(), ManualClock::at(NOON));
    let model = Scripted::new([busy(Some(60_000)), Reply::text("one")]);
    let first = harness(&store, &model, &clock).await;
    let session = first.create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    let end = until(&session).await;
    let id = session.id();
    session.close().await.unwrap();
    drop((session, first));
    clock.advance(Duration::from_secs(20));
    let session = harness(&store, &model, &clock).await.open_session(id).await.unwrap();
    session.resume();
    assert_eq!(until(&session).await, end);
    assert_eq!(model.count(), 1);
    clock.advance(Duration::from_secs(40));
    let asked = session.open_submissions().pop().unwrap();
    assert_eq!(asked.answer().await.unwrap().text, "one");
    assert_eq!(ends(&session).await, [(1, 1, RequestEnd::Failed), (1, 2, RequestEnd::Complete)]);
    assert_legal(&model);
}

#[tokio::test]
async fn what_a_failed_attempt_has_shown_is_withdrawn_and_kept() {
    let (clock, gate) = (ManualClock::at(NOON), everturn_core::CancelToken::new());
    let cut = Reply::text("half ").then_wait(&gate).then_text("of it").then_cut();
    let model = Scripted::new([cut, Reply::text("whole")]);
    let session = harness(&store(), &model, &clock).await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut events = asked.events();
    let (mut shown, mut discarded) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        match event.unwrap().kind {
            EventKind::Text { step, attempt, delta } => {
                shown.push((step, attempt, delta));
                gate.cancel();
            }
            EventKind::AttemptDiscarded { step, attempt } => {
                discarded.push((step, attempt));
                clock.advance(Duration::from_mins(1));
            }
            _ => {}
        }
    }
    assert_eq!(discarded, [(1, 1)]);
    let of = |wanted: u32| {
        let text =
            shown.iter().filter(|(_, attempt, _)| *attempt == wanted).map(|(_, _, delta)| delta.as_str());
        text.collect::<String>()
    };
    assert!("half of it".starts_with(&of(1)) && !of(1).is_empty(), "{shown:?}");
    assert_eq!(of(2), "whole");
    assert_eq!(kinds(&session).await, ["et.epoch", "et.user", "et.assistant", "et.assistant", "et.turn"]);
    assert_eq!(model.requests()[1].texts(), ["a"], "no model reads what was cut");
    assert_eq!(ask(&session, "b").await.failure.as_deref().map(|_| ()), Some(()), "the script is over");
    assert_eq!(model.requests()[2].texts(), ["a", "whole", "b"]);
    assert_legal(&model);
}

#[tokio::test]
async fn what_is_no_passing_fault_is_not_sent_again() {
    let never = [FaultClass::Quota, FaultClass::Auth, FaultClass::Invalid, FaultClass::Refused];
    for class in never {
        let (clock, model) = (ManualClock::at(NOON), Scripted::new([Reply::fault(class, "no")]));
        let session = harness(&store(), &model, &clock).await.create(spec()).await.unwrap();
        let answer = ask(&session, "a").await;
        assert_eq!(answer.end, End::Failed { reason: class.word().into() });
        assert_eq!((model.count(), session.usage().await.unwrap().len()), (1, 1));
    }
}

#[tokio::test]
async fn what_the_server_says_of_retrying_wins_over_the_class() {
    for (class, retry) in [(FaultClass::Overloaded, false), (FaultClass::Quota, true)] {
        let fault = Fault { retry: Some(retry), wait_ms: Some(0), ..Fault::new(class, "as I say") };
        let (clock, model) =
            (ManualClock::at(NOON), Scripted::new([Reply::pieces([Err(fault)]), Reply::text("one")]));
        let session = harness(&store(), &model, &clock).await.create(spec()).await.unwrap();
        assert_eq!(ask(&session, "a").await.is_answered(), retry);
        assert_legal(&model);
    }
}

#[tokio::test]
async fn models_are_fallen_back_to_in_order_and_the_switch_is_recorded() {
    let (clock, model) = (
        ManualClock::at(NOON),
        Scripted::answering(|request| match &*request.model {
            "third" => Reply::pieces([
                Ok(Delta::Text("three".into())),
                Ok(Delta::End(everturn_core::message::Stop::Answer)),
            ]),
            "second" => Reply::fault(FaultClass::Auth, "no key"),
            _ => Reply::fault(FaultClass::Quota, "no credit"),
        }),
    );
    let harness = harness(&store(), &model, &clock).await;
    let fallbacks = ["other/second", "other/third"].map(|model| model.parse().unwrap()).into();
    harness.set(Settings { fallbacks, ..harness.settings() }).unwrap();
    let session = harness.create(SessionSpec::model("scripted/first".parse().unwrap())).await.unwrap();
    let answer = ask(&session, "a").await;
    assert_eq!((answer.text.as_str(), answer.steps), ("three", 1));
    let asked: Vec<_> =
        session.usage().await.unwrap().iter().map(|row| (row.attempt, row.model.clone())).collect();
    let expected = [(1, "scripted/first"), (2, "other/second"), (3, "other/third")];
    assert_eq!(asked, expected.map(|(attempt, model)| (attempt, model.to_owned())));
    let epochs = kinds(&session).await.iter().filter(|kind| *kind == "et.epoch").count();
    assert_eq!(epochs, 3, "each switch is on record");
    assert_legal(&model);
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_it_waits_sends_nothing_more() {
    let (clock, model) = (ManualClock::at(NOON), Scripted::new([busy(Some(60_000)), Reply::text("one")]));
    let session = harness(&store(), &model, &clock).await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until(&session).await;
    assert!(asked.cancel().await.unwrap());
    assert_eq!(asked.answer().await.unwrap().end, End::Cancelled);
    assert_eq!(ends(&session).await, [(1, 1, RequestEnd::Failed)]);
    clock.advance(Duration::from_mins(1));
    assert_eq!(ask(&session, "b").await.text, "one");
    assert_eq!(model.count(), 2);
    assert_legal(&model);
}

/// The events of a submission up to one that says that its request waits; gives until when.
async fn held(asked: &Submission) -> Option<Timestamp> {
    let mut events = asked.events();
    for _ in 0..100_000 {
        match events.next().now_or_never() {
            Some(event) => {
                let event = event.expect("it has not ended").unwrap();
                if let EventKind::Waiting { step: 1, attempt: 1, until } = event.kind {
                    return until;
                }
            }
            None => tokio::task::yield_now().await,
        }
    }
    panic!("it never said that it waits");
}

async fn phase(session: &LiveSession) -> TurnPhase {
    session.root().view().await.unwrap().turn.unwrap().phase
}

// A turn that others kept from its model looked as if it asked, or as if it came to its end.
// Guards: who waits for a place at an endpoint says so, to whoever watches and to whoever looks.
#[tokio::test]
async fn a_request_that_waits_for_a_place_is_shown_as_waiting() {
    let (clock, first, second) = (ManualClock::at(NOON), CancelToken::new(), CancelToken::new());
    let wait = |gate: &CancelToken| Reply::text("so it is").after_wait(gate);
    let model = Scripted::new([wait(&first), wait(&second), Reply::text("at once")]);
    let harness = harness(&store(), &model, &clock).await;
    harness.set(Settings { requests_max: 1, ..harness.settings() }).unwrap();
    let (busy, session) = (harness.create(spec()).await.unwrap(), harness.create(spec()).await.unwrap());
    let before = busy.root().submit(Input::text("a")).await.unwrap();
    crate::support::until("the first request is out", || model.count() == 1).await;
    let asked = session.root().submit(Input::text("b")).await.unwrap();
    assert_eq!(held(&asked).await, None, "until there is a place");
    assert_eq!(phase(&session).await, TurnPhase::WaitingForRoom);
    let cancelled = harness.create(spec()).await.unwrap();
    let never = cancelled.root().submit(Input::text("c")).await.unwrap();
    held(&never).await;
    never.cancel().await.unwrap();
    assert_eq!(never.answer().await.unwrap().end, End::Cancelled);
    first.cancel();
    before.answer().await.unwrap();
    crate::support::until("the second request is out", || model.count() == 2).await;
    assert_eq!(phase(&session).await, TurnPhase::Requesting, "it waits no longer");
    second.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "so it is");
    assert_eq!(ask(&cancelled, "d").await.text, "at once");
    assert_legal(&model);
}

#[tokio::test]
async fn a_request_that_waits_because_another_was_asked_to_is_shown_as_waiting() {
    let clock = ManualClock::at(NOON);
    let model = Scripted::new([busy(Some(60_000)), Reply::text("one"), Reply::text("one")]);
    let harness = harness(&store(), &model, &clock).await;
    let (other, session) = (harness.create(spec()).await.unwrap(), harness.create(spec()).await.unwrap());
    let first = other.root().submit(Input::text("a")).await.unwrap();
    let end = until(&other).await;
    let asked = session.root().submit(Input::text("b")).await.unwrap();
    assert_eq!(held(&asked).await, Some(end));
    assert_eq!(phase(&session).await, TurnPhase::WaitingUntil(end));
    clock.advance(Duration::from_secs(60));
    for asked in [first, asked] {
        assert_eq!(asked.answer().await.unwrap().text, "one");
    }
    assert_eq!(ends(&session).await, [(1, 1, RequestEnd::Complete)], "that it waited is no attempt");
    assert_legal(&model);
}
