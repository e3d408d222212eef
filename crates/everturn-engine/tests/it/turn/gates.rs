//! Gates that refuse answers, and turns that stand still.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everturn_core::{CancelToken, clock::Timestamp, submission::End, usage::RequestEnd};
use everturn_engine::{
    Extension, Input, Settings, SystemEntropy, TurnEnd, World,
    extension::{Gated, StopGate, TurnAnswer},
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};

use crate::support::{Doing, ask, assert_legal, builder, kinds, spec, store, until};

/// A gate that wants the word please.
struct Polite;

impl StopGate for Polite {
    async fn check(&self, answer: &TurnAnswer) -> Gated {
        match answer.text.contains("please") {
            true => Gated::Pass,
            false => Gated::Refuse(format!("Say please ({}).", answer.refusals)),
        }
    }
}

struct Panicking;

impl StopGate for Panicking {
    async fn check(&self, _: &TurnAnswer) -> Gated {
        panic!("the gate fell off its hinges")
    }
}

#[tokio::test]
async fn a_refused_answer_sends_the_turn_on() {
    let model = Scripted::new(["go", "go, go", "go, please"].map(Reply::text));
    let gates = Extension::new("gates").stop_gate(Panicking).stop_gate(Polite);
    let harness = builder(&store(), &model).install(gates).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let answer = ask(&session, "a").await;
    assert_eq!((answer.text.as_str(), answer.steps), ("go, please", 3));
    let texts = model.requests()[2].texts();
    assert_eq!(texts, ["a", "go", "Say please (0).", "go, go", "Say please (1)."]);
    assert_legal(&model);
}

#[tokio::test]
async fn a_gate_refuses_so_often_and_no_longer() {
    let model = Scripted::answering(|_| Reply::text("go"));
    let gates = Extension::new("gates").stop_gate(Polite);
    let harness = builder(&store(), &model).install(gates).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let answer = ask(&session, "a").await;
    assert!(answer.is_answered(), "then the answer stands");
    assert_eq!((answer.text.as_str(), answer.steps, model.count()), ("go", 4, 4));
    harness.set(Settings { steps_max: 2, ..harness.settings() }).unwrap();
    let answer = ask(&session, "b").await;
    assert_eq!((answer.is_answered(), answer.steps), (true, 2), "a gate buys no step");
    assert_legal(&model);
}

#[tokio::test]
async fn a_gate_that_breaks_stops_nobody() {
    let model = Scripted::new([Reply::text("go")]);
    let gates = Extension::new("gates").stop_gate(Panicking);
    let harness = builder(&store(), &model).install(gates).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "go");
    assert_legal(&model);
}

/// A gate that says that it was asked, and then nothing.
struct Silent(CancelToken);

impl StopGate for Silent {
    async fn check(&self, _: &TurnAnswer) -> Gated {
        self.0.cancel();
        std::future::pending().await
    }
}

// A turn could not be cancelled while a gate thought about its answer, and when the gate let it pass, it had answered.
// Guards: it ends cancelled at once; what came, and what that cost, is on record.
#[tokio::test]
async fn a_turn_is_cancelled_while_a_gate_looks_at_its_answer() {
    let (model, is_asked) = (Scripted::new([Reply::text("go").usage(3, 2)]), CancelToken::new());
    let world =
        World { clock: Arc::new(ManualClock::at(Timestamp(1_000))), entropy: Arc::new(SystemEntropy) };
    let gates = Extension::new("gates").stop_gate(Silent(is_asked.clone()));
    let harness = builder(&store(), &model).world(world).install(gates).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    is_asked.cancelled().await;
    assert!(asked.cancel().await.unwrap());
    until("the turn has ended", || session.open_submissions().is_empty()).await;
    let answer = asked.answer().await.unwrap();
    assert_eq!((answer.end, answer.steps, answer.total.usage.output), (End::Cancelled, 1, Some(2)));
    assert_eq!(kinds(&session).await, ["et.epoch", "et.user", "et.assistant", "et.turn"]);
    let ledger = session.usage().await.unwrap();
    assert_eq!(ledger.iter().map(|row| row.end).collect::<Vec<_>>(), [RequestEnd::Complete]);
}

fn notices(model: &Scripted) -> Vec<usize> {
    let is_notice = |text: &String| text.starts_with("The same calls have given the same results 3 times");
    let requests = model.requests();
    let counts = requests.iter().map(|request| request.texts().iter().filter(|text| is_notice(text)).count());
    counts.collect()
}

#[tokio::test]
async fn a_turn_that_stands_still_is_told_at_three_and_ends_at_six() {
    let model = Scripted::answering(|_| Reply::calls([("do", "{}"), ("do", r#"{"a":1}"#)]));
    let tools = Extension::new("test").tool(Doing::<0>::says("the same"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let answer = ask(&session, "a").await;
    assert_eq!(answer.end, End::Failed { reason: "standstill".into() });
    assert_eq!((answer.steps, notices(&model)), (6, vec![0, 0, 0, 1, 1, 1]));
    let history = session.history().await.unwrap();
    assert_eq!(history[0].record.outcome, TurnEnd::Standstill { repeats: 6 });
    assert_legal(&model);
}

#[tokio::test]
async fn other_results_are_no_standstill() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = Doing::<0>::new(move |_, _| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok(run.to_string().into()) }
    });
    let model = Scripted::answering(|request| match request.messages.len() {
        0..20 => Reply::calls([("do", "{}")]),
        _ => Reply::text("enough"),
    });
    let tools = Extension::new("test").tool(counting);
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "enough");
    assert!(notices(&model).iter().all(|count| *count == 0));
    assert_legal(&model);
}

#[tokio::test]
async fn a_steer_moves_a_turn_that_stands_still() {
    let gate = CancelToken::new();
    let calls = || Reply::calls([("do", "{}")]);
    let mut replies = vec![calls(); 9];
    replies[3] = calls().after_wait(&gate);
    let model = Scripted::new(replies);
    model.push(Reply::text("enough"));
    let tools = Extension::new("test").tool(Doing::<0>::says("the same"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("four requests were sent", || model.count() == 4).await;
    session.root().submit(Input::text("go on").steer()).await.unwrap();
    gate.cancel();
    let answer = asked.answer().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.steps), ("enough", 10), "it counts from 1 again");
    assert_eq!(*notices(&model).last().unwrap(), 2);
    assert_legal(&model);
}
