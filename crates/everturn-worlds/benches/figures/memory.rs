//! Figure 15: what sessions keep in memory, counted as resident pages of a process of its own.

use std::{path::Path, sync::Arc};

use everturn::{
    Agent, CancelToken, Harness, Input, LiveSession, Models, SessionSpec, Submission,
    entry::Entry,
    id::{ConversationId, SessionId},
    message::Message,
};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::{
    child, process,
    scene::{Scene, on, open, question, runtime, text},
    table::{Row, Table},
};

/// The argument that makes this program the child.
pub(crate) const CHILD: &str = "--memory";
/// Sessions that are counted, and those that come before them: what the process needs but once is there then.
const COUNTED: usize = 2_000;
const BEFORE: usize = 600;
/// What each has: so many messages of so many bytes.
const MESSAGES: usize = 20;
const BYTES: usize = 1_000;
/// How many are worked on at once.
const AT_ONCE: usize = 50;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let said = child::ask(&[CHILD, &scene.file().display().to_string()]);
    let [known, open, turn, tail] = said[..] else {
        table.note("15: the kernel does not count what a process has resident.".into());
        return;
    };
    let beyond = turn - tail;
    for (what, bytes, target, most, raw) in [
        ("a known session that nobody has open", known, "≤ 256 B", 256.0, "0: it is in the file".to_owned()),
        ("an open idle session", open, "≤ 8 KB", 8_192.0, "—".to_owned()),
        (
            "an active turn, beyond its tail",
            beyond,
            "≤ 64 KB",
            65_536.0,
            format!("its tail: {tail:.0} B of text"),
        ),
    ] {
        table.row(Row {
            figure: "15",
            what: format!("memory of {what}"),
            measured: format!("{bytes:.0} B"),
            target,
            raw,
            is_reached: bytes <= most,
        });
    }
    table.note(format!(
        "15: growth of the resident pages of a process of its own over {COUNTED} sessions, on SQLite, behind {BEFORE} \
         others, when the store's page caches are full. Known: created, filled with {MESSAGES} messages of {BYTES} bytes \
         and closed, by the same process. An active turn has streamed half of its answer and waits for the rest."
    ));
}

/// Prints what each of many sessions takes: known, open, with a turn, and the text of its tail.
pub(crate) fn child(file: &Path) {
    let file = file.to_owned();
    let runtime = runtime();
    let gate = CancelToken::new();
    let (half, rest) = (text(0, 512), text(512, 512));
    let model = Scripted::always(Reply::text(half).then_wait(&gate).then_text(rest));
    let harness = on(&runtime, {
        let model = model.clone();
        async move {
            let models = Models::new().provider("scripted", model);
            let harness = Harness::builder(open(&file).await).models(models);
            Arc::new(harness.open().await.expect("a harness"))
        }
    });
    let grown = |per: usize, before: Option<u64>| {
        let bytes = process::resident().zip(before).map_or(0.0, |(now, before)| now as f64 - before as f64);
        bytes / per as f64
    };
    let others = on(&runtime, make(harness.clone(), BEFORE));
    let before = process::resident();
    if before.is_none() {
        return;
    }
    let sessions = on(&runtime, make(harness.clone(), COUNTED));
    println!("{}", grown(COUNTED, before));
    // Fills the readers' caches with what the sessions are.
    drop(on(&runtime, open_all(harness.clone(), sessions.clone())));
    let _others = on(&runtime, open_all(harness.clone(), others));
    let before = process::resident();
    let live = on(&runtime, open_all(harness, sessions));
    println!("{}", grown(COUNTED, before));
    let before = process::resident();
    let _asked = on(&runtime, ask_all(live.clone(), model));
    println!("{}", grown(COUNTED, before));
    println!("{}", MESSAGES * BYTES + question().len() + 512);
    gate.cancel();
}

/// Creates sessions, fills them and closes them, many at once.
async fn make(harness: Arc<Harness>, count: usize) -> Vec<SessionId> {
    let each = (0..AT_ONCE).map(|_| {
        let harness = harness.clone();
        tokio::spawn(async move {
            let mut made = Vec::new();
            for _ in 0..count / AT_ONCE {
                made.push(fill(&harness).await);
            }
            made
        })
    });
    let mut made = Vec::new();
    for one in each.collect::<Vec<_>>() {
        made.extend(one.await.expect("it does not panic"));
    }
    made
}

async fn fill(harness: &Harness) -> SessionId {
    let agent = Agent { model: Some("scripted".parse().expect("a model")), ..Agent::default() };
    let live = harness.create(SessionSpec { agent, ..SessionSpec::default() }).await.expect("a session");
    let mut tx = live.begin().await.expect("the session is ours");
    for number in 0..MESSAGES {
        let entry = Entry::new("bench.note").message(Message::user(text(number, BYTES)));
        tx.append(ConversationId::ROOT, entry).expect("a small entry");
    }
    tx.commit().await.expect("a commit");
    live.close().await.expect("it is ours");
    live.id()
}

async fn open_all(harness: Arc<Harness>, sessions: Vec<SessionId>) -> Vec<LiveSession> {
    let mut live = Vec::with_capacity(sessions.len());
    for id in sessions {
        live.push(harness.open_session(id).await.expect("it is free"));
    }
    live
}

/// Has all of them ask, and waits until each has half of its answer.
async fn ask_all(live: Vec<LiveSession>, model: Scripted) -> Vec<Submission> {
    let mut asked = Vec::with_capacity(live.len());
    for live in &live {
        asked.push(live.root().submit(Input::text(question())).await.expect("a submission"));
    }
    while model.count() < live.len() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Longer than partial output waits before it is flushed.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    asked
}
