//! Turns: what is asked is answered once, whatever happens.

use everturn_core::{
    CancelToken,
    id::ConversationId,
    message::{Message, Stop},
    model::FaultClass,
    submission::End,
    task::tree::Reach,
    tool::Replay,
};
use everturn_engine::{Branch, EventKind, Extension, Input, NewTask, Settings, TurnEnd, WhenBusy};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Counting, harness, scripted, spec, store};

#[tokio::test]
async fn two_turns_share_a_history() {
    let (session, model) = scripted([Reply::text("one").usage(3, 1), Reply::text("two").usage(5, 1)]).await;
    let first = session.root().submit(Input::text("first")).await.unwrap().answer().await.unwrap();
    let second = session.root().submit(Input::text("second")).await.unwrap().answer().await.unwrap();
    assert_eq!((first.text.as_str(), second.text.as_str()), ("one", "two"));
    let texts = model.requests()[1].texts();
    assert_eq!(texts, ["first", "one", "second"]);
    let history = session.history().await.unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[1].parent, Some(history[0].record.turn));
    assert_eq!(second.total.usage.input, Some(5));
    assert_eq!(session.usage_of(session.root().id()).await.unwrap().usage.input, Some(8));
}

#[tokio::test]
async fn a_turn_runs_its_calls_and_answers() {
    let tool = Counting::new(Replay::Safe);
    let model = Scripted::new([Reply::calls([("count", "{}"), ("count", "")]), Reply::text("twice")]);
    let harness = harness(&store(), &model, Extension::new("test").tool(tool.clone())).await;
    let session = harness.create(spec()).await.unwrap();
    let answer = session.root().submit(Input::text("count twice")).await.unwrap().answer().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.steps, tool.count()), ("twice", 2, 2));
    let results = |message: &&std::sync::Arc<Message>| matches!(&***message, Message::Result(_));
    assert_eq!(model.requests()[1].messages.iter().filter(results).count(), 2);
}

#[tokio::test]
async fn a_turn_without_tools_is_two_syncs_and_a_call_two_more() {
    let store = store();
    let model = Scripted::new([Reply::text("one"), Reply::calls([("count", "{}")]), Reply::text("two")]);
    let harness = harness(&store, &model, Extension::new("test").tool(Counting::new(Replay::Safe))).await;
    let session = harness.create(spec()).await.unwrap();
    let syncs = async || store.stats().await.unwrap().syncs;
    let before = syncs().await;
    session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    assert_eq!(syncs().await - before, 2);
    let before = syncs().await;
    session.root().submit(Input::text("b")).await.unwrap().answer().await.unwrap();
    assert_eq!(syncs().await - before, 4);
}

#[tokio::test]
async fn text_is_committed_while_it_streams() {
    let gate = CancelToken::new();
    let (session, _) =
        scripted([Reply::words("The pond has ").then_wait(&gate).then_text("three frogs.")]).await;
    let asked = session.root().submit(Input::text("How many?")).await.unwrap();
    let mut events = asked.events();
    let mut shown = String::new();
    while shown != "The pond has " {
        if let EventKind::Text { delta, .. } = events.next().await.unwrap().unwrap().kind {
            shown.push_str(&delta);
        }
    }
    assert!(session.history().await.unwrap().is_empty(), "the step has not ended");
    gate.cancel();
    while let Some(event) = events.next().await {
        if let EventKind::Text { delta, .. } = event.unwrap().kind {
            shown.push_str(&delta);
        }
    }
    assert_eq!(shown, "The pond has three frogs.");
    assert_eq!(asked.answer().await.unwrap().text, shown, "joined deltas are the reply");
}

#[tokio::test]
async fn a_repeated_request_id_returns_the_first_submission() {
    let (session, model) = scripted([Reply::text("once")]).await;
    let first = session.root().submit(Input::text("a").request("r-1")).await.unwrap();
    first.answer().await.unwrap();
    let again = session.root().submit(Input::text("a").request("r-1")).await.unwrap();
    assert_eq!(again.id(), first.id());
    assert_eq!(again.answer().await.unwrap().text, "once");
    assert_eq!(model.count(), 1);
}

#[tokio::test]
async fn an_input_waits_while_a_turn_runs() {
    let gate = CancelToken::new();
    let (session, _) = scripted([Reply::text("one").then_wait(&gate), Reply::text("two")]).await;
    let first = session.root().submit(Input::text("a")).await.unwrap();
    let second = session.root().submit(Input::text("b")).await.unwrap();
    assert_eq!(second.turn().await.unwrap(), None);
    let refused = session.root().submit(Input::text("c").when_busy(WhenBusy::Reject)).await.unwrap_err();
    assert_eq!(*refused.kind(), everturn_core::ErrorKind::Conflict);
    gate.cancel();
    assert_eq!(first.answer().await.unwrap().text, "one");
    assert_eq!(second.answer().await.unwrap().text, "two");
}

#[tokio::test]
async fn a_fault_ends_the_turn_failed_with_its_class() {
    for (reply, class) in [
        (Reply::fault(FaultClass::Quota, "no credit"), "quota"),
        (Reply::words("half of").then_cut(), "transient"),
        (Reply::words("half of").then_fault(FaultClass::Overloaded, "busy"), "overloaded"),
        (Reply::text("cut").stop(Stop::Length), "length"),
        (Reply::text("no").stop(Stop::Refused), "refused"),
    ] {
        let model = Scripted::new([reply, Reply::text("better")]);
        let harness = harness(&store(), &model, Extension::new("none")).await;
        harness.set(Settings { retries_max: 0, ..harness.settings() }).unwrap();
        let session = harness.create(spec()).await.unwrap();
        let answer = session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
        assert_eq!(answer.end, End::Failed { reason: class.into() });
        let history = session.history().await.unwrap();
        assert!(matches!(&history[0].record.outcome, TurnEnd::Failed { kind, .. } if kind == class));
        let next = session.root().submit(Input::text("b")).await.unwrap().answer().await.unwrap();
        assert_eq!(next.text, "better", "the session goes on");
        let texts = model.requests()[1].texts();
        assert_eq!(texts.first().map(String::as_str), Some("a"));
    }
}

#[tokio::test]
async fn queued_inputs_are_returned_after_a_failure() {
    let gate = CancelToken::new();
    let failing = Reply::text("half").then_wait(&gate).then_fault(FaultClass::Auth, "no key");
    let (session, _) = scripted([failing]).await;
    session.root().submit(Input::text("a")).await.unwrap();
    let waiting = session.root().submit(Input::text("b")).await.unwrap();
    gate.cancel();
    let end = waiting.answer().await.unwrap().end;
    assert_eq!(end, End::Returned { reason: "the turn before it failed: auth".into() });
}

#[tokio::test]
async fn a_call_that_cannot_run_is_a_result_and_no_exception() {
    let model = Scripted::new([
        Reply::calls([("nothing", "{}"), ("count", "{broken"), ("count", r#"{"odd": 1}"#)]),
        Reply::text("I see"),
    ]);
    let tool = Counting::new(Replay::Safe);
    let harness = harness(&store(), &model, Extension::new("test").tool(tool.clone())).await;
    let session = harness.create(spec()).await.unwrap();
    let answer = session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    assert_eq!(answer.text, "I see");
    let outcomes: Vec<&str> =
        model.requests()[1]
            .messages
            .iter()
            .filter_map(|message| {
                if let Message::Result(result) = &**message { Some(result.outcome.word()) } else { None }
            })
            .collect();
    assert_eq!(outcomes, ["unavailable", "invalid_arguments", "ok"]);
    assert_eq!(tool.count(), 1, "broken arguments never reach the tool");
}

#[tokio::test]
async fn a_turn_ends_after_its_most_steps() {
    let model = Scripted::always(Reply::calls([("count", "{}")]));
    let models = everturn_engine::Models::new().provider("scripted", model.clone());
    let settings = everturn_engine::Settings { steps_max: 3, ..Default::default() };
    let extension = Extension::new("test").tool(Counting::new(Replay::Safe));
    let builder = everturn_engine::Harness::builder(store()).models(models).settings(settings);
    let harness = builder.install(extension).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let answer = session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    assert_eq!(answer.end, End::Failed { reason: "max_steps".into() });
    assert_eq!(model.count(), 3);
}

#[tokio::test]
async fn branching_makes_another_second_turn() {
    let (session, model) = scripted([Reply::text("one"), Reply::text("two"), Reply::text("three")]).await;
    let ask = async |text: &str| {
        let current = session.current().await.unwrap();
        current.submit(Input::text(text)).await.unwrap().answer().await.unwrap()
    };
    let first = ask("a").await;
    let abandoned = ask("b").await;
    session.branch_from(first.turn.unwrap(), Branch::default()).await.unwrap();
    let branched = ask("c").await;
    let path: Vec<_> = session.history().await.unwrap().iter().map(|view| Some(view.record.turn)).collect();
    assert_eq!(path, [first.turn, branched.turn]);
    let turns = session.turns().await.unwrap();
    assert_eq!(turns.len(), 3);
    let kept = turns.iter().find(|view| Some(view.record.turn) == abandoned.turn).unwrap();
    assert_eq!(kept.record.outcome, TurnEnd::Answered);
    assert!(
        turns.iter().all(
            |view| view.parent == if view.record.turn == first.turn.unwrap() { None } else { first.turn }
        )
    );
    let texts = model.requests()[2].texts();
    assert_eq!(texts, ["a", "one", "c"]);
}

#[tokio::test]
async fn an_answer_that_no_entry_can_hold_fails_the_turn() {
    let mut endless = Reply::text("x".repeat(1000));
    for _ in 0..2_000 {
        endless = endless.then_text("x".repeat(1000));
    }
    let (session, _) = scripted([endless, Reply::text("short")]).await;
    let answer = session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    assert_eq!(answer.end, End::Failed { reason: "too_large".into() });
    assert_eq!(answer.total.requests, 1, "what it cost is in the ledger all the same");
    let next = session.root().submit(Input::text("b")).await.unwrap().answer().await.unwrap();
    assert_eq!(next.text, "short");
}

// A note that an application appended during a turn made every request of the turn read the whole transcript again.
// Guards: what a model never sees costs a turn nothing, and changes no request.
#[tokio::test]
async fn a_note_during_a_turn_changes_no_request() {
    let gate = CancelToken::new();
    let tool = Counting { gate: Some(gate.clone()), ..Counting::new(Replay::Safe) };
    let model = Scripted::new([Reply::calls([("count", "{}")]), Reply::text("done"), Reply::text("more")]);
    let harness = harness(&store(), &model, Extension::new("test").tool(tool)).await;
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.append(session.root().id(), everturn_core::entry::Entry::new("app.note").data("seen by people only"))
        .unwrap();
    tx.commit().await.unwrap();
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "done");
    session.root().submit(Input::text("b")).await.unwrap().answer().await.unwrap();
    let requests = model.requests();
    let (first, second, third) = (&requests[0].messages, &requests[1].messages, &requests[2].messages);
    assert_eq!(first[..], second[..first.len()], "each request begins with the one before");
    assert_eq!(second[..], third[..second.len()]);
    assert_eq!(third.len(), 5);
}

// A question that came while an answered turn waited for work below it lay in the queue for ever.
// Guards: a turn whose end is settled keeps nobody waiting.
#[tokio::test]
async fn a_question_that_comes_while_an_answered_turn_waits_for_work_below_it_is_answered() {
    let (session, model) = scripted([]).await;
    let (answer, never) = (CancelToken::new(), CancelToken::new());
    model.push(Reply::words("one ").then_wait(&answer));
    model.push(Reply::text("one"));
    model.push(Reply::text("two"));
    let first = session.root().submit(Input::text("a")).await.unwrap();
    let turn = first.turn().await.unwrap().unwrap();
    let mut tx = session.begin().await.unwrap();
    let below = NewTask { owner: Some(turn), ..NewTask::new(ConversationId::ROOT, "test.missing", 1) };
    let below = tx.create_task(below).unwrap();
    tx.commit().await.unwrap();
    answer.cancel();
    session.quiescent().await.unwrap();
    let second = session.root().submit(Input::text("b")).await.unwrap();
    assert!(second.answer().await.unwrap().is_answered());
    session.abort_task(below, "enough", Reach::Ordinary).await.unwrap();
    first.answer().await.unwrap();
    never.cancel();
}
