//! Figures 1 to 3: durable commits by one session and by 64, beside plain files on the same disk.

use std::sync::Arc;

use everturn::kernel::Session;
use everturn::{
    conversation::Lineage,
    entry::Entry,
    id::{ConversationId, SessionId},
    storage::{EntryQuery, Stats, Store},
};
use tokio::runtime::Runtime;

use crate::{
    measure::{Stopwatch, median, quantile, ratios},
    raw::{Appended, Disk, Overwritten},
    scene::{Payloads, Scene, commit, on, runtime, session},
    table::{Row, Table},
};

/// Chunks of figure 1, and how many commits each has of every sort.
const CHUNKS: usize = 120;
const CHUNK: usize = 5;
/// Commits before anything is measured: past the first checkpoint, so that the log's file no longer grows.
const WARM_UP: usize = 600;
/// Rounds of figure 3, and what a round has: commits by one session, then by each of the many.
const ROUNDS: usize = 12;
const ALONE: usize = 200;
const EACH: usize = 40;
const MANY: usize = 64;

pub(crate) fn figures(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let disk = Disk::of(scene.directory());
    let store = on(&runtime, {
        let path = scene.file();
        async move { crate::scene::open(&path).await }
    });
    let bench = Bench {
        scene: &scene,
        runtime: &runtime,
        disk: &disk,
        store: &store,
    };
    let one = bench.one_session();
    one.report(table);
    let many = bench.many_sessions();
    many.report_flushes(table);
    let expected = many.stored.clone();
    drop(store);
    let lost = on(&runtime, {
        let path = scene.file();
        async move { lost(&crate::scene::open(&path).await, &expected).await }
    });
    many.report_speed(table, lost);
}

struct Bench<'a> {
    scene: &'a Scene,
    runtime: &'a Runtime,
    disk: &'a Disk,
    store: &'a Store,
}

/// What one session measured, chunk by chunk.
#[derive(Default)]
struct One {
    engine_us: Vec<f64>,
    append_us: Vec<f64>,
    overwrite_us: Vec<f64>,
    /// Medians of each chunk.
    chunk: [Vec<f64>; 2],
    /// Flushes per commit of each chunk, and in all.
    flushes: Vec<f64>,
    raw_flushes: Vec<f64>,
    flushes_all: Option<f64>,
    syncs: f64,
    bytes: usize,
}

/// What many sessions measured, round by round.
#[derive(Default)]
struct Many {
    alone: Vec<f64>,
    together: Vec<f64>,
    raw_alone: Vec<f64>,
    raw_together: Vec<f64>,
    flushes: Vec<f64>,
    commits: u64,
    syncs: u64,
    /// The sessions, and how many entries each must have.
    stored: Vec<(SessionId, usize)>,
}

impl Bench<'_> {
    fn stats(&self) -> Stats {
        self.runtime.block_on(self.store.stats()).expect("counters")
    }

    /// Commits one after the other; gives what each took.
    fn commit_all(&self, session: &Session, commits: Vec<Vec<Entry>>) -> Vec<f64> {
        let session = session.clone();
        on(self.runtime, async move {
            let mut taken = Vec::with_capacity(commits.len());
            for entries in commits {
                let watch = Stopwatch::start();
                commit(&session, entries).await;
                taken.push(watch.us());
            }
            taken
        })
    }

    fn one_session(&self) -> One {
        let mut payloads = Payloads::new(1);
        let session = self.runtime.block_on(session(self.store));
        let mut appended = Appended::new(self.scene.directory());
        let mut overwritten = Overwritten::new(self.scene.directory());
        self.commit_all(&session, (0..WARM_UP).map(|_| payloads.next().0).collect());
        let mut one = One::default();
        let (begin, before) = (self.disk.flushes(), self.stats());
        for _ in 0..CHUNKS {
            let (entries, bytes): (Vec<_>, Vec<_>) = (0..CHUNK).map(|_| payloads.next()).unzip();
            one.bytes += bytes.iter().map(Vec::len).sum::<usize>();
            let engine = self.flushed(&mut one.flushes, || self.commit_all(&session, entries));
            let append = self.flushed(&mut one.raw_flushes, || {
                timed(&bytes, |bytes| appended.commit(bytes))
            });
            one.overwrite_us
                .extend(timed(&bytes, |bytes| overwritten.commit(bytes)));
            one.chunk[0].push(median(&engine));
            one.chunk[1].push(median(&append));
            one.engine_us.extend(engine);
            one.append_us.extend(append);
        }
        let stats = self.stats();
        let commits = (stats.commits - before.commits) as f64;
        one.syncs = (stats.syncs - before.syncs) as f64 / commits;
        one.flushes_all = begin
            .zip(self.disk.flushes())
            .map(|(begin, end)| (end - begin) as f64 / commits - 2.0);
        one
    }

    /// Does a chunk of commits, and adds the device flushes per commit.
    fn flushed<T>(&self, flushes: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
        let before = self.disk.flushes();
        let done = work();
        if let Some((before, after)) = before.zip(self.disk.flushes()) {
            flushes.push((after - before) as f64 / CHUNK as f64);
        }
        done
    }

    fn many_sessions(&self) -> Many {
        let mut payloads = Payloads::new(2);
        let alone = self.runtime.block_on(session(self.store));
        let store = self.store.clone();
        let sessions: Arc<Vec<Session>> = Arc::new(on(self.runtime, async move {
            let mut sessions = Vec::new();
            for _ in 0..MANY {
                sessions.push(session(&store).await);
            }
            sessions
        }));
        let mut appended = Appended::new(self.scene.directory());
        let mut many = Many {
            stored: std::iter::once(&alone)
                .chain(&*sessions)
                .map(|one| (one.id(), 0))
                .collect(),
            ..Many::default()
        };
        for _ in 0..ROUNDS {
            let (entries, bytes): (Vec<_>, Vec<_>) = (0..ALONE).map(|_| payloads.next()).unzip();
            many.stored[0].1 += entries.iter().map(Vec::len).sum::<usize>();
            let watch = Stopwatch::start();
            self.commit_all(&alone, entries);
            many.alone.push(ALONE as f64 / watch.us() * 1e6);
            let watch = Stopwatch::start();
            bytes.iter().for_each(|bytes| appended.commit(bytes));
            many.raw_alone.push(ALONE as f64 / watch.us() * 1e6);
            self.round(&sessions, &mut payloads, &mut many, &mut appended);
        }
        many
    }

    /// All sessions commit at once, each one commit after the other.
    fn round(
        &self,
        sessions: &Arc<Vec<Session>>,
        payloads: &mut Payloads,
        many: &mut Many,
        appended: &mut Appended,
    ) {
        let mut work: Vec<Vec<Vec<Entry>>> = Vec::new();
        let mut groups = vec![Vec::new(); EACH];
        for (_, stored) in &mut many.stored[1..] {
            let (entries, bytes): (Vec<_>, Vec<_>) = (0..EACH).map(|_| payloads.next()).unzip();
            *stored += entries.iter().map(Vec::len).sum::<usize>();
            groups
                .iter_mut()
                .zip(bytes)
                .for_each(|(group, bytes)| group.extend(bytes));
            work.push(entries);
        }
        let (before, flushes) = (self.stats(), self.disk.flushes());
        let sessions = sessions.clone();
        let watch = Stopwatch::start();
        on(self.runtime, async move {
            let of_each = sessions.iter().cloned().zip(work).map(|(session, work)| {
                tokio::spawn(async move {
                    for entries in work {
                        commit(&session, entries).await;
                    }
                })
            });
            for one in of_each.collect::<Vec<_>>() {
                one.await.expect("commits do not panic");
            }
        });
        let commits = (MANY * EACH) as f64;
        many.together.push(commits / watch.us() * 1e6);
        let stats = self.stats();
        many.commits += stats.commits - before.commits;
        many.syncs += stats.syncs - before.syncs;
        if let Some((before, after)) = flushes.zip(self.disk.flushes()) {
            many.flushes.push((after - before) as f64 / commits);
        }
        let watch = Stopwatch::start();
        groups.iter().for_each(|group| appended.commit(group));
        many.raw_together.push(commits / watch.us() * 1e6);
    }
}

fn timed(chunk: &[Vec<u8>], mut commit: impl FnMut(&[u8])) -> Vec<f64> {
    let one = |bytes: &Vec<u8>| {
        let watch = Stopwatch::start();
        commit(bytes);
        watch.us()
    };
    chunk.iter().map(one).collect()
}

/// Entries that are not there.
async fn lost(store: &Store, expected: &[(SessionId, usize)]) -> usize {
    let mut lost = 0;
    for (session, count) in expected {
        let query = EntryQuery::of(*session, Lineage::new(ConversationId::ROOT));
        lost += count - store.entries(query).await.expect("the session is there").len();
    }
    lost
}

impl One {
    fn report(&self, table: &mut Table) {
        let (engine, append) = (median(&self.engine_us), median(&self.append_us));
        let overwrite = median(&self.overwrite_us);
        let ratio = engine / append;
        table.row(Row {
            figure: "1",
            what: "durable commit through the async API, one session on SQLite, p50 ÷ append + fdatasync"
                .into(),
            measured: format!("{ratio:.2} ({engine:.0} us)"),
            target: "≤ 1.25",
            raw: format!("{append:.0} us; overwriting a zeroed file: {overwrite:.0} us"),
            is_reached: ratio <= 1.25,
        });
        let by_chunk = ratios(&self.chunk[0], &self.chunk[1]);
        table.note(format!(
            "1: {} commits in chunks of {CHUNK} by turns with as many raw appends and overwrites; a commit is 1 to 3 \
             entries of 0.2 to 8 KB (log-uniform), on average {:.1} KB of stored JSON, which is what the raw file \
             gets. Median of the chunks' ratios {:.2} (quartiles {:.2} and {:.2}); p99 of commits {:.0} us, of \
             appends {:.0} us.",
            CHUNKS * CHUNK,
            self.bytes as f64 / (CHUNKS * CHUNK) as f64 / 1024.0,
            median(&by_chunk),
            quantile(&by_chunk, 0.25),
            quantile(&by_chunk, 0.75),
            quantile(&self.engine_us, 0.99),
            quantile(&self.append_us, 0.99),
        ));
        let (flushes, counted) = counted(&self.flushes, self.syncs);
        table.row(Row {
            figure: "2",
            what: format!("device flushes per durable commit, one session ({counted})"),
            measured: format!("{flushes:.2}; the store counts {:.2} syncs", self.syncs),
            target: "1.00",
            raw: counted_raw(&self.raw_flushes),
            is_reached: flushes <= 1.0,
        });
        if let Some(all) = self.flushes_all {
            table.note(format!(
                "2: the median of chunks leaves out what others on the machine flushed, and checkpoints; the mean of \
                 the same commits, both included, is {all:.2}."
            ));
        }
    }
}

/// Flushes per commit by the disk's counter, or by the store's where the disk has none.
fn counted(flushes: &[f64], syncs: f64) -> (f64, &'static str) {
    match flushes.is_empty() {
        true => (syncs, "the disk counts none: the store's own syncs"),
        false => (median(flushes), "the disk's counter"),
    }
}

fn counted_raw(flushes: &[f64]) -> String {
    match flushes.is_empty() {
        true => "1 fdatasync".into(),
        false => format!("{:.2} per append + fdatasync", median(flushes)),
    }
}

impl Many {
    fn report_flushes(&self, table: &mut Table) {
        let syncs = self.syncs as f64 / self.commits as f64;
        let (flushes, counted) = counted(&self.flushes, syncs);
        table.row(Row {
            figure: "2",
            what: format!("device flushes per durable commit, {MANY} sessions ({counted})"),
            measured: format!("{flushes:.3}; the store counts {syncs:.3} syncs"),
            target: "≤ 0.03",
            raw: format!("{:.3}: one for all that wait", 1.0 / MANY as f64),
            is_reached: flushes <= 0.03,
        });
    }

    fn report_speed(&self, table: &mut Table, lost: usize) {
        let ratio = median(&ratios(&self.together, &self.alone));
        let raw = median(&ratios(&self.raw_together, &self.raw_alone));
        table.row(Row {
            figure: "3",
            what: format!("commits/s at {MANY} sessions ÷ at one; lost"),
            measured: format!(
                "{ratio:.1} ({:.0}/s ÷ {:.0}/s); {lost} lost",
                median(&self.together),
                median(&self.alone)
            ),
            target: "≥ 8; 0",
            raw: format!(
                "{raw:.1}: appends of {MANY} commits at once ÷ one by one ({:.0}/s ÷ {:.0}/s)",
                median(&self.raw_together),
                median(&self.raw_alone)
            ),
            is_reached: ratio >= 8.0 && lost == 0,
        });
        table.note(format!(
            "3: {ROUNDS} rounds of {ALONE} commits by one session, then {EACH} by each of {MANY}; all {} entries were \
             looked for after the store was closed and opened again.",
            self.stored.iter().map(|(_, count)| count).sum::<usize>()
        ));
    }
}
