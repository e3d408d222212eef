//! Metrics: a sink of the host is told how each turn went, and counts them by status, with their steps and milliseconds.
//! What the harness itself has counted is a snapshot, and text for Prometheus.

use everturn::{
    CancelToken, EventKind, Extension, Harness, Input, Models, Observer, Result, SessionSpec, SystemEntropy,
    TurnStatus, TurnSummary, World,
    clock::Timestamp,
    kernel::Memory,
    model::FaultClass,
    policy::{Layer, Policy},
    store::Store,
    tool::{CallContext, Contract, Tool, ToolResult},
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;

/// What the turns of one status came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    turns: u32,
    steps: u32,
    milliseconds: u64,
}

/// Counts turns by status.
struct Sink(watch::Sender<BTreeMap<TurnStatus, Tally>>);

impl Observer for Sink {
    fn turn_ended(&self, turn: &TurnSummary) {
        self.0.send_modify(|tallies| {
            let tally = tallies.entry(turn.status()).or_default();
            tally.turns += 1;
            tally.steps += turn.steps;
            tally.milliseconds += turn.milliseconds;
        });
    }
}

/// A tool that takes its time: on the clock of this world, which moves only when someone moves it.
struct Boil(ManualClock);

impl Tool for Boil {
    const NAME: &'static str = "boil";
    type Arguments = BTreeMap<String, u64>;

    fn description(&self) -> &str {
        "Boils eggs for so many `ms`."
    }

    fn contract(&self) -> Contract {
        Contract::default()
    }

    async fn run(&self, _: &CallContext, arguments: Self::Arguments) -> ToolResult {
        self.0.advance(Duration::from_millis(arguments["ms"]));
        Ok("boiled".into())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let never = CancelToken::new();
    let model = Scripted::new([
        Reply::calls([("boil", r#"{"ms":240}"#)]).usage(20, 4),
        Reply::text("They are soft.").usage(30, 5),
        Reply::text("They are st").then_wait(&never),
        Reply::fault(FaultClass::Quota, "no credit"),
        Reply::calls([("boil", r#"{"ms":600}"#)]).usage(40, 4),
        Reply::text("They are hard.").usage(50, 5),
    ]);
    let clock = ManualClock::at(Timestamp(1_000_000));
    let (sink, mut tallies) = watch::channel(BTreeMap::new());
    let harness = Harness::builder(Store::new(Memory::new()))
        .models(Models::new().provider("scripted", model))
        .world(World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) })
        .policy(Policy::new().rule(Layer::User, "allow tool(boil)".parse()?))
        .install(Extension::new("kitchen").tool(Boil(clock)))?
        .observe(Sink(sink))
        .open()
        .await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let chat = session.root();

    chat.submit(Input::text("Boil the eggs.")).await?.answer().await?;
    let asked = chat.submit(Input::text("How are they?")).await?;
    let mut events = asked.events();
    while let Some(event) = events.next().await {
        if let EventKind::Text { .. } = event?.kind {
            asked.cancel().await?;
        }
    }
    chat.submit(Input::text("Well?")).await?.answer().await?;
    chat.submit(Input::text("Boil them some more.")).await?.answer().await?;

    // The sink is told after each commit, and nobody waits for it but who wants to.
    let all = |tallies: &BTreeMap<_, Tally>| tallies.values().map(|tally| tally.turns).sum::<u32>() == 4;
    let tallies = tallies.wait_for(all).await.expect("the harness has the sink").clone();
    let expected = [
        (TurnStatus::Ok, Tally { turns: 2, steps: 4, milliseconds: 840 }),
        (TurnStatus::Cancelled, Tally { turns: 1, steps: 1, milliseconds: 0 }),
        (TurnStatus::Error, Tally { turns: 1, steps: 1, milliseconds: 0 }),
    ];
    assert_eq!(tallies, expected.into());
    tallies.iter().for_each(|(status, tally)| println!("{status:?}: {tally:?}"));

    let metrics = harness.metrics();
    assert_eq!((metrics.turns["answered"], metrics.turns["cancelled"], metrics.turns["failed"]), (2, 1, 1));
    assert_eq!((metrics.steps, metrics.turn_ms.sum_ms, metrics.calls["ok"]), (6, 840, 2));
    assert_eq!((metrics.input_tokens, metrics.output_tokens, metrics.active_turns), (140, 18, 0));
    let text = metrics.to_prometheus();
    assert!(text.contains("everturn_turn_seconds_sum 0.84\n"));
    text.lines().filter(|line| line.starts_with("everturn_turns_total")).for_each(|line| println!("{line}"));
    Ok(())
}
