//! Deadlines of inputs: they count from when an input is handed over, and not from when its turn begins.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    CancelToken,
    clock::Timestamp,
    storage::{Store, TaskQuery},
    submission::End,
};
use everturn_engine::{Harness, Input, LiveSession, SessionSpec, World};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};

use crate::support::{assert_legal, builder, life, spec, store, until};

const NOON: Timestamp = Timestamp(1_790_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

async fn open(store: &Store, model: &Scripted, clock: &ManualClock) -> (Harness, LiveSession) {
    let world = World { clock: Arc::new(clock.clone()), ..World::system() };
    let harness = builder(store, model).world(world).open().await.unwrap();
    let spec = SessionSpec { request: Some("the session".into()), ..spec() };
    let session = harness.create(spec).await.unwrap();
    (harness, session)
}

/// A model whose first answer waits for the gate.
fn slow(replies: impl IntoIterator<Item = Reply>) -> (Scripted, CancelToken) {
    let gate = CancelToken::new();
    let first = Reply::text("one").after_wait(&gate);
    (Scripted::new([first].into_iter().chain(replies)), gate)
}

fn returned() -> End {
    End::Returned { reason: "its deadline has passed while it waited".into() }
}

async fn live(session: &LiveSession) -> Vec<String> {
    let tasks = session.store().tasks(TaskQuery::live(session.id())).await.unwrap();
    tasks.into_iter().map(|task| task.kind).collect()
}

// The deadline of an input was that of its turn alone: behind a turn that took long it waited for ever.
// Guards: it is given back at its moment, and those beside it go on.
#[tokio::test]
async fn an_input_that_waits_is_returned_at_its_deadline() {
    let (clock, (model, gate)) = (ManualClock::at(NOON), slow([Reply::text("two")]));
    let (harness, session) = open(&store(), &model, &clock).await;
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let asked = submit(Input::text("a")).await;
    let soon = submit(Input::text("b").deadline(NOON + SECOND)).await;
    let too = submit(Input::text("c").deadline(NOON + SECOND)).await;
    let late = submit(Input::text("d").deadline(NOON + SECOND * 60)).await;
    until("the model was asked", || model.count() == 1).await;
    clock.advance(SECOND * 2);
    for one in [soon, too] {
        assert_eq!(one.answer().await.unwrap().end, returned());
    }
    assert_eq!(asked.turn().await.unwrap().map(|_| ()), Some(()), "the turn before it still runs");
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "one");
    assert_eq!(late.answer().await.unwrap().text, "two");
    session.quiescent().await.unwrap();
    assert_eq!(live(&session).await, Vec::<String>::new(), "no timer is left");
    assert_eq!(harness.verify(session.id()).await.unwrap(), []);
    assert_legal(&model);
}

#[tokio::test]
async fn an_input_that_is_taken_back_leaves_no_timer() {
    let (clock, (model, gate)) = (ManualClock::at(NOON), slow([]));
    let (_, session) = open(&store(), &model, &clock).await;
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let waiting = session.root().submit(Input::text("b").deadline(NOON + SECOND)).await.unwrap();
    waiting.withdraw().await.unwrap();
    gate.cancel();
    asked.answer().await.unwrap();
    assert_eq!(live(&session).await, Vec::<String>::new());
    assert_legal(&model);
}

#[tokio::test]
async fn an_input_whose_deadline_has_passed_begins_no_turn() {
    let (clock, (model, gate)) = (ManualClock::at(NOON), slow([]));
    let (_, session) = open(&store(), &model, &clock).await;
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let waiting = session.root().submit(Input::text("b").deadline(NOON + SECOND)).await.unwrap();
    until("the model was asked", || model.count() == 1).await;
    // Nothing runs but the turn: its end is the first to see what the time is.
    let hold = session.hold();
    clock.advance(SECOND * 2);
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "one");
    assert_eq!(waiting.answer().await.unwrap().end, returned());
    drop(hold);
    assert_eq!(model.count(), 1);
    assert_legal(&model);
}

#[test]
fn a_deadline_that_passed_while_nobody_had_the_session_open_is_kept() {
    let (memory, clock, (model, _gate)) = (store(), ManualClock::at(NOON), slow([]));
    let again = Scripted::new([Reply::text("one").after_wait(&CancelToken::new())]);
    life(&memory, None, async |store| {
        let (_, session) = open(&store, &model, &clock).await;
        let submit = async |input: Input| session.root().submit(input).await.unwrap();
        submit(Input::text("a")).await;
        submit(Input::text("b").deadline(NOON + SECOND)).await;
        until("the model was asked", || model.count() == 1).await;
    });
    clock.advance(SECOND * 2);
    life(&memory, None, async |store| {
        let (_, session) = open(&store, &again, &clock).await;
        let waiting = session.open_submissions().pop().unwrap();
        assert_eq!(waiting.answer().await.unwrap().end, returned());
        assert_eq!(session.open_submissions().len(), 1, "the turn before it still runs");
    });
    assert_legal(&model);
    assert_legal(&again);
}
