//! The figures to reach, each beside its target and beside the raw limit, which is measured in the same run.
//!
//! `cargo bench` prints them all in order; `cargo bench -p everturn-worlds -- 1 9` prints those two. The last run is
//! kept in `benches/RESULTS.md`.
//!
//! How it is measured: what is compared runs in small chunks by turns within one process, so that a busy machine slows
//! both; medians stand for many samples; counters (syncs, flushes, instructions, bytes) and CPU time are preferred to
//! wall time. `measure.rs` has the clocks, `raw.rs` the disk without a store, `scene.rs` what is set up.

mod bytes;
mod commits;
mod cpu;
mod flat;
mod measure;
mod raw;
mod scene;
mod syncs;
mod table;

use std::process::ExitCode;

use table::Table;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(history) = flat::asked_of_child(&words) {
        flat::child(history);
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let is_wanted = |figures: &[u32]| wanted.is_empty() || figures.iter().any(|one| wanted.contains(one));
    let mut table = Table::begin();
    if is_wanted(&[1, 2, 3]) {
        commits::figures(&mut table);
    }
    if is_wanted(&[8]) {
        syncs::figure(&mut table);
    }
    if is_wanted(&[9]) {
        flat::figure(&mut table);
    }
    if is_wanted(&[10]) {
        bytes::figure(&mut table);
    }
    if is_wanted(&[11]) {
        cpu::figure(&mut table);
    }
    table.end();
    ExitCode::SUCCESS
}
