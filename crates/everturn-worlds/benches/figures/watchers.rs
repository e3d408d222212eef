//! Figure 16: what a thousand watchers cost whoever commits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use everturn::{
    World,
    entry::Entry,
    kernel::Session,
    storage::Part,
    watch::{FrameKind, Start},
};
use tokio::runtime::Runtime;

use crate::{
    measure::{Stopwatch, cpu_us_of, median, ratios},
    scene::{Payloads, Scene, commit, on, open, runtime, session},
    table::{Row, Table},
};

const WATCHERS: usize = 1_000;
/// Chunks by turns, and how many commits each has.
const CHUNKS: usize = 12;
const CHUNK: usize = 20;
/// How far commits lie apart where they do: as far as those of a streaming answer do, of which partial output is
/// flushed.
const PAUSE: Duration = Duration::from_millis(25);

/// What the watchers saw.
#[derive(Default)]
struct Seen {
    /// Watchers that have their baseline.
    begun: AtomicU64,
    frames: AtomicU64,
    resets: AtomicU64,
    /// Watchers that have come to the last commit.
    told: AtomicU64,
    gaps: AtomicU64,
}

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let sessions = on(&runtime, async move {
        let store = open(&file).await;
        [session(&store).await, session(&store).await]
    });
    let [watched, quiet] = &sessions;
    let seen = Arc::new(Seen::default());
    let last = watched.head().0 + (2 * CHUNKS * CHUNK) as u64;
    watch(&runtime, watched, &seen, last);
    let mut payloads = Payloads::new(16);
    let mut commits = 0;
    for (pause, what) in [(Some(PAUSE), "a commit each 25 ms"), (None, "one commit right behind the other")] {
        let mut samples: [Vec<f64>; 2] = Default::default();
        let mut cpu: [Vec<f64>; 2] = Default::default();
        for _ in 0..CHUNKS {
            let work: Vec<Vec<Entry>> = (0..CHUNK).map(|_| payloads.next().0).collect();
            for (which, session) in [watched, quiet].into_iter().enumerate() {
                let (used, us) = cpu_us_of(|| commit_all(&runtime, session, (work.clone(), pause)));
                samples[which].push(median(&us));
                cpu[which].push(used / CHUNK as f64);
                commits += if which == 0 { CHUNK } else { 0 };
                // What watchers still have to read is not the other session's burden.
                wait(&runtime, &seen, commits);
            }
        }
        let ratio = median(&ratios(&samples[0], &samples[1]));
        let [with, without] = samples.map(|us| median(&us));
        table.row(Row {
            figure: "16",
            what: format!("commit latency with {WATCHERS} watchers ÷ without, {what}"),
            measured: format!("{ratio:.2} ({with:.0} us ÷ {without:.0} us)"),
            target: "≤ 1.2",
            raw: format!(
                "{without:.0} us without; CPU of all {:.0} us ÷ {:.0} us",
                median(&cpu[0]),
                median(&cpu[1])
            ),
            is_reached: ratio <= 1.2,
        });
    }
    let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
    let [told, frames, resets, gaps] = [&seen.told, &seen.frames, &seen.resets, &seen.gaps].map(read);
    let expected = WATCHERS * 2 * CHUNKS * CHUNK;
    table.row(Row {
        figure: "16",
        what: "watchers that missed a commit, neither told nor reset".into(),
        measured: format!("{gaps}; {frames} frames, {resets} resets"),
        target: "0",
        raw: format!("{expected} frames"),
        is_reached: gaps == 0 && told == WATCHERS as u64,
    });
    table.note(format!(
        "16: {CHUNKS} chunks of {CHUNK} commits on the watched session and on one that nobody watches by turns, on the \
         runtime that `#[tokio::main]` gives; each watcher is a task that reads frames of everything. All {told} of them \
         came to the last commit."
    ));
}

fn watch(runtime: &Runtime, session: &Session, seen: &Arc<Seen>, last: u64) {
    for _ in 0..WATCHERS {
        runtime.spawn(follow(session.clone(), seen.clone(), last));
    }
    while seen.begun.load(Ordering::SeqCst) < WATCHERS as u64 {
        std::thread::yield_now();
    }
}

async fn follow(session: Session, seen: Arc<Seen>, last: u64) {
    let mut watch = session.watch(Part::Everything, Start::Now);
    drop(session);
    let mut place = None;
    while let Ok(frame) = watch.next().await {
        let seq = frame.cursor.seq.0;
        match frame.kind {
            FrameKind::Changed(_) => {
                seen.frames.fetch_add(1, Ordering::SeqCst);
                let is_next = place.is_none_or(|place| place + 1 == seq);
                seen.gaps.fetch_add(u64::from(!is_next), Ordering::SeqCst);
            }
            FrameKind::Baseline(_) => {
                seen.begun.fetch_add(1, Ordering::SeqCst);
            }
            FrameKind::Reset(_) | FrameKind::Resync(_) => {
                seen.resets.fetch_add(1, Ordering::SeqCst);
            }
        }
        place = Some(seq);
        if seq == last {
            seen.told.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn commit_all(
    runtime: &Runtime,
    session: &Session,
    (work, pause): (Vec<Vec<Entry>>, Option<Duration>),
) -> Vec<f64> {
    let session = session.clone();
    on(runtime, async move {
        let mut taken = Vec::with_capacity(work.len());
        for entries in work {
            if let Some(pause) = pause {
                World::system().clock.sleep(pause).await;
            }
            let watch = Stopwatch::start();
            commit(&session, entries).await;
            taken.push(watch.us());
        }
        taken
    })
}

/// Waits until watchers have read what was committed, or long enough: one that was reset reads fewer frames.
fn wait(runtime: &Runtime, seen: &Arc<Seen>, commits: usize) {
    let (seen, expected) = (seen.clone(), (WATCHERS * commits) as u64);
    on(runtime, async move {
        for _ in 0..500 {
            if seen.frames.load(Ordering::SeqCst) >= expected {
                return;
            }
            World::system().clock.sleep(Duration::from_millis(2)).await;
        }
    });
}
