//! Figure 5: how far the slowest commits are from the usual one while the log is being checkpointed.

use crate::{
    measure::{Stopwatch, median, quantile},
    raw::Appended,
    scene::{Payloads, Scene, commit_together, on, open, runtime, sessions},
    table::{Row, Table},
};

const MANY: usize = 8;
/// Commits of each session in a round, and rounds; each has raw appends behind it.
const EACH: usize = 60;
const ROUNDS: usize = 16;
const APPENDS: usize = 120;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let (_store, sessions) = on(&runtime, async move {
        let store = open(&file).await;
        let sessions = sessions(&store, MANY).await;
        (store, sessions)
    });
    let mut payloads = Payloads::new(5);
    let mut appended = Appended::new(scene.directory());
    let (mut commits, mut appends, mut rounds) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (work, bytes) = payloads.of_each(MANY, EACH);
        let sessions = sessions.clone();
        let taken = on(&runtime, async move { commit_together(&sessions, work).await });
        // The first round lets the log's file grow.
        if round > 0 {
            rounds.push(spread(&taken));
            commits.extend(taken);
        }
        for bytes in bytes.iter().flat_map(|bytes| bytes.chunks(4_500)).take(APPENDS) {
            let watch = Stopwatch::start();
            appended.commit(bytes);
            appends.push(watch.us());
        }
    }
    let ratio = spread(&commits);
    table.row(Row {
        figure: "5",
        what: format!("p99 ÷ p50 of commits, {MANY} sessions, checkpoints on"),
        measured: format!("{ratio:.1} ({:.0} us ÷ {:.0} us)", quantile(&commits, 0.99), median(&commits)),
        target: "≤ 5",
        raw: format!("{:.1}: append + fdatasync, one after the other", spread(&appends)),
        is_reached: ratio <= 5.0,
    });
    table.note(format!(
        "5: {} commits in {ROUNDS} rounds, with {APPENDS} raw appends behind each round; the middle of the rounds' own \
         ratios is {:.1}. The slowest commit took {:.1} ms.",
        commits.len(),
        median(&rounds),
        quantile(&commits, 1.0) / 1e3
    ));
}

fn spread(us: &[f64]) -> f64 {
    quantile(us, 0.99) / median(us)
}
