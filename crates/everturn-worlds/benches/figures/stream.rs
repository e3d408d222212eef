//! Figures 13 and 14: how soon a watcher sees what the model says, and what it costs when many sessions stream.

use std::time::Duration;

use everturn::{
    CancelToken, EventKind, Events, Extension, Harness, Input, LiveSession, Models, SessionSpec, SystemClock,
    clock::Clock,
    message::Stop,
    model::{Delta, DeltaStream, Model, Request},
    storage::Store,
    watch::Start,
};
use everturn_testkit::scripted::{Reply, Scripted};
use futures_util::{StreamExt, future::join_all, stream};
use tokio::{runtime::Runtime, sync::mpsc};

use crate::{
    measure::{Stopwatch, cpu, median, quantile},
    scene::{Scene, live_with, on, open, question, runtime},
    table::{Row, Table},
};

/// How often the first frame is waited for.
const ANSWERS: usize = 300;
/// How long the model is silent before it says something, so that nothing of the question is still at work.
const SILENCE: Duration = Duration::from_millis(3);

/// How many sessions stream, how fast, and how much each says in a turn.
const SESSIONS: usize = 64;
const TOKEN_EVERY: Duration = Duration::from_millis(20);
const TOKENS: usize = 400;

pub(crate) fn figures(table: &mut Table) {
    first_frame(table);
    many(table);
}

fn first_frame(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let us = on(&runtime, async move {
        let model = Scripted::new([]);
        let live = live_with(&open(&file).await, model.clone(), Extension::new("none")).await;
        let mut samples = Vec::with_capacity(ANSWERS);
        for _ in 0..ANSWERS {
            samples.push(until_seen(&live, &model).await);
        }
        samples
    });
    let p50 = median(&us);
    table.row(Row {
        figure: "13",
        what: "from the model's first byte to the first frame at a watcher, p50, on SQLite".into(),
        measured: format!("{p50:.0} us, the relaxed commit included; p99 {:.0} us", quantile(&us, 0.99)),
        target: "< 1 ms + a relaxed commit",
        raw: "—".into(),
        is_reached: p50 < 1_000.0,
    });
    table.note(format!(
        "13: {ANSWERS} answers of one session, each begun {} ms behind its request; the watcher is a task of its own that reads events.",
        SILENCE.as_millis()
    ));
}

/// Microseconds from the model's first text to the event that tells of it.
async fn until_seen(live: &LiveSession, model: &Scripted) -> f64 {
    let gate = CancelToken::new();
    let sent = model.count();
    model.push(Reply::text("A word.").after_wait(&gate));
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut events = live.root().events(Start::Now).await.expect("events");
    let watcher = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let EventKind::Text { .. } = event.expect("an event").kind {
                let _ = tell.send(());
                return;
            }
        }
    });
    let asked = live.root().submit(Input::text(question())).await.expect("the session is ours");
    while model.count() == sent {
        tokio::task::yield_now().await;
    }
    SystemClock.sleep(SILENCE).await;
    let watch = Stopwatch::start();
    gate.cancel();
    told.recv().await.expect("the text is told");
    let us = watch.us();
    watcher.await.expect("the watcher ends");
    assert!(asked.answer().await.expect("an end").is_answered());
    us
}

/// A model that says a token each 20 ms.
struct Steady;

impl Model for Steady {
    fn stream(&self, _: Request) -> DeltaStream {
        let tokens = stream::unfold((Stopwatch::start(), 0), |(watch, said)| async move {
            if said == TOKENS {
                return None;
            }
            let due = TOKEN_EVERY * said as u32;
            SystemClock.sleep(due.saturating_sub(Duration::from_micros(watch.us() as u64))).await;
            Some((Ok(Delta::Text(token(said))), (watch, said + 1)))
        });
        Box::pin(tokens.chain(stream::iter([Ok(Delta::End(Stop::Answer))])))
    }
}

fn token(number: usize) -> String {
    format!("t{number} ")
}

fn many(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let store = on(&runtime, async move { open(&file).await });
    let sessions = on(&runtime, streaming(store));
    let (before, watch) = (cpu(), Stopwatch::start());
    let lost = stream_all(&runtime, sessions);
    let (used, wall) = ((cpu() - before).as_secs_f64(), watch.us() / 1e6);
    let share = 100.0 * used / wall;
    table.row(Row {
        figure: "14",
        what: format!("{SESSIONS} sessions streaming 50 tokens/s each, each watched: CPU of one core"),
        measured: format!("{share:.0} % ({used:.2} s in {wall:.1} s)"),
        target: "≤ 25 %",
        raw: "—".into(),
        is_reached: share <= 25.0,
    });
    table.row(Row {
        figure: "14",
        what: "watchers whose deltas, joined, are not the answer".into(),
        measured: format!("{lost} of {SESSIONS}"),
        target: "0",
        raw: "0".into(),
        is_reached: lost == 0,
    });
    table.note(format!(
        "14: one turn of {TOKENS} tokens in each session, on SQLite, its question and its end included; user and kernel \
         time of all threads, the model's timers and the watchers among them."
    ));
}

/// Sessions of one harness, each with a watcher.
async fn streaming(store: Store) -> Vec<(LiveSession, Events)> {
    let models = Models::new().provider("steady", Steady);
    let harness = Harness::builder(store).models(models).open().await.expect("a harness");
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        let spec = SessionSpec::model("steady".parse().expect("a model"));
        let live = harness.create(spec).await.expect("a session");
        let events = live.root().events(Start::Now).await.expect("events");
        sessions.push((live, events));
    }
    sessions
}

/// Lets all stream at once; how many watchers did not see the answer, whole and once.
fn stream_all(runtime: &Runtime, sessions: Vec<(LiveSession, Events)>) -> usize {
    let turns = sessions.into_iter().map(|(live, events)| runtime.spawn(stream_one(live, events)));
    let seen = runtime.block_on(join_all(turns));
    seen.into_iter().filter(|seen| !matches!(seen, Ok(true))).count()
}

async fn stream_one(live: LiveSession, mut events: Events) -> bool {
    let asked = live.root().submit(Input::text(question())).await.expect("the session is ours");
    let mut text = String::new();
    while let Some(event) = events.next().await {
        match event.expect("an event").kind {
            EventKind::Text { delta, .. } => text.push_str(&delta),
            EventKind::TurnEnded { .. } => break,
            _ => {}
        }
    }
    let expected: String = (0..TOKENS).map(token).collect();
    asked.answer().await.expect("an end").text == expected && text == expected
}
