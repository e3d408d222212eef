//! An archive from anywhere brings back its session, or is refused and leaves none.
//!
//! Input: an archive, as `Session::archive` writes it, or what someone made of one.

#![no_main]

use std::{sync::Arc, time::Duration};

use everturn_core::{
    BoxFuture,
    clock::{Clock, Entropy, Timestamp},
    document::Value,
    memory::Memory,
    storage::{SessionQuery, Store},
};
use everturn_engine::{Opener, Session, World};
use everturn_fuzz::{Random, json, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// The most commits that an input may speak of. Restoring makes each of them, those that are trimmed away included.
const COMMITS_MAX: u64 = 1_000;

fuzz_target!(|bytes: &[u8]| {
    if is_short(bytes) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime needs no more than memory").block_on(restore(bytes));
    }
});

fuzz_mutator!(|bytes: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(bytes, size, max, seed, change_lines)
});

async fn restore(archive: &[u8]) {
    let world = World { clock: Arc::new(Stopped), entropy: Arc::new(Fixed) };
    let opener = Opener::new(Store::new(Memory::new()), world).await;
    let restored = Session::restore(&opener, archive).await;
    let left = opener.store.sessions(SessionQuery::default()).await.expect("memory answers");
    match restored {
        Ok(session) => assert_eq!(left.iter().map(|row| row.id).collect::<Vec<_>>(), [session.id()]),
        Err(error) => assert!(left.is_empty(), "{error}, and yet it is there: {left:?}"),
    }
}

fn is_short(archive: &[u8]) -> bool {
    let first = archive.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header: Value = serde_json::from_slice(first).unwrap_or_default();
    header["session"]["head"].as_u64().is_none_or(|head| head <= COMMITS_MAX)
}

/// Changes one line, or takes it away, or puts it elsewhere too.
fn change_lines(text: &str, random: &mut Random) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.below(lines.len().max(1));
    let line = lines.get(at)?.clone();
    match random.below(8) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(random.below(lines.len()), line),
        _ => lines[at] = json::change(&line, random)?,
    }
    Some(lines.join("\n"))
}

/// A clock that stands still.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp(1_790_000_000_000)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The same bytes each time, so that one input gives one run.
struct Fixed;

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}
