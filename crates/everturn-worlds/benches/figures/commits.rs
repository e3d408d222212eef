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
    scene::{Payloads, Scene, commit, commit_together, on, runtime, session, sessions},
    table::{Row, Table},
};

/// Chunks of figure 1, how many commits each has of every sort, and of the probe before it.
const CHUNKS: usize = 300;
const CHUNK: usize = 5;
const PROBE: usize = 3;
/// By how much a probe may exceed the fastest tenth of all probes when the machine counts as quiet.
const QUIET: f64 = 1.5;
/// Commits before anything is measured: past the first checkpoint, so that the log's file no longer grows.
const WARM_UP: usize = 600;
/// The share of samples that others disturbed least: their flushes only add to ours.
const LEAST: f64 = 0.1;
/// Rounds of figure 3, and what a round has: commits by one session, then by each of the many.
const ROUNDS: usize = 16;
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
    let bench = Bench { scene: &scene, runtime: &runtime, disk: &disk, store: &store };
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

/// What one session measured.
struct One {
    chunks: Vec<Chunk>,
    /// Device flushes per commit in all, those of others included; none where the disk counts none.
    flushes: Option<f64>,
    /// Syncs per commit, as the store counts them.
    syncs: f64,
}

/// Some commits of every sort, by turns within milliseconds.
struct Chunk {
    /// A raw append just before the chunk, and just behind it: whether the machine was quiet.
    probes_us: [f64; 2],
    engine_us: Vec<f64>,
    append_us: Vec<f64>,
    overwrite_us: Vec<f64>,
    flushes: Option<f64>,
    append_flushes: Option<f64>,
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
        let mut raw = (Appended::new(self.scene.directory()), Overwritten::new(self.scene.directory()));
        self.commit_all(&session, (0..WARM_UP).map(|_| payloads.next().0).collect());
        let (flushes, before) = (self.disk.flushes(), self.stats());
        let chunks = (0..CHUNKS).map(|_| self.chunk(&session, &mut payloads, &mut raw));
        let chunks: Vec<Chunk> = chunks.collect();
        let stats = self.stats();
        let commits = (stats.commits - before.commits) as f64;
        // A chunk's raw commits are counted by the disk as well.
        let raw_syncs = (CHUNKS * 2 * (CHUNK + PROBE)) as f64;
        One {
            chunks,
            flushes: flushes
                .zip(self.disk.flushes())
                .map(|(begin, end)| ((end - begin) as f64 - raw_syncs) / commits),
            syncs: (stats.syncs - before.syncs) as f64 / commits,
        }
    }

    fn chunk(
        &self,
        session: &Session,
        payloads: &mut Payloads,
        (appended, overwritten): &mut (Appended, Overwritten),
    ) -> Chunk {
        let (entries, bytes): (Vec<_>, Vec<_>) = (0..CHUNK).map(|_| payloads.next()).unzip();
        let probe = |appended: &mut Appended| {
            let probe = timed(&bytes[..PROBE], |bytes| appended.commit(bytes));
            median(&probe)
        };
        let before = probe(appended);
        let (engine_us, flushes) = self.flushed(|| self.commit_all(session, entries));
        let (append_us, append_flushes) = self.flushed(|| timed(&bytes, |bytes| appended.commit(bytes)));
        let overwrite_us = timed(&bytes, |bytes| overwritten.commit(bytes));
        Chunk {
            probes_us: [before, probe(appended)],
            engine_us,
            append_us,
            overwrite_us,
            flushes,
            append_flushes,
            bytes: bytes.iter().map(Vec::len).sum(),
        }
    }

    /// Does the commits of a chunk, and gives the device flushes per commit.
    fn flushed<T>(&self, work: impl FnOnce() -> T) -> (T, Option<f64>) {
        let before = self.disk.flushes();
        let done = work();
        let flushes = before.zip(self.disk.flushes());
        (done, flushes.map(|(before, after)| (after - before) as f64 / CHUNK as f64))
    }

    fn many_sessions(&self) -> Many {
        let mut payloads = Payloads::new(2);
        let alone = self.runtime.block_on(session(self.store));
        let store = self.store.clone();
        let sessions = on(self.runtime, async move { sessions(&store, MANY).await });
        let mut appended = Appended::new(self.scene.directory());
        let mut many = Many {
            stored: std::iter::once(&alone).chain(&*sessions).map(|one| (one.id(), 0)).collect(),
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
        let (work, groups) = payloads.of_each(MANY, EACH);
        for ((_, stored), work) in many.stored[1..].iter_mut().zip(&work) {
            *stored += work.iter().map(Vec::len).sum::<usize>();
        }
        let (before, flushes) = (self.stats(), self.disk.flushes());
        let sessions = sessions.clone();
        let watch = Stopwatch::start();
        on(self.runtime, async move { commit_together(&sessions, work).await });
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
    /// The chunks in which the machine was quiet.
    fn quiet(&self) -> Vec<&Chunk> {
        let probes: Vec<f64> = self.chunks.iter().flat_map(|chunk| chunk.probes_us).collect();
        let most = quantile(&probes, 0.1) * QUIET;
        let is_quiet = |chunk: &&Chunk| chunk.probes_us.iter().all(|probe| *probe <= most);
        let quiet: Vec<&Chunk> = self.chunks.iter().filter(is_quiet).collect();
        match quiet.is_empty() {
            true => self.chunks.iter().collect(),
            false => quiet,
        }
    }

    fn report(&self, table: &mut Table) {
        let quiet = self.quiet();
        let all = |us: fn(&Chunk) -> &[f64]| -> Vec<f64> {
            quiet.iter().flat_map(|chunk| us(chunk).iter().copied()).collect()
        };
        let engine = all(|chunk| &chunk.engine_us);
        let (append, overwrite) = (all(|chunk| &chunk.append_us), all(|chunk| &chunk.overwrite_us));
        let [engine_us, append_us, overwrite_us] = [&engine, &append, &overwrite].map(|us| median(us));
        let ratio = engine_us / append_us;
        table.row(Row {
            figure: "1",
            what: "durable commit through the async API, one session on SQLite, p50 ÷ append + fdatasync"
                .into(),
            measured: format!("{ratio:.2} ({engine_us:.0} us)"),
            target: "≤ 1.25",
            raw: format!("{append_us:.0} us; overwriting a zeroed file: {overwrite_us:.0} us"),
            is_reached: ratio <= 1.25,
        });
        let bytes: usize = self.chunks.iter().map(|chunk| chunk.bytes).sum();
        table.note(format!(
            "1: chunks of {CHUNK} commits by turns with as many raw appends and overwrites; {} of {CHUNKS} chunks \
             count, in which the machine was quiet (a raw append just before and just behind took at most {QUIET} \
             times what the fastest tenth took). A commit is 1 to 3 entries of 0.2 to 8 KB (log-uniform), on average \
             {:.1} KB of stored JSON, which is what the raw file gets. p99 of commits {:.0} us, of appends {:.0} us; \
             ratio over all chunks {:.2}.",
            quiet.len(),
            bytes as f64 / (CHUNKS * CHUNK) as f64 / 1024.0,
            quantile(&engine, 0.99),
            quantile(&append, 0.99),
            median(&self.medians(|chunk| &chunk.engine_us)) / median(&self.medians(|chunk| &chunk.append_us)),
        ));
        self.report_flushes(table);
    }

    fn medians(&self, us: fn(&Chunk) -> &[f64]) -> Vec<f64> {
        self.chunks.iter().map(|chunk| median(us(chunk))).collect()
    }

    fn report_flushes(&self, table: &mut Table) {
        let of = |flushes: fn(&Chunk) -> Option<f64>| -> Vec<f64> {
            self.chunks.iter().filter_map(flushes).collect()
        };
        let flushes = of(|chunk| chunk.flushes);
        let (measured, counted) = counted(&flushes, self.syncs);
        table.row(Row {
            figure: "2",
            what: format!("device flushes per durable commit, one session ({counted})"),
            measured: format!("{measured:.2}; the store counts {:.2} syncs", self.syncs),
            target: "1.00",
            raw: match of(|chunk| chunk.append_flushes) {
                none if none.is_empty() => "1 fdatasync".into(),
                flushes => format!("{:.2} per append + fdatasync", quantile(&flushes, LEAST)),
            },
            is_reached: measured <= 1.0,
        });
        if let Some(all) = self.flushes {
            table.note(format!(
                "2: the disk counts what others on the machine flush as well, which can only add: the figure is that \
                 of the least disturbed tenth of the chunks. Median of the chunks {:.2}; mean, with checkpoints and \
                 with others, {all:.2}.",
                median(&flushes)
            ));
        }
    }
}

/// Flushes per commit by the disk's counter, or by the store's where the disk has none.
fn counted(flushes: &[f64], syncs: f64) -> (f64, &'static str) {
    match flushes.is_empty() {
        true => (syncs, "the disk counts none: the store's own syncs"),
        false => (quantile(flushes, LEAST), "the disk's counter"),
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
