//! Figure 9: a turn costs what its own bytes cost, after ten turns and after ten thousand.
//!
//! Instructions are counted by valgrind, where it is installed: this program runs itself as its child, on the memory
//! store and one thread, and only what runs inside [`window`] is counted. CPU time is measured in any case.

use std::{
    hint::black_box,
    path::Path,
    process::{Child, Command, Stdio},
};

use everturn::LiveSession;
use everturn::storage::Store;
use tokio::runtime::Runtime;

use crate::{
    measure::{cpu_us_of, median, ratios},
    scene::{Scene, answer, live, memory, on, open, runtime, turns},
    table::{Row, Table},
};

const EARLY: usize = 10;
const LATE: usize = 10_000;
/// How many turns are counted from there on: of instructions, and of CPU time, which wants more of them.
const WINDOW: usize = 50;
const CPU_WINDOW: usize = 150;
/// How often CPU time is measured, early and late by turns.
const WINDOWS: usize = 20;
/// The argument that makes this program the child.
const CHILD: &str = "--turns-before";

pub(crate) fn figure(table: &mut Table) {
    match instructions() {
        Some([early, late]) => report(
            table,
            "instructions, memory store",
            late / early,
            &format!("{:.0} k ÷ {:.0} k", late / 1e3, early / 1e3),
        ),
        None => table.note("9: valgrind is not installed, so that instructions were not counted.".into()),
    }
    let scene = Scene::new();
    let runtime = runtime();
    let stores = on(&runtime, {
        let [old, new] = [scene.file(), scene.directory().join("new.db")];
        async move { [open(&old).await, open(&new).await] }
    });
    for (what, [old, new]) in [("CPU time, memory store", [memory(), memory()]), ("CPU time, SQLite", stores)]
    {
        let [early, late] = cpu(&runtime, &old, &new);
        let detail = format!("{:.0} us ÷ {:.0} us", median(&late), median(&early));
        report(table, what, median(&ratios(&late, &early)), &detail);
    }
    table.note(format!(
        "9: {WINDOW} turns behind the first {EARLY} and behind the first {LATE}, of the same question and answer. CPU \
         time: the median of {WINDOWS} pairs of windows of {CPU_WINDOW} turns, a new session and the old one by turns."
    ));
}

fn report(table: &mut Table, what: &str, ratio: f64, detail: &str) {
    table.row(Row {
        figure: "9",
        what: format!("turn {LATE} ÷ turn {EARLY}: {what}"),
        measured: format!("{ratio:.2} ({detail})"),
        target: "≤ 1.1",
        raw: "1: the same input".into(),
        is_reached: ratio <= 1.1,
    });
}

/// CPU microseconds of a turn, early and late, window by window.
fn cpu(runtime: &Runtime, old: &Store, new: &Store) -> [Vec<f64>; 2] {
    let old = begin(runtime, old, LATE);
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for _ in 0..WINDOWS {
        let new = begin(runtime, new, EARLY);
        early.push(cpu_us_of(|| hold(runtime, &new)).0 / CPU_WINDOW as f64);
        late.push(cpu_us_of(|| hold(runtime, &old)).0 / CPU_WINDOW as f64);
    }
    [early, late]
}

fn begin(runtime: &Runtime, store: &Store, before: usize) -> LiveSession {
    let store = store.clone();
    on(runtime, async move {
        let live = live(&store, answer()).await;
        turns(&live, before).await;
        live
    })
}

fn hold(runtime: &Runtime, live: &LiveSession) {
    let live = live.clone();
    on(runtime, async move { turns(&live, CPU_WINDOW).await });
}

/// Instructions of a turn, early and late; none without valgrind.
fn instructions() -> Option<[f64; 2]> {
    let this = std::env::current_exe().ok()?;
    let [early, late] = [EARLY, LATE].map(|before| counting(&this, before));
    let (early, late) = (counted(early?), counted(late?));
    Some([early? / WINDOW as f64, late? / WINDOW as f64])
}

fn counting(this: &Path, before: usize) -> Option<Child> {
    Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*flat::window*"])
        .arg(this)
        .args([CHILD.to_owned(), before.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()
}

/// What callgrind says at the end: `==1== Collected : 123`.
fn counted(child: Child) -> Option<f64> {
    let said = child.wait_with_output().ok()?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// How many turns the child holds before it is counted; none when this is not the child.
pub(crate) fn asked_of_child(words: &[String]) -> Option<usize> {
    let at = words.iter().position(|word| word == CHILD)?;
    words.get(at + 1)?.parse().ok()
}

/// Holds turns, then those that are counted.
pub(crate) fn child(before: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let live = runtime.block_on(async {
        let live = live(&memory(), answer()).await;
        turns(&live, before).await;
        live
    });
    window(&runtime, &live);
}

/// What is counted. All its work runs on this thread.
#[inline(never)]
fn window(runtime: &Runtime, live: &LiveSession) {
    runtime.block_on(turns(live, black_box(WINDOW)));
}
