//! What a harness counts, what it says to Prometheus, and who is told of turns.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use everturn_core::{
    approval::Decision,
    clock::Timestamp,
    message::Usage,
    model::{Abilities, DeltaStream, FaultClass, Model, Request},
    usage::Price,
};
use everturn_engine::{
    Extension, Input, Metrics, Models, SessionSpec, Settings, SystemEntropy, TurnEnd, TurnStatus,
    TurnSummary, World,
    metrics::{Histogram, ModelMetrics},
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};
use tokio::sync::mpsc;

use crate::support::{Able, Doing, ask, builder, rules, spec, store, until};

fn manual() -> (World, ManualClock) {
    let clock = ManualClock::at(Timestamp(1_000_000));
    (World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) }, clock)
}

/// Those that are not 0.
fn some<'a>(counts: impl IntoIterator<Item = (&'a &'static str, &'a u64)>) -> Vec<(&'static str, u64)> {
    counts.into_iter().filter(|(_, count)| **count > 0).map(|(word, count)| (*word, *count)).collect()
}

#[tokio::test]
async fn metrics_are_what_happened() {
    let (world, clock) = manual();
    let model = Scripted::new([
        Reply::calls([("do", "{}"), ("do_1", "{}"), ("nothing", "{}")]).usage(1_000, 5),
        Reply::text("done").usage(2_000, 7),
        Reply::fault(FaultClass::Auth, "who are you?"),
        Reply::text("the other one").usage(3, 1),
        Reply::fault(FaultClass::Auth, "who are you?"),
        Reply::fault(FaultClass::Auth, "who are you?"),
    ]);
    let price = Price {
        input: 1_000_000,
        output: 2_000_000,
        cached: None,
        cache_written: None,
        source: "made up".into(),
        date: "2026-08-22".into(),
    };
    let abilities = Abilities { price: Some(price), ..Abilities::default() };
    let takes_a_while = Doing::<0>::new(move |_, _| {
        clock.advance(Duration::from_millis(40));
        async { Ok("done".into()) }
    });
    let settings = Settings { fallbacks: vec!["scripted/other".parse().unwrap()], ..Settings::default() };
    let builder = builder(&store(), &model)
        .models(Models::new().provider("scripted", Able(model.clone(), abilities)))
        .world(world)
        .settings(settings)
        .policy(rules(&["allow tool(do)", "deny tool(do_1)"]));
    let extension = Extension::new("doing").tool(takes_a_while).tool(Doing::<1>::says("never"));
    let harness = builder.install(extension).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert!(ask(&session, "do it").await.is_answered());
    assert!(ask(&session, "and now?").await.is_answered());
    assert!(!ask(&session, "and again?").await.is_answered());

    let metrics = harness.metrics();
    assert_eq!(some(&metrics.turns), [("answered", 2), ("failed", 1)]);
    assert_eq!(some(&metrics.requests), [("complete", 3), ("failed", 3)]);
    assert_eq!(some(&metrics.calls), [("denied", 1), ("ok", 1), ("unavailable", 1)]);
    assert_eq!((metrics.steps, metrics.retries, metrics.refusals(), metrics.compactions), (4, 2, 1, 0));
    assert_eq!((metrics.input_tokens, metrics.output_tokens, metrics.cached_tokens), (3_003, 13, 0));
    assert_eq!(metrics.cost, 3_003 * 1_000 + 13 * 2_000);
    let (turn, commit) = (metrics.turn_ms, metrics.commit_ms);
    assert_eq!((turn.count, turn.sum_ms, bucket(&turn, 1), bucket(&turn, 50)), (3, 40, 2, 1));
    // All but the commit that created the session.
    assert_eq!((commit.count, commit.sum_ms), (session.head().0 - 1, 0));
    assert!(metrics.line_ms.count >= commit.count);
    assert_eq!((metrics.open_sessions, metrics.active_turns, metrics.queued), (1, 0, 0));

    session.close().await.unwrap();
    assert_eq!(harness.metrics(), Metrics { open_sessions: 0, ..metrics });
}

/// A model that takes its time before it answers.
struct Slow(Scripted, ManualClock);

impl Model for Slow {
    fn stream(&self, request: Request) -> DeltaStream {
        self.1.advance(Duration::from_millis(30));
        self.0.stream(request)
    }
}

#[tokio::test]
async fn requests_are_counted_and_timed_by_model() {
    let (world, clock) = manual();
    let model = Scripted::new([
        Reply::text("yes").usage(1_000, 5),
        Reply::text("no").usage(500, 1),
        Reply::fault(FaultClass::Auth, "who are you?"),
    ]);
    let models = Models::new().provider("scripted", Slow(model.clone(), clock));
    let harness = builder(&store(), &model).models(models).world(world).open().await.unwrap();
    let named = |name: &str| SessionSpec::model(name.parse().unwrap());
    let small = harness.create(named("scripted/small")).await.unwrap();
    assert!(ask(&small, "is it?").await.is_answered());
    let large = harness.create(named("scripted/large")).await.unwrap();
    assert!(ask(&large, "is it?").await.is_answered());
    assert!(!ask(&large, "is it?").await.is_answered());

    let timed = |count| {
        let mut timed = Histogram { count, sum_ms: 30 * count, ..Histogram::default() };
        timed.buckets[Histogram::BOUNDS.iter().position(|known| *known == 50).unwrap()] = count;
        timed
    };
    let usage = |input, output| Usage { input: Some(input), output: Some(output), ..Usage::default() };
    let answered =
        ModelMetrics { usage: usage(1_000, 5), request_ms: [(None, timed(1))].into(), first_ms: timed(1) };
    let failed_once = ModelMetrics {
        usage: usage(500, 1),
        request_ms: [(None, timed(1)), (Some("auth"), timed(1))].into(),
        first_ms: timed(1),
    };
    let expected = [("scripted/large".to_owned(), failed_once), ("scripted/small".to_owned(), answered)];
    assert_eq!(harness.metrics().models, expected.into());
}

fn bucket(histogram: &Histogram, bound: u64) -> u64 {
    histogram.buckets[Histogram::BOUNDS.iter().position(|known| *known == bound).unwrap()]
}

#[tokio::test]
async fn what_is_to_do_is_what_is_to_do_now() {
    let model = Scripted::new([Reply::calls([("do", "{}")]), Reply::text("done"), Reply::text("well")]);
    let extension = Extension::new("doing").tool(Doing::<0>::says("done"));
    let builder = builder(&store(), &model).policy(rules(&["ask tool(do)"]));
    let harness = builder.install(extension).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    session.root().submit(Input::text("do it")).await.unwrap();
    until("a question", || harness.metrics().open_approvals == 1).await;
    let last = session.root().submit(Input::text("how was it?")).await.unwrap();
    let Metrics { active_turns, queued, .. } = harness.metrics();
    assert_eq!((active_turns, queued), (1, 1));

    let asked = session.open_approvals().pop().unwrap();
    session.decide(asked.id, Decision::Deny { reason: "no".into() }, "ada").await.unwrap();
    assert!(last.answer().await.unwrap().is_answered());
    let metrics = harness.metrics();
    assert_eq!((metrics.open_approvals, metrics.active_turns, metrics.queued), (0, 0, 0));
    assert_eq!(some(&metrics.calls), [("declined", 1)]);
    assert_eq!(metrics.refusals(), 1);
}

#[tokio::test]
async fn an_observer_is_told_of_each_turn_in_order_whatever_another_does() {
    let model = Scripted::new([Reply::text("one"), Reply::fault(FaultClass::Auth, "who are you?")]);
    let (tell, mut told) = mpsc::unbounded_channel();
    let builder = builder(&store(), &model)
        .observe(|_: &TurnSummary| panic!("this observer is broken"))
        .observe(move |turn: &TurnSummary| tell.send(turn.clone()).unwrap());
    let harness = builder.open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let first = ask(&session, "count").await;
    let second = ask(&session, "go on").await;

    let turns = [told.recv().await.unwrap(), told.recv().await.unwrap()];
    assert_eq!(turns.each_ref().map(|turn| turn.status()), [TurnStatus::Ok, TurnStatus::Error]);
    assert_eq!(
        turns.each_ref().map(|turn| (turn.session, turn.steps)),
        [(session.id(), 1), (session.id(), 1)]
    );
    assert_eq!(turns[0].end, TurnEnd::Answered);
    assert_eq!(first.steps, turns[0].steps);
    assert!(!second.is_answered());
    assert!(told.is_empty());
}

#[tokio::test]
async fn the_text_for_prometheus_is_well_formed() {
    let model = Scripted::new([Reply::text("one").usage(10, 5)]);
    let harness = builder(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert!(ask(&session, "count").await.is_answered());
    let text = harness.metrics().to_prometheus();

    let (mut helped, mut typed) = (BTreeSet::new(), BTreeSet::new());
    let mut samples = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match *words {
            ["#", "HELP", name, _] => assert!(helped.insert(name), "{line}"),
            ["#", "TYPE", name, kind] => {
                assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
                assert!(helped.contains(name) && typed.insert(name), "{line}");
            }
            [sample, value] => {
                assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
                let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
                let ends = ["_bucket", "_sum", "_count"];
                let base = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                // What follows a TYPE line is of that metric.
                assert_eq!(typed.len(), helped.len(), "{line}");
                assert!(typed.contains(base), "{line}");
                assert!(
                    labels == "}" || labels.matches('"').count() == 2 && labels.ends_with("\"}"),
                    "{line}"
                );
                samples += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(samples > 60 && helped == typed && text.ends_with('\n'));
    assert!(text.contains("everturn_turns_total{end=\"answered\"} 1\n"), "{text}");
    assert!(text.contains("everturn_tokens_total{kind=\"input\"} 10\n"), "{text}");
    assert!(text.contains("everturn_turn_seconds_bucket{le=\"+Inf\"} 1\n"), "{text}");
    assert!(text.contains("everturn_commit_seconds_bucket{le=\"0.001\"} "), "{text}");
}
