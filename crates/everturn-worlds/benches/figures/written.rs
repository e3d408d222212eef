//! Figure 4: how many bytes the process writes for each byte that it is given.

use crate::{
    process::{Written, written},
    scene::{Payloads, Scene, commit_together, on, open, runtime, sessions},
    table::{Row, Table},
};

const MANY: usize = 64;
/// Commits of each session in a round, and rounds: some dozens of checkpoints in all.
const EACH: usize = 40;
const ROUNDS: usize = 8;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let (store, sessions) = on(&runtime, async move {
        let store = open(&file).await;
        let sessions = sessions(&store, MANY).await;
        (store, sessions)
    });
    let mut payloads = Payloads::new(4);
    let mut round = || {
        let (work, bytes) = payloads.of_each(MANY, EACH);
        let sessions = sessions.clone();
        on(&runtime, async move { commit_together(&sessions, work).await });
        bytes.iter().map(Vec::len).sum::<usize>()
    };
    // Past the first checkpoints, as a store that is in use is.
    round();
    let before = written();
    let payload: usize = (0..ROUNDS).map(|_| round()).sum();
    let Some((before, after)) = before.zip(written()) else {
        table.note("4: the kernel does not count what this process writes.".into());
        return;
    };
    let per_byte = |count: fn(Written) -> u64| (count(after) - count(before)) as f64 / payload as f64;
    let (calls, disk) = (per_byte(|written| written.by_calls), per_byte(|written| written.to_disk));
    let per_commit = payload as f64 / (MANY * EACH * ROUNDS) as f64 / 1024.0;
    table.row(Row {
        figure: "4",
        what: format!("bytes written by the process ÷ payload, {MANY} sessions, checkpoints included"),
        measured: format!("{calls:.2} ({:.1} KB a commit)", calls * per_commit),
        target: "≤ 3",
        raw: format!("1: the payload once ({per_commit:.1} KB)"),
        is_reached: calls <= 3.0,
    });
    let stats = runtime.block_on(store.stats()).expect("counters");
    table.note(format!(
        "4: bytes handed to write calls, of the log and of the file, over {} commits ({:.0} to a group), behind a round \
         that is not counted. What the kernel counts as bound for the disk is {disk:.2} of the payload: a page that is \
         written again before it gets there counts once.",
        MANY * EACH * ROUNDS,
        stats.commits as f64 / stats.groups as f64
    ));
}
