//! Figure 8: how often a turn makes the store sync.

use everturn::{Extension, Input, LiveSession};
use everturn::{
    storage::Store,
    tool::{CallContext, Contract, Replay, Tool, ToolResult},
};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::{
    scene::{Scene, answer, live_with, on, open, question, runtime},
    table::{Row, Table},
};

const TURNS: usize = 20;
const STEPS: usize = 3;

/// A tool that answers at once.
struct Ping;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl Tool for Ping {
    const NAME: &'static str = "ping";
    type Arguments = Nothing;

    fn description(&self) -> &str {
        "Answers."
    }

    fn contract(&self) -> Contract {
        Contract { replay: Replay::Never, ..Contract::default() }
    }

    async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult {
        Ok("pong".to_owned().into())
    }
}

/// What turns cost, each: syncs, and commits of any kind.
#[derive(Clone, Copy)]
struct Cost {
    syncs: f64,
    commits: f64,
}

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let (plain, calling, streamed) = on(&runtime, async move {
        let store = open(&file).await;
        let model = Scripted::new([]);
        let live = live_with(&store, model.clone(), Extension::new("bench").tool(Ping)).await;
        let plain = cost(&store, &live, &model, &[answer()]).await;
        let mut calls = vec![Reply::calls([("ping", "{}")]); STEPS];
        calls.push(answer());
        let calling = cost(&store, &live, &model, &calls).await;
        let words = "A few words that come one after the other, with a pause behind each of them.";
        let streamed = cost(&store, &live, &model, &[Reply::words(words)]).await;
        (plain, calling, streamed)
    });
    table.row(Row {
        figure: "8",
        what: "syncs of a turn without tools".into(),
        measured: format!("{:.2}", plain.syncs),
        target: "2",
        raw: "2: the question, then the answer".into(),
        is_reached: plain.syncs <= 2.0,
    });
    let step = (calling.syncs - plain.syncs) / STEPS as f64;
    table.row(Row {
        figure: "8",
        what: "syncs of each step with one call".into(),
        measured: format!("{step:.2}"),
        target: "2",
        raw: "2: the intent, then the outcome".into(),
        is_reached: step <= 2.0,
    });
    table.note(format!(
        "8: commits of a turn without tools: {:.2}; of one whose answer comes in words: {:.2}, of which {:.2} sync: \
         partial output is stored without.",
        plain.commits, streamed.commits, streamed.syncs
    ));
}

async fn cost(store: &Store, live: &LiveSession, model: &Scripted, replies: &[Reply]) -> Cost {
    let before = store.stats().await.expect("counters");
    for _ in 0..TURNS {
        replies.iter().for_each(|reply| model.push(reply.clone()));
        let asked = live.root().submit(Input::text(question())).await.expect("a submission");
        assert!(asked.answer().await.expect("an end").is_answered());
    }
    let after = store.stats().await.expect("counters");
    Cost {
        syncs: (after.syncs - before.syncs) as f64 / TURNS as f64,
        commits: (after.commits - before.commits) as f64 / TURNS as f64,
    }
}
