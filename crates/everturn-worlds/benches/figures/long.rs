//! Figure 6: opening, the tail and a document's past, in a long history and in a short one.

mod history;

use everturn::{
    World,
    id::{ConversationId, EntryId},
    kernel::{Opener, Session},
};
use tokio::runtime::Runtime;

use crate::{
    measure::{Stopwatch, median},
    scene::{Scene, on, open, runtime},
    table::{Row, Table},
};
use history::{History, Plan};

/// Entries and operations of the long history, and of the short one.
const ENTRIES: [usize; 2] = [1_000_000, 1_000];
const OPERATIONS: [usize; 2] = [100_000, 1_000];
const TAIL: usize = 200;
/// How often each is measured, by turns.
const OPENED: usize = 40;
const READ: usize = 300;

/// Microseconds, of the long history and of the short one.
type Samples = [Vec<f64>; 2];

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let watch = Stopwatch::start();
    let histories = [0, 1].map(|which| {
        let file = scene.directory().join(format!("{which}.db"));
        on(&runtime, History::make(file, ENTRIES[which], OPERATIONS[which]))
    });
    let made = watch.us() / 1e6;
    let [whole, session] = opened(&runtime, &histories);
    report(table, ("opening the store and a session, at 1 M entries ÷ at 1 k", "≤ 1.4", 1.4), &whole);
    report(table, ("opening a session of an open store, at 1 M entries ÷ at 1 k", "≤ 1.4", 1.4), &session);
    let [tail, past] = read(&runtime, &histories);
    report(table, ("the tail of 200 entries, at 1 M ÷ at 1 k", "≤ 1.3", 1.3), &tail);
    report(table, ("a document as of an entry, at 100 k operations ÷ at 1 k", "≤ 2", 2.0), &past);
    table.note(format!(
        "6: the long history and the short one by turns, opened {OPENED} times and read {READ} times; a document of one \
         kilobyte, of which each operation sets one field. The files' pages are in the system's cache. Opening takes the \
         lease, which is a durable commit. The histories were made in {made:.0} s."
    ));
}

fn report(table: &mut Table, (what, target, most): (&str, &'static str, f64), [long, short]: &Samples) {
    let (long, short) = (median(long), median(short));
    table.row(Row {
        figure: "6",
        what: what.into(),
        measured: format!("{:.2} ({long:.0} us ÷ {short:.0} us)", long / short),
        target,
        raw: "1: the same work".into(),
        is_reached: long / short <= most,
    });
}

/// The store opened with a session, and the session once more.
fn opened(runtime: &Runtime, histories: &[History; 2]) -> [Samples; 2] {
    let mut samples: [Samples; 2] = Default::default();
    for _ in 0..OPENED {
        for (which, history) in histories.iter().enumerate() {
            let (file, id) = (history.file.clone(), history.session);
            let [whole, session] = on(runtime, async move {
                let watch = Stopwatch::start();
                let opener = Opener::new(open(&file).await, World::system()).await;
                let session = Session::open(&opener, id).await.expect("it is free");
                let whole = watch.us();
                session.close().await.expect("it is ours");
                let watch = Stopwatch::start();
                let session = Session::open(&opener, id).await.expect("it is free again");
                let again = watch.us();
                session.close().await.expect("it is ours");
                [whole, again]
            });
            samples[0][which].push(whole);
            samples[1][which].push(session);
        }
    }
    samples
}

/// Tails and past values.
fn read(runtime: &Runtime, histories: &[History; 2]) -> [Samples; 2] {
    let sessions = [0, 1].map(|which| {
        let (file, id) = (histories[which].file.clone(), histories[which].session);
        on(runtime, async move {
            let opener = Opener::new(open(&file).await, World::system()).await;
            Session::open(&opener, id).await.expect("it is free")
        })
    });
    let mut samples: [Samples; 2] = Default::default();
    for turn in 0..READ {
        for (which, session) in sessions.iter().enumerate() {
            let past = &histories[which].past;
            let past = past[turn * 7_919 % past.len()];
            samples[0][which].push(on(runtime, tail(session.clone())));
            samples[1][which].push(on(runtime, as_of(session.clone(), past)));
        }
    }
    samples
}

async fn tail(session: Session) -> f64 {
    let watch = Stopwatch::start();
    let tail = session.entries(ConversationId::ROOT, None, TAIL).await.expect("entries");
    assert_eq!(tail.len(), TAIL);
    watch.us()
}

async fn as_of(session: Session, (entry, step): (EntryId, usize)) -> f64 {
    let watch = Stopwatch::start();
    let plan = session.snapshot_as_of::<Plan>(ConversationId::ROOT, entry).await.expect("a past");
    let us = watch.us();
    assert_eq!(plan.map(|plan| plan.step), Some(step));
    us
}
