//! Figure 10: what a thousand turns take on the disk.

use std::path::Path;

use crate::{
    scene::{Scene, answer, live, on, open, question, runtime, text, turns},
    table::{Row, Table},
};

const TURNS: usize = 1_000;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let empty = on(&runtime, {
        let file = file.clone();
        async move {
            drop(open(&file).await);
            size(&file)
        }
    });
    on(&runtime, {
        let file = file.clone();
        async move {
            let store = open(&file).await;
            turns(&live(&store, answer()).await, TURNS).await;
        }
    });
    // What still holds the session ends with the runtime; then the store has checkpointed and closed.
    drop(runtime);
    let spoken = TURNS * (question().len() + text(0, 1024).len());
    let log = size(&file.with_extension("db-wal"));
    let (stored, spoken) = (size(&file) as f64, spoken as f64);
    table.row(Row {
        figure: "10",
        what: format!("stored bytes ÷ text bytes after {TURNS} turns of 0.25 KB and 1 KB"),
        measured: format!("{:.2}", stored / spoken),
        target: "≤ 3",
        raw: "1: the text alone".into(),
        is_reached: stored / spoken <= 3.0,
    });
    table.note(format!(
        "10: {spoken:.0} bytes of text, {stored:.0} in the file after the checkpoint that closing makes ({empty} of them in \
         an empty store). The write-ahead log is kept to be overwritten and has {log} more, however long the history."
    ));
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}
