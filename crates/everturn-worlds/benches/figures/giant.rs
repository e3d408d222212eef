//! Figure 20: a store with one giant among two thousand sessions, as a process meets it that has just started.

use std::path::Path;

use everturn::{
    Agent, Harness, Input, Models, SessionSpec,
    entry::{Entry, Head},
    id::{ConversationId, SessionId},
    message::{CallId, CallResult, Message, Outcome},
    storage::SessionQuery,
};
use everturn_testkit::scripted::Scripted;

use crate::{
    child,
    measure::Stopwatch,
    process,
    scene::{Scene, answer, on, open, question, runtime, text},
    table::{Row, Table},
};

/// The argument that makes this program the child.
pub(crate) const CHILD: &str = "--giant";
const SESSIONS: usize = 2_000;
/// Entries of the giant. Each tenth is a tool's output of so many bytes.
const ENTRIES: usize = 300_000;
const OUTPUT: usize = 100_000;
/// Entries of each of the others, and of the giant behind its last compaction.
const FEW: usize = 20;
const TAIL: usize = 200;
/// Entries of one of the giant's commits, while it is made.
const COMMIT: usize = 500;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let file = scene.file();
    let watch = Stopwatch::start();
    let giant = on(&runtime(), {
        let file = file.clone();
        async move { make(&file).await }
    });
    let made = watch.us() / 1e6;
    let path = file.display().to_string();
    let said = child::ask(&[CHILD, &path, &giant.to_string()]);
    let [store, page, opened, first, again, resident] = said[..] else {
        table.note("20: the child did not say what it measured.".into());
        return;
    };
    let stored = std::fs::metadata(&file).map_or(0.0, |found| found.len() as f64 / 1e9);
    for (what, ms, more) in [
        ("`sessions`: a page of 50", page, String::new()),
        ("open", opened, format!("; the store before it {store:.1} ms")),
        ("first request, its turn answered", first, format!("; the next turn {again:.1} ms")),
    ] {
        table.row(Row {
            figure: "20",
            what: format!("{SESSIONS} sessions, one of {ENTRIES} entries: {what}"),
            measured: format!("{ms:.1} ms{more}"),
            target: "< 100 ms",
            raw: format!("a file of {stored:.1} GB"),
            is_reached: ms < 100.0,
        });
    }
    table.row(Row {
        figure: "20",
        what: "the most memory that its process had resident".into(),
        measured: format!("{resident:.0} MB"),
        target: "< 100 MB",
        raw: format!("a file of {stored:.1} GB"),
        is_reached: resident < 100.0,
    });
    table.note(format!(
        "20: {} outputs of {} KB are {:.1} GB of tool output; the giant was compacted {TAIL} entries before its end. Made \
         in {made:.0} s; what is measured is measured in a process of its own, once, while the system still has some \
         of the file in its cache.",
        ENTRIES / 10,
        OUTPUT / 1_000,
        (ENTRIES / 10 * OUTPUT) as f64 / 1e9
    ));
}

async fn harness(file: &Path) -> Harness {
    let models = Models::new().provider("scripted", Scripted::always(answer()));
    Harness::builder(open(file).await).models(models).open().await.expect("a harness")
}

/// Makes the store, and gives the giant.
async fn make(file: &Path) -> SessionId {
    let harness = harness(file).await;
    let mut giant = None;
    for number in 0..SESSIONS {
        let agent = Agent { model: Some("scripted".parse().expect("a model")), ..Agent::default() };
        let live = harness.create(SessionSpec { agent, ..SessionSpec::default() }).await.expect("a session");
        let is_giant = number == SESSIONS / 2;
        let entries = if is_giant { ENTRIES } else { FEW };
        for from in (0..entries).step_by(COMMIT) {
            let mut tx = live.begin().await.expect("the session is ours");
            for number in from..entries.min(from + COMMIT) {
                let entry = entry(number, number + TAIL == ENTRIES);
                tx.append(ConversationId::ROOT, entry).expect("it fits");
            }
            tx.commit().await.expect("a commit");
        }
        if is_giant {
            giant = Some(live.id());
        }
        live.close().await.expect("it is ours");
    }
    giant.expect("one of them is")
}

fn entry(number: usize, is_compaction: bool) -> Entry {
    let note = Entry::new("bench.note");
    match number % 10 {
        _ if is_compaction => note.message(Message::user("What was before.")).head(Head::Itself),
        9 => note.message(Message::Result(CallResult::new(
            CallId(format!("call-{number}")),
            Outcome::Ok,
            text(number, OUTPUT),
        ))),
        _ => note.message(Message::user(text(number, 320))),
    }
}

/// Opens the store and the giant, and holds two turns. Says how long each took, in milliseconds, and how many megabytes
/// the process had at most.
pub(crate) fn child(file: &Path, session: &str) {
    let id: SessionId = session.parse().expect("a session's id");
    let file = file.to_owned();
    let ms = on(&runtime(), async move {
        let mut ms = Vec::new();
        let mut watch = Stopwatch::start();
        let mut lap = || {
            ms.push(watch.us() / 1e3);
            watch = Stopwatch::start();
        };
        let harness = harness(&file).await;
        lap();
        assert_eq!(harness.sessions(SessionQuery::default()).await.expect("a page").len(), 50);
        lap();
        let live = harness.open_session(id).await.expect("it is free");
        lap();
        for _ in 0..2 {
            let asked = live.root().submit(Input::text(question())).await.expect("a submission");
            assert!(asked.answer().await.expect("an end").is_answered());
            lap();
        }
        ms
    });
    ms.iter().for_each(|ms| println!("{ms}"));
    println!("{}", process::resident_max().map_or(f64::NAN, |bytes| bytes as f64 / 1e6));
}
