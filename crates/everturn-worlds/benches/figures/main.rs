//! The figures to reach, each beside its target and beside the raw limit, which is measured in the same run.
//!
//! `cargo bench` prints them all in order; `cargo bench -p everturn-worlds -- 1 9` prints those two. The last run is
//! kept in `benches/RESULTS.md`. What tasks cost, which the list does not number, is asked for as 30.
//!
//! How it is measured: what is compared runs in small chunks by turns within one process, so that a busy machine slows
//! both; medians stand for many samples; counters (syncs, flushes, instructions, bytes) and CPU time are preferred to
//! wall time. `measure.rs` has the clocks, `process.rs` the kernel's counters, `raw.rs` the disk without a store,
//! `scene.rs` what is set up.

mod assembly;
mod bytes;
mod child;
mod commits;
mod cpu;
mod crowd;
mod flat;
mod giant;
mod long;
mod measure;
mod memory;
mod process;
mod raw;
mod scene;
mod steady;
mod stream;
mod syncs;
mod table;
mod tasks;
mod watchers;
mod written;

use std::process::ExitCode;

use table::Table;

/// Which figures, and what measures them.
type Measured = (&'static [u32], fn(&mut Table));

/// All of them, in the order of their numbers.
const FIGURES: [Measured; 15] = [
    (&[1, 2, 3], commits::figures),
    (&[4], written::figure),
    (&[5], steady::figure),
    (&[6], long::figure),
    (&[7], assembly::figure),
    (&[8], syncs::figure),
    (&[9], flat::figure),
    (&[10], bytes::figure),
    (&[11], cpu::figure),
    (&[12], crowd::figure),
    (&[13, 14], stream::figures),
    (&[15], memory::figure),
    (&[16], watchers::figure),
    (&[20], giant::figure),
    (&[30], tasks::figure),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if child::is_asked(&words) {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let mut table = Table::begin();
    for (figures, measure) in FIGURES {
        if wanted.is_empty() || figures.iter().any(|one| wanted.contains(one)) {
            measure(&mut table);
        }
    }
    table.end();
    ExitCode::SUCCESS
}
