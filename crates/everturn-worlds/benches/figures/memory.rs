//! Figure 15: what sessions keep in memory, counted as resident pages of a process of its own.

use std::{path::Path, sync::Arc, time::Duration};

use everturn::{
    Agent, CancelToken, Harness, Input, LiveSession, Models, SessionSpec, Submission, World,
    entry::Entry,
    id::{ConversationId, SessionId},
    message::Message,
    storage::{RunnableQuery, SessionQuery},
};
use everturn_testkit::scripted::{Reply, Scripted};
use tokio::runtime::Runtime;

use crate::{
    child,
    measure::median,
    process,
    scene::{Scene, on, open, question, runtime, text},
    table::{Row, Table},
};

/// The argument that makes this program the child; a file and one of the words below follow.
pub(crate) const CHILD: &str = "--memory";
/// Makes more sessions and prints how much memory each of them took.
const MAKE: &str = "make";
/// Opens the store as a process does that has just started, and prints its memory.
const LOOK: &str = "look";
/// Opens sessions, then has them ask; prints what either took of each, and the text of a tail.
const OPEN: &str = "open";
/// Sessions that are opened, those that come before them (what the process needs but once is there then), and those that
/// are only known.
const OPENED: usize = 2_000;
const BEFORE: usize = 500;
const KNOWN: usize = 7_500;
/// What each has: so many messages of so many bytes.
const MESSAGES: usize = 20;
const BYTES: usize = 1_000;
/// How many are worked on at once.
const AT_ONCE: usize = 50;
/// How often a process looks.
const LOOKS: usize = 5;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let file = scene.file().display().to_string();
    let look = || median(&(0..LOOKS).map(|_| child::ask(&[CHILD, &file, LOOK])[0]).collect::<Vec<_>>());
    child::ask(&[CHILD, &file, MAKE, &(BEFORE + OPENED).to_string()]);
    let few = look();
    let made = child::ask(&[CHILD, &file, MAKE, &KNOWN.to_string()])[0];
    let known = (look() - few) / KNOWN as f64;
    let said = child::ask(&[CHILD, &file, OPEN]);
    let [open, turn, tail] = said[..] else {
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
        "15: resident pages, on SQLite. Known: what {KNOWN} more sessions in the store add to a process that opens \
         it and asks for the first page of the list and for what can run. Created, filled and closed in one \
         process, each leaves {made:.0} B, most of it in the store's page caches, which end at 16 MB for each of \
         three readers. Open and active: the growth over {OPENED} sessions of {MESSAGES} messages of {BYTES} \
         bytes, behind {BEFORE} others, when what is in the file was read before. An active turn has streamed half \
         of its answer and waits for the rest."
    ));
}

/// Does what one of the words says.
pub(crate) fn child(file: &Path, words: &[String]) {
    let file = file.to_owned();
    let runtime = runtime();
    let gate = CancelToken::new();
    let reply = Reply::text(text(0, 512)).then_wait(&gate).then_text(text(512, 512));
    let model = Scripted::always(reply);
    let harness = on(&runtime, {
        let model = model.clone();
        async move {
            let models = Models::new().provider("scripted", model);
            let store = open(&file).await;
            (store.clone(), Arc::new(Harness::builder(store).models(models).open().await.expect("a harness")))
        }
    });
    let (store, harness) = harness;
    match words {
        [what] if what == LOOK => {
            on(&runtime, async move {
                harness.sessions(SessionQuery::default()).await.expect("a page");
                store.runnable(RunnableQuery::at(World::system().clock.now())).await.expect("what can run");
            });
            println!("{}", process::resident().map_or(0.0, |bytes| bytes as f64));
        }
        [what, count] if what == MAKE => {
            let count = count.parse().expect("a number");
            let before = process::resident();
            on(&runtime, make(harness, count));
            println!("{}", grown(count, before));
        }
        _ => open_and_ask(&runtime, harness, (model, gate)),
    }
}

fn open_and_ask(runtime: &Runtime, harness: Arc<Harness>, (model, gate): (Scripted, CancelToken)) {
    let sessions = on(runtime, list(harness.clone()));
    let (before, counted) = sessions.split_at(BEFORE);
    let _others = on(runtime, open_all(harness.clone(), before.to_vec()));
    let resident = process::resident();
    if resident.is_none() {
        return;
    }
    let live = on(runtime, open_all(harness, counted.to_vec()));
    println!("{}", grown(OPENED, resident));
    let resident = process::resident();
    let _asked = on(runtime, ask_all(live, model));
    println!("{}", grown(OPENED, resident));
    println!("{}", MESSAGES * BYTES + question().len() + 512);
    gate.cancel();
}

fn grown(sessions: usize, before: Option<u64>) -> f64 {
    let bytes = process::resident().zip(before).map_or(0.0, |(now, before)| now as f64 - before as f64);
    bytes / sessions as f64
}

/// The sessions to open, of which all has been read once by every reader, so that no cache grows any more.
async fn list(harness: Arc<Harness>) -> Vec<SessionId> {
    let query = SessionQuery { limit: BEFORE + OPENED, ..SessionQuery::default() };
    let rows = harness.sessions(query).await.expect("a page");
    for _ in 0..2 {
        for rows in rows.chunks(3) {
            let each = rows.iter().map(|row| {
                let (harness, id) = (harness.clone(), row.id);
                tokio::spawn(async move {
                    let reader = harness.reader(id).await.expect("it is there");
                    reader.entries(ConversationId::ROOT, None, MESSAGES).await.expect("entries");
                    reader.is_working().await.expect("tasks");
                })
            });
            for one in each.collect::<Vec<_>>() {
                one.await.expect("it does not panic");
            }
        }
    }
    rows.iter().map(|row| row.id).collect()
}

/// Creates sessions, fills them and closes them, many at once.
async fn make(harness: Arc<Harness>, count: usize) {
    let each = (0..AT_ONCE).map(|_| {
        let harness = harness.clone();
        tokio::spawn(async move {
            for _ in 0..count / AT_ONCE {
                fill(&harness).await;
            }
        })
    });
    for one in each.collect::<Vec<_>>() {
        one.await.expect("it does not panic");
    }
}

async fn fill(harness: &Harness) {
    let agent = Agent { model: Some("scripted".parse().expect("a model")), ..Agent::default() };
    let live = harness.create(SessionSpec { agent, ..SessionSpec::default() }).await.expect("a session");
    let mut tx = live.begin().await.expect("the session is ours");
    for number in 0..MESSAGES {
        let entry = Entry::new("bench.note").message(Message::user(text(number, BYTES)));
        tx.append(ConversationId::ROOT, entry).expect("a small entry");
    }
    tx.commit().await.expect("a commit");
    live.close().await.expect("it is ours");
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
    let clock = World::system().clock;
    while model.count() < live.len() {
        clock.sleep(Duration::from_millis(5)).await;
    }
    // Longer than partial output waits before it is flushed.
    clock.sleep(Duration::from_millis(500)).await;
    asked
}
