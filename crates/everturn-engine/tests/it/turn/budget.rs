//! Budgets: reserved before it is spent, settled to what was used, never more than there is.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    CancelToken,
    budget::Budget,
    clock::Timestamp,
    message::Outcome,
    model::{Abilities, Fault, FaultClass},
    storage::Store,
    submission::End,
    tool::{Replay, ToolError},
    usage::Price,
};
use everturn_engine::{
    AgentChange, EventKind, Extension, Harness, Input, LiveSession, Models, Settings, SystemEntropy, TurnEnd,
    World,
    tool::{Does, SessionCall, SessionTool, Spawn},
    view::TurnPhase,
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};

use crate::support::{Able, Counting, ask, assert_legal, builder, explore, results, spec, store, until};

/// What the model writes at most.
const OUTPUT_MAX: u64 = 100;

/// A harness whose model says how much it writes at most, and what that costs.
async fn harness(store: &Store, model: &Scripted, extension: Extension) -> Harness {
    let price = Price {
        input: 0,
        output: 1_000_000,
        cached: None,
        cache_written: None,
        source: "a test".into(),
        date: "2026-08-22".into(),
    };
    let abilities = Abilities { output_max: Some(OUTPUT_MAX), price: Some(price), ..Abilities::default() };
    let models = Models::new().provider("scripted", Able(model.clone(), abilities));
    Harness::builder(store.clone()).models(models).install(extension).unwrap().open().await.unwrap()
}

async fn ask_within(session: &LiveSession, budget: Budget) -> TurnEnd {
    let asked = session.root().submit(Input::text("a").budget(budget)).await.unwrap();
    asked.answer().await.unwrap();
    session.history().await.unwrap().pop().unwrap().record.outcome
}

fn out_of(limit: &str) -> TurnEnd {
    TurnEnd::OutOfBudget { limit: limit.into() }
}

#[tokio::test]
async fn a_turn_ends_when_its_steps_are_used_up_and_the_next_one_begins_anew() {
    let model = Scripted::new([Reply::calls([("count", "{}")]), Reply::text("more")]);
    let extension = Extension::new("test").tool(Counting::new(Replay::Safe));
    let session = harness(&store(), &model, extension).await.create(spec()).await.unwrap();
    let one = Budget { steps: Some(1), ..Budget::default() };
    assert_eq!(ask_within(&session, one).await, out_of("steps"));
    assert_eq!(model.count(), 1, "what is not in the budget is not sent");
    assert_eq!(ask_within(&session, one).await, TurnEnd::Answered, "to go on is another turn");
    assert_legal(&model);
}

#[tokio::test]
async fn calls_beyond_the_budget_do_not_run() {
    let model = Scripted::new([Reply::calls([("count", "{}"), ("count", "{}")]), Reply::text("so be it")]);
    let tool = Counting::new(Replay::Safe);
    let extension = Extension::new("test").tool(tool.clone());
    let session = harness(&store(), &model, extension).await.create(spec()).await.unwrap();
    let one = Budget { calls: Some(1), ..Budget::default() };
    assert_eq!(ask_within(&session, one).await, out_of("calls"));
    assert_eq!(tool.count(), 0, "all of a response or none");
    let told = results(&session).await;
    assert_eq!(told.len(), 2);
    assert!(
        told.iter().all(|(outcome, text)| *outcome == Outcome::Cancelled && text.contains("budget of calls"))
    );
    assert_eq!(ask(&session, "b").await.text, "so be it");
    assert_legal(&model);
}

#[tokio::test]
async fn a_conversation_spends_no_more_than_it_may_over_all_its_turns() {
    let reply = || Reply::text("short").usage(10, 40);
    let model = Scripted::new([reply(), reply(), reply()]);
    let session = harness(&store(), &model, Extension::new("none")).await.create(spec()).await.unwrap();
    let budget = Budget { output_tokens: Some(150), ..Budget::default() };
    session.root().configure(AgentChange { budget: Some(budget), ..AgentChange::default() }).await.unwrap();
    assert!(ask(&session, "a").await.is_answered());
    assert!(ask(&session, "b").await.is_answered(), "40 were used, and 140 are enough");
    assert!(ask(&session, "c").await.error().unwrap().contains("output_tokens"), "80 were used");
    assert_eq!(model.count(), 2);
}

// A budget that an input brought with its agent was stored and then ignored.
// Guards: for its turn it stands in place of the conversation's, over the same account, and for no other.
#[tokio::test]
async fn an_input_brings_another_budget_of_its_agent_for_its_turn_alone() {
    let model = Scripted::answering(|_| Reply::text("short").usage(10, 40));
    let session = harness(&store(), &model, Extension::new("none")).await.create(spec()).await.unwrap();
    let tokens = |max| AgentChange {
        budget: Some(Budget { output_tokens: Some(max), ..Budget::default() }),
        ..AgentChange::default()
    };
    session.root().configure(tokens(130)).await.unwrap();
    assert!(ask(&session, "a").await.is_answered());
    assert!(ask(&session, "b").await.error().unwrap().contains("output_tokens"), "40 were used of 130");
    let more = session.root().submit(Input::text("c").agent(tokens(140))).await.unwrap();
    assert!(more.answer().await.unwrap().is_answered(), "140 are enough for 100 more");
    let less = session.root().submit(Input::text("d").agent(tokens(90))).await.unwrap();
    assert!(less.answer().await.unwrap().error().unwrap().contains("output_tokens"));
    assert!(ask(&session, "e").await.error().unwrap().contains("output_tokens"), "130 hold again");
    assert_eq!(model.count(), 2);
}

#[tokio::test]
async fn what_nobody_counted_is_charged_as_it_was_reserved() {
    let model = Scripted::new([Reply::fault(FaultClass::Auth, "no key"), Reply::text("b")]);
    let session = harness(&store(), &model, Extension::new("none")).await.create(spec()).await.unwrap();
    let budget = Budget { cost: Some(150_000), ..Budget::default() };
    session.root().configure(AgentChange { budget: Some(budget), ..AgentChange::default() }).await.unwrap();
    ask(&session, "a").await;
    assert!(ask(&session, "b").await.error().unwrap().contains("its budget of cost is used up"));
    assert_eq!(model.count(), 1);
}

#[tokio::test]
async fn a_budget_that_comes_later_counts_what_was_spent_before() {
    let model = Scripted::new([Reply::text("a").usage(10, 90), Reply::text("b")]);
    let session = harness(&store(), &model, Extension::new("none")).await.create(spec()).await.unwrap();
    ask(&session, "a").await;
    let budget = Budget { output_tokens: Some(150), ..Budget::default() };
    session.root().configure(AgentChange { budget: Some(budget), ..AgentChange::default() }).await.unwrap();
    assert!(ask(&session, "b").await.error().unwrap().contains("output_tokens"));
}

#[tokio::test]
async fn a_turn_waits_while_others_hold_what_it_wants() {
    let gate = CancelToken::new();
    let slow = Reply::text("one").then_wait(&gate).usage(10, 10);
    let model = Scripted::new([slow, Reply::text("two").usage(10, 10)]);
    let harness = harness(&store(), &model, Extension::new("none")).await;
    let session_budget = Budget { output_tokens: Some(120), ..Budget::default() };
    harness.set(Settings { session_budget, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    let fork = {
        let mut tx = session.begin().await.unwrap();
        tx.append(session.root().id(), everturn_core::entry::Entry::new("app.note")).unwrap();
        tx.commit().await.unwrap();
        session.root().fork(None, AgentChange::default()).await.unwrap()
    };
    let first = session.root().submit(Input::text("a")).await.unwrap();
    until("the first request is out", || model.count() == 1).await;
    let second = fork.submit(Input::text("b")).await.unwrap();
    assert_eq!(model.count(), 1, "100 are reserved, and 20 are not enough");
    assert_eq!(fork.view().await.unwrap().turn.unwrap().phase, TurnPhase::WaitingForRoom);
    gate.cancel();
    assert_eq!(first.answer().await.unwrap().text, "one");
    assert_eq!(second.answer().await.unwrap().text, "two", "10 were used, and 110 are");
    assert_legal(&model);
}

// A turn that waited for what others held went on only when these gave it back, however much more there was by then.
// Guards: whoever waits looks again when there may be more.
#[tokio::test]
async fn a_turn_that_waits_for_room_goes_on_when_there_is_more() {
    let gate = CancelToken::new();
    let model = Scripted::new([Reply::text("one").then_wait(&gate).usage(10, 10), Reply::text("two")]);
    let harness = harness(&store(), &model, Extension::new("none")).await;
    let with = |max| {
        let session_budget = Budget { output_tokens: Some(max), ..Budget::default() };
        Settings { session_budget, ..harness.settings() }
    };
    harness.set(with(120)).unwrap();
    let session = harness.create(spec()).await.unwrap();
    let first = session.root().submit(Input::text("a")).await.unwrap();
    until("the first request is out", || model.count() == 1).await;
    let fork = session.root().fork(None, AgentChange::default()).await.unwrap();
    let second = fork.submit(Input::text("b")).await.unwrap();
    rest().await;
    assert_eq!(model.count(), 1, "100 are reserved, and 20 are not enough");
    harness.set(with(200)).unwrap();
    until("the second request is out too", || model.count() == 2).await;
    assert_eq!(second.answer().await.unwrap().text, "two", "while the first holds what it has");
    gate.cancel();
    assert_eq!(first.answer().await.unwrap().text, "one");
    assert_legal(&model);
}

#[tokio::test]
async fn a_child_that_waits_for_room_goes_on_when_its_parent_has_more() {
    let gate = CancelToken::new();
    let held = gate.clone();
    let model = Scripted::answering(move |request| match request.texts().last().unwrap().as_str() {
        "a" => Reply::calls([("delegate", "{}"), ("delegate", "{}")]).usage(10, 10),
        "do it" => Reply::text("done").then_wait(&held).usage(10, 10),
        _ => Reply::text("all is done"),
    });
    let extension = Extension::new("test").session_tool(Delegate);
    let session = harness(&store(), &model, extension).await.create(spec()).await.unwrap();
    let tokens = |max| AgentChange {
        budget: Some(Budget { output_tokens: Some(max), ..Budget::default() }),
        ..AgentChange::default()
    };
    session.root().configure(tokens(150)).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("the first child asks", || model.count() == 2).await;
    rest().await;
    assert_eq!(model.count(), 2, "10 are used and 100 reserved, and 40 are not enough");
    session.root().configure(tokens(1_000)).await.unwrap();
    until("the second child asks too", || model.count() == 3).await;
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "all is done");
    assert_legal(&model);
}

/// Lets others run for as long as anything can.
async fn rest() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_it_was_sent_holds_nothing() {
    let gate = CancelToken::new();
    let slow = Reply::text("one").then_wait(&gate).usage(10, 10);
    let model = Scripted::new([slow, Reply::text("three").usage(10, 10)]);
    let harness = harness(&store(), &model, Extension::new("none")).await;
    harness.set(Settings { requests_max: 1, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    let first = session.root().submit(Input::text("a")).await.unwrap();
    until("the first request is out", || model.count() == 1).await;
    let fork = session.root().fork(None, AgentChange::default()).await.unwrap();
    let budget = Budget { output_tokens: Some(150), ..Budget::default() };
    fork.configure(AgentChange { budget: Some(budget), ..AgentChange::default() }).await.unwrap();
    let second = fork.submit(Input::text("b")).await.unwrap();
    second.cancel().await.unwrap();
    assert_eq!(second.answer().await.unwrap().end, End::Cancelled);
    gate.cancel();
    first.answer().await.unwrap();
    let third = fork.submit(Input::text("c")).await.unwrap().answer().await.unwrap();
    assert_eq!(third.text, "three", "100 are free again");
    assert_legal(&model);
}

#[tokio::test]
async fn an_attempt_that_is_sent_again_is_reserved_anew() {
    let busy = Fault { wait_ms: Some(0), ..Fault::new(FaultClass::Overloaded, "busy") };
    let model = Scripted::new([Reply::pieces([Err(busy)]), Reply::text("too much")]);
    let session = harness(&store(), &model, Extension::new("none")).await.create(spec()).await.unwrap();
    let budget = Budget { output_tokens: Some(150), ..Budget::default() };
    assert_eq!(ask_within(&session, budget).await, out_of("output_tokens"), "the first is charged with 100");
    assert_eq!(model.count(), 1);
}

// Guards: time in which a request was out counts whatever became of it; of one that nobody saw the end of, up to what was
// stored of it last, and not the time until someone came back.
#[tokio::test]
async fn a_request_that_was_cut_off_counts_its_time_up_to_what_is_stored_of_it() {
    let within = async |wall_ms: u64| {
        let (store, clock) = (store(), ManualClock::at(Timestamp(1_000_000)));
        let (first, never) = (CancelToken::new(), CancelToken::new());
        let cut = Reply::text("half ").then_wait(&first).then_text("of it").then_wait(&never);
        let model = Scripted::new([cut, Reply::text("whole")]);
        let world = || World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
        let harness = builder(&store, &model).world(world()).open().await.unwrap();
        let session = harness.create(spec()).await.unwrap();
        let budget = Budget { wall_ms: Some(wall_ms), ..Budget::default() };
        let asked = session.root().submit(Input::text("a").budget(budget)).await.unwrap();
        let (id, submission) = (session.id(), asked.id());
        let mut events = asked.events();
        for piece in ["half ", "of it"] {
            loop {
                let event = events.next().await.unwrap().unwrap();
                if matches!(event.kind, EventKind::Text { delta, .. } if delta == piece) {
                    break;
                }
            }
            clock.advance(Duration::from_secs(5));
            first.cancel();
        }
        clock.advance(Duration::from_secs(60));
        drop((events, asked, session, harness));
        let harness = builder(&store, &model).world(world()).open().await.unwrap();
        let session = harness.open_session(id).await.unwrap();
        session.submission(submission).await.unwrap().answer().await.unwrap();
        session.history().await.unwrap().pop().unwrap().record.outcome
    };
    assert_eq!(within(5_000).await, out_of("wall_ms"), "it was out for 5 seconds when something came last");
    assert_eq!(within(5_001).await, TurnEnd::Answered, "what came after that counts for nothing");
}

/// Has it done by a sub-agent.
struct Delegate;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Has it done."
    }

    async fn run(&self, _: &SessionCall, _: Nothing) -> Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn::new("do it")))
    }
}

#[tokio::test]
async fn a_child_draws_from_the_budget_of_the_turn_that_started_it() {
    let model = Scripted::answering(|request| match request.texts().last().unwrap().as_str() {
        "a" => Reply::calls([("delegate", "{}")]),
        "do it" => Reply::text("done"),
        _ => Reply::text("all is done"),
    });
    let extension = || Extension::new("test").session_tool(Delegate);
    let session = harness(&store(), &model, extension()).await.create(spec()).await.unwrap();
    let two = Budget { steps: Some(2), ..Budget::default() };
    assert_eq!(ask_within(&session, two).await, out_of("steps"), "the child has used the second");
    let three = Budget { steps: Some(3), ..Budget::default() };
    assert_eq!(ask_within(&session, three).await, TurnEnd::Answered);
    let none = Budget { children: Some(0), ..Budget::default() };
    assert_eq!(ask_within(&session, none).await, TurnEnd::Answered);
    assert!(results(&session).await.pop().unwrap().1.contains("the budget of children is used up"));
    let flat = Budget { depth: Some(0), ..Budget::default() };
    session.root().configure(AgentChange { budget: Some(flat), ..AgentChange::default() }).await.unwrap();
    assert_eq!(ask_within(&session, Budget::default()).await, TurnEnd::Answered);
    assert!(results(&session).await.pop().unwrap().1.contains("the budget of depth is used up"));
    assert_legal(&model);
}

#[test]
fn a_crash_anywhere_spends_no_more_than_there_is() {
    let make = || {
        Arc::new(Scripted::answering(|request| match request.texts().len() {
            1 => Reply::calls([("count", "{}")]),
            _ => Reply::text("done").usage(10, 10),
        }))
    };
    let stops = explore(make, async |store, model| {
        let extension = Extension::new("test").tool(Counting::new(Replay::Safe));
        let harness = harness(&store, model, extension).await;
        let request = Some("one".to_owned());
        let spec = everturn_engine::SessionSpec { request, ..spec() };
        let session = harness.create(spec).await.unwrap();
        let budget = Budget { steps: Some(4), ..Budget::default() };
        let change = AgentChange { budget: Some(budget), ..AgentChange::default() };
        session.root().configure(change).await.unwrap();
        let asked = session.root().submit(Input::text("a").request("r")).await.unwrap();
        let answer = asked.answer().await.unwrap();
        assert!(model.count() <= 4, "{} requests were sent", model.count());
        assert!(answer.is_answered() || answer.error().unwrap().contains("steps"), "{answer:?}");
        let ended = session.usage().await.unwrap().len();
        assert!(ended <= 4, "{ended} requests are in the ledger");
        session.close().await.unwrap();
    });
    assert!(stops > 8, "{stops} places to stop at");
}
