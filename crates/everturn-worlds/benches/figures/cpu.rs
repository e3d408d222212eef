//! Figure 11: the CPU time of a whole turn.

use everturn::LiveSession;
use everturn::storage::Store;
use tokio::runtime::Runtime;

use crate::{
    measure::{cpu_us_of, median},
    raw::Appended,
    scene::{Scene, answer, live, memory, on, open, question, runtime, text, turns},
    table::{Row, Table},
};

/// Windows, and how many turns each has of either kind.
const WINDOWS: usize = 20;
const WINDOW: usize = 100;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let [in_memory, on_disk] =
        on(&runtime, async move { [begin(&memory()).await, begin(&open(&file).await).await] });
    let mut appended = Appended::new(scene.directory());
    let (mut memory_us, mut sqlite_us, mut raw_us) = (Vec::new(), Vec::new(), Vec::new());
    let per_turn = |us: f64| us / WINDOW as f64;
    for _ in 0..WINDOWS {
        memory_us.push(per_turn(cpu_us_of(|| hold(&runtime, &in_memory)).0));
    }
    for _ in 0..WINDOWS {
        sqlite_us.push(per_turn(cpu_us_of(|| hold(&runtime, &on_disk)).0));
        raw_us.push(per_turn(cpu_us_of(|| append(&mut appended)).0));
    }
    let raw = format!("{:.3} ms: question and answer, each appended + fdatasync", median(&raw_us) / 1e3);
    for (where_, samples, raw) in
        [("in memory", &memory_us, "—".to_owned()), ("on SQLite, syncs included", &sqlite_us, raw)]
    {
        let ms = median(samples) / 1e3;
        table.row(Row {
            figure: "11",
            what: format!("CPU of a whole turn without tools, {where_}"),
            measured: format!("{ms:.3} ms"),
            target: "≤ 0.25 ms",
            raw,
            is_reached: ms <= 0.25,
        });
    }
    table.note(format!(
        "11: medians of {WINDOWS} windows of {WINDOW} turns each, user and kernel time of all threads, on the runtime \
         that `#[tokio::main]` gives."
    ));
}

async fn begin(store: &Store) -> LiveSession {
    let live = live(store, answer()).await;
    turns(&live, WINDOW).await;
    live
}

fn hold(runtime: &Runtime, live: &LiveSession) {
    let live = live.clone();
    on(runtime, async move { turns(&live, WINDOW).await });
}

fn append(appended: &mut Appended) {
    let (question, answer) = (question(), text(256, 1024));
    for _ in 0..WINDOW {
        appended.commit(question.as_bytes());
        appended.commit(answer.as_bytes());
    }
}
