//! Compaction: by hand, ahead of need, before a request that would not fit, after one that did not.

use std::sync::Arc;

use everturn_core::{
    CancelToken,
    budget::Budget,
    entry::kind,
    model::{Abilities, FaultClass, Request},
    prompt::{Epoch, EpochReason},
    storage::Store,
    task::tree::Reach,
    usage::RequestEnd,
};
use everturn_engine::{AgentChange, Harness, Input, LiveSession, Models, Settings, TurnEnd};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Able, ask, assert_legal, explore, kinds, spec, store, until};

/// A harness whose model reads so many tokens, and of which few stay as they are.
async fn harness(store: &Store, model: &Scripted, window: Option<u64>) -> Harness {
    let abilities = Abilities { window, output_max: Some(10), ..Abilities::default() };
    let models = Models::new().provider("scripted", Able(model.clone(), abilities));
    let settings = Settings { keep_recent: 20, ..Settings::default() };
    Harness::builder(store.clone()).models(models).settings(settings).open().await.unwrap()
}

/// Whether a request is for a summary.
fn is_for_summary(request: &Request) -> bool {
    request.texts().last().is_some_and(|text| text.contains("<conversation>"))
}

/// A model that answers, and gives a summary where it is asked for one.
fn answering(summary: &'static str) -> Scripted {
    Scripted::answering(move |request| match is_for_summary(request) {
        true => Reply::text(summary).usage(5, 5),
        false => Reply::text("an answer of some words"),
    })
}

async fn talk(session: &LiveSession, turns: usize) {
    for turn in 0..turns {
        let asked = format!("question {turn}, which goes on for a while so that it weighs something");
        let answer = ask(session, &asked).await;
        assert!(answer.is_answered(), "{answer:?}");
    }
}

async fn reasons(session: &LiveSession) -> Vec<EpochReason> {
    let entries = session.entries(session.root().id(), None, 1_000).await.unwrap();
    let epochs = entries.iter().rev().filter_map(|entry| entry.read::<Epoch>().unwrap());
    epochs.map(|epoch| epoch.reason).collect()
}

fn last_sent(model: &Scripted) -> Vec<String> {
    model.requests().pop().unwrap().texts()
}

#[tokio::test]
async fn by_hand_a_summary_takes_the_place_of_what_came_before() {
    let model = answering("They talked of pears.");
    let session = harness(&store(), &model, None).await.create(spec()).await.unwrap();
    talk(&session, 4).await;
    let before = kinds(&session).await.len();
    let entry = session.root().compact(Some("pears".into())).await.unwrap();
    let asked = model.requests().pop().unwrap();
    assert!(is_for_summary(&asked) && asked.texts().last().unwrap().contains("pears"), "the focus is told");
    ask(&session, "and now?").await;
    let sent = last_sent(&model);
    assert!(sent[0].contains("They talked of pears."), "{sent:?}");
    assert!(!sent.iter().any(|text| text.starts_with("question 0")), "{sent:?}");
    assert!(sent.iter().any(|text| text.starts_with("question 3")), "what is recent stays as it is");
    assert_eq!(reasons(&session).await, [EpochReason::Start, EpochReason::Compaction]);
    let all = session.entries(session.root().id(), None, 1_000).await.unwrap();
    assert!(all.len() > before && all.iter().any(|stored| stored.id == entry), "nothing is gone");
    let ledger = session.usage().await.unwrap();
    assert_eq!(ledger.len(), 6, "the summary has its row");
    assert_legal(&model);
}

#[tokio::test]
async fn a_summary_that_is_empty_or_fails_changes_nothing() {
    for summary in [Reply::text("  "), Reply::fault(FaultClass::Quota, "no credit")] {
        let model = Scripted::new((0..4).map(|_| Reply::text("an answer of some words")));
        let session = harness(&store(), &model, None).await.create(spec()).await.unwrap();
        talk(&session, 4).await;
        model.push(summary);
        let error = session.root().compact(None).await.unwrap_err().to_string();
        assert!(error.contains("empty summary") || error.contains("no credit"), "{error}");
        assert!(!kinds(&session).await.contains(&kind::COMPACTION.to_owned()));
        model.push(Reply::text("as before"));
        assert_eq!(ask(&session, "go on").await.text, "as before");
        assert!(last_sent(&model)[0].starts_with("question 0"));
        assert_legal(&model);
    }
}

#[tokio::test]
async fn nothing_to_gain_is_said_and_nobody_is_asked() {
    let model = answering("nothing");
    let session = harness(&store(), &model, None).await.create(spec()).await.unwrap();
    let error = session.root().compact(None).await.unwrap_err();
    assert!(error.to_string().contains("nothing_to_gain"), "{error}");
    assert_eq!(model.count(), 0);
}

#[tokio::test]
async fn ahead_of_need_it_is_done_in_the_background() {
    let model = answering("They talked.");
    let session = harness(&store(), &model, Some(160)).await.create(spec()).await.unwrap();
    talk(&session, 6).await;
    session.quiescent().await.unwrap();
    let kinds = kinds(&session).await;
    assert!(kinds.contains(&kind::COMPACTION.to_owned()), "{kinds:?}");
    assert!(ask(&session, "and now?").await.is_answered());
    assert!(last_sent(&model)[0].contains("They talked."));
    assert_legal(&model);
}

#[tokio::test]
async fn a_request_that_would_not_fit_waits_for_a_shorter_context() {
    let model = answering("They talked.");
    let harness = harness(&store(), &model, Some(160)).await;
    harness.set(Settings { compact_ahead: 1_000, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    talk(&session, 8).await;
    let summaries = model.requests().iter().filter(|request| is_for_summary(request)).count();
    assert!(summaries > 0, "8 turns do not fit");
    let sent = model.requests();
    let answers = sent.iter().filter(|request| !is_for_summary(request));
    assert!(answers.clone().all(|request| request.texts().concat().len() < 160 * 4), "none was too long");
    assert_eq!(answers.count(), 8);
    assert_legal(&model);
}

#[tokio::test]
async fn what_the_provider_finds_too_long_is_made_shorter_once_and_sent_again() {
    let model = Scripted::answering(|request| match (is_for_summary(request), request.texts().len()) {
        (true, _) => Reply::text("They talked."),
        (false, 7..) => Reply::fault(FaultClass::TooLong, "too many tokens"),
        (false, _) => Reply::text("an answer of some words"),
    });
    let session = harness(&store(), &model, None).await.create(spec()).await.unwrap();
    talk(&session, 4).await;
    let last = session.history().await.unwrap().pop().unwrap().record;
    assert_eq!((last.outcome, last.steps), (TurnEnd::Answered, 1), "it was another attempt at the same step");
    assert_legal(&model);
}

#[tokio::test]
async fn what_cannot_be_made_shorter_ends_the_turn_and_names_the_largest() {
    let model = answering("They talked.");
    let session = harness(&store(), &model, Some(160)).await.create(spec()).await.unwrap();
    let answer = ask(&session, &"far too much ".repeat(200)).await;
    let failure = answer.error().unwrap();
    assert!(failure.starts_with("context_irreducible") && failure.contains("about 6"), "{failure}");
    assert_eq!(
        model.requests().iter().filter(|request| !is_for_summary(request)).count(),
        0,
        "it was not sent"
    );
}

// A summary was paid for whatever it cost, and only then was there no money left for its turn.
// Guards: what it may cost is reserved before it is asked for, as for every other request.
#[tokio::test]
async fn a_summary_for_which_there_is_no_room_is_not_asked_for() {
    let model = answering("They talked.");
    let harness = harness(&store(), &model, Some(160)).await;
    harness.set(Settings { compact_ahead: 1_000, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    talk(&session, 3).await;
    let budget = Some(Budget { steps: Some(3), ..Budget::default() });
    session.root().configure(AgentChange { budget, ..AgentChange::default() }).await.unwrap();
    let error = session.root().compact(None).await.unwrap_err().to_string();
    assert!(error.contains("out_of_budget: its budget of steps is used up"), "{error}");
    let answer = ask(&session, &"a question that does not fit any more ".repeat(8)).await;
    assert!(answer.error().unwrap().contains("its budget of steps is used up"), "{answer:?}");
    assert_eq!(model.count(), 3, "nobody was asked for a summary");
    let budget = Some(Budget { steps: Some(5), ..Budget::default() });
    session.root().configure(AgentChange { budget, ..AgentChange::default() }).await.unwrap();
    session.root().compact(None).await.unwrap();
    assert!(ask(&session, "and now?").await.is_answered());
    let answer = ask(&session, "and now?").await;
    assert!(answer.error().unwrap().contains("steps"), "the summary counts: {answer:?}");
    assert_legal(&model);
}

#[tokio::test]
async fn a_summary_waits_while_others_hold_what_it_wants() {
    let gate = CancelToken::new();
    let model = answering("They talked.");
    let harness = harness(&store(), &model, None).await;
    let session = harness.create(spec()).await.unwrap();
    talk(&session, 3).await;
    let fork = session.root().fork(None, AgentChange::default()).await.unwrap();
    let session_budget = Budget { output_tokens: Some(15), ..Budget::default() };
    harness.set(Settings { session_budget, ..harness.settings() }).unwrap();
    model.push(Reply::text("of the fork").then_wait(&gate).usage(1, 1));
    let asked = fork.submit(Input::text("a")).await.unwrap();
    until("the fork's request is out", || model.count() == 4).await;
    let root = session.root();
    let compacting = tokio::spawn(async move { root.compact(None).await });
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.count(), 4, "10 are reserved of 15");
    gate.cancel();
    assert!(asked.answer().await.unwrap().is_answered());
    compacting.await.unwrap().unwrap();
    assert_eq!(model.count(), 5, "1 was used");
    assert_legal(&model);
}

// A compaction whose model nobody answered for any more was faulted, and its turn named parts that were too large.
// Guards: it fails as the turn does, in one word.
#[tokio::test]
async fn a_compaction_without_anybody_to_ask_says_so() {
    let (store, model) = (store(), answering("They talked."));
    let session = harness(&store, &model, None).await.create(spec()).await.unwrap();
    talk(&session, 3).await;
    let id = session.id();
    session.close().await.unwrap();
    drop(session);
    let without = Settings { keep_recent: 20, ..Settings::default() };
    let harness = Harness::builder(store).settings(without).open().await.unwrap();
    let session = harness.open_session(id).await.unwrap();
    let error = session.root().compact(None).await.unwrap_err().to_string();
    assert!(error.contains("no_model: use model scripted: there is no provider scripted"), "{error}");
}

// A request for a summary that was out when its process died left no row behind. Guards: whatever was sent is accounted for.
#[test]
fn a_request_for_a_summary_that_was_cut_off_is_in_the_ledger() {
    let make = || Arc::new(answering("They talked."));
    explore(make, async |store, model| {
        let harness = harness(&store, model, None).await;
        let spec = everturn_engine::SessionSpec { request: Some("one".into()), ..spec() };
        let session = harness.create(spec).await.unwrap();
        for turn in 0..3 {
            let text = format!("question {turn}, which goes on for a while so that it weighs something");
            let asked = session.root().submit(Input::text(text).request(format!("r{turn}"))).await.unwrap();
            asked.answer().await.unwrap();
        }
        session.root().wait_idle().await.unwrap();
        if !kinds(&session).await.contains(&kind::COMPACTION.to_owned()) {
            session.root().compact(None).await.unwrap();
        }
        assert!(session.usage().await.unwrap().len() >= model.count());
    });
}

#[tokio::test]
async fn a_request_for_a_summary_that_is_told_to_stop_is_in_the_ledger() {
    let gate = CancelToken::new();
    let model = Scripted::new((0..3).map(|_| Reply::text("an answer of some words")));
    let session = harness(&store(), &model, None).await.create(spec()).await.unwrap();
    talk(&session, 3).await;
    model.push(Reply::words("They talked ").then_wait(&gate));
    let root = session.root();
    let compacting = tokio::spawn(async move { root.compact(None).await });
    until("the summary is asked for", || model.count() == 4).await;
    session.root().abort(Reach::Ordinary).await.unwrap();
    assert!(compacting.await.unwrap().is_err());
    let ends: Vec<_> = session.usage().await.unwrap().iter().map(|row| row.end).collect();
    assert_eq!(ends[3..], [RequestEnd::Aborted]);
    assert!(!kinds(&session).await.contains(&kind::COMPACTION.to_owned()));
}

#[test]
fn a_crash_anywhere_compacts_once_and_loses_nothing() {
    let make = || Arc::new(answering("They talked."));
    let stops = explore(make, async |store, model| {
        let harness = harness(&store, model, Some(160)).await;
        let spec = everturn_engine::SessionSpec { request: Some("one".into()), ..spec() };
        let session = harness.create(spec).await.unwrap();
        for turn in 0..6 {
            let text = format!("question {turn}, which goes on for a while so that it weighs something");
            let asked = session.root().submit(Input::text(text).request(format!("r{turn}"))).await.unwrap();
            assert!(asked.answer().await.unwrap().is_answered());
        }
        session.quiescent().await.unwrap();
        assert_legal(model);
        let kinds = kinds(&session).await;
        let count = |kind: &str| kinds.iter().filter(|other| *other == kind).count();
        assert_eq!((count(kind::USER), count(kind::TURN)), (6, 6), "{kinds:?}");
        assert!((1..=3).contains(&count(kind::COMPACTION)), "{kinds:?}");
        assert_eq!(harness.verify(session.id()).await.unwrap(), []);
        session.close().await.unwrap();
    });
    assert!(stops > 20, "{stops} places to stop at");
}
