//! Figure 12: what one session costs beside a thousand long ones, and alone.

use everturn::{
    World,
    entry::Entry,
    id::ConversationId,
    kernel::{Opener, Session},
    message::Message,
    storage::{NewSession, Store},
};
use tokio::runtime::Runtime;

use crate::{
    measure::{Stopwatch, cpu_us_of, median, ratios},
    scene::{Payloads, Scene, commit, on, open, runtime, text},
    table::{Row, Table},
};

/// The others, and how many entries each has.
const OTHERS: usize = 1_000;
const ENTRIES: usize = 300;
/// Chunks by turns, and how many commits and openings each has.
const CHUNKS: usize = 120;
const CHUNK: usize = 5;

/// One session, and what opens it.
#[derive(Clone)]
struct One {
    opener: Opener,
    session: Session,
}

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let files = ["crowded.db", "fresh.db"].map(|name| scene.directory().join(name));
    let mut pair = on(&runtime, async move {
        let [crowded, fresh] = files;
        let [crowded, fresh] = [open(&crowded).await, open(&fresh).await];
        [one(crowded, OTHERS).await, one(fresh, 0).await]
    });
    let mut samples: [[Vec<f64>; 2]; 4] = Default::default();
    let mut payloads = Payloads::new(12);
    for _ in 0..CHUNKS {
        let work: Vec<Vec<Entry>> = (0..CHUNK).map(|_| payloads.next().0).collect();
        for (which, one) in pair.iter_mut().enumerate() {
            let (cpu, us) = cpu_us_of(|| commit_all(&runtime, one, work.clone()));
            samples[0][which].push(median(&us));
            samples[1][which].push(cpu / CHUNK as f64);
            let (cpu, us) = cpu_us_of(|| open_all(&runtime, one));
            samples[2][which].push(median(&us));
            samples[3][which].push(cpu / CHUNK as f64);
        }
    }
    let whats = ["a commit: wall time", "a commit: CPU", "opening: wall time", "closing and opening: CPU"];
    for (what, [crowded, fresh]) in whats.into_iter().zip(&samples) {
        let ratio = median(&ratios(crowded, fresh));
        table.row(Row {
            figure: "12",
            what: format!("one session beside {OTHERS} long ones ÷ in a fresh store, {what}"),
            measured: format!("{ratio:.2} ({:.0} us ÷ {:.0} us)", median(crowded), median(fresh)),
            target: "≤ 1.1",
            raw: "1: the same work".into(),
            is_reached: ratio <= 1.1,
        });
    }
    table.note(format!(
        "12: the others have {ENTRIES} entries of 0.4 KB each; {CHUNKS} chunks of {CHUNK} commits and {CHUNK} openings \
         by turns, the median of the chunks' ratios."
    ));
}

/// A session in a store with others, which are closed.
async fn one(store: Store, others: usize) -> One {
    let opener = Opener::new(store, World::system()).await;
    for _ in 0..others {
        let session = Session::create(&opener, NewSession::default()).await.expect("a session");
        let mut tx = session.begin().await.expect("the session is ours");
        for number in 0..ENTRIES {
            let entry = Entry::new("bench.note").message(Message::user(text(number, 320)));
            tx.append(ConversationId::ROOT, entry).expect("a small entry");
        }
        tx.commit().await.expect("a commit");
        session.close().await.expect("it is ours");
    }
    let session = Session::create(&opener, NewSession::default()).await.expect("a session");
    One { opener, session }
}

fn commit_all(runtime: &Runtime, one: &One, work: Vec<Vec<Entry>>) -> Vec<f64> {
    let session = one.session.clone();
    on(runtime, async move {
        let mut taken = Vec::with_capacity(work.len());
        for entries in work {
            let watch = Stopwatch::start();
            commit(&session, entries).await;
            taken.push(watch.us());
        }
        taken
    })
}

fn open_all(runtime: &Runtime, one: &mut One) -> Vec<f64> {
    let before = one.clone();
    let (session, taken) = on(runtime, async move {
        let One { opener, mut session } = before;
        let mut taken = Vec::with_capacity(CHUNK);
        for _ in 0..CHUNK {
            session.close().await.expect("it is ours");
            let watch = Stopwatch::start();
            session = Session::open(&opener, session.id()).await.expect("it is free");
            taken.push(watch.us());
        }
        (session, taken)
    });
    one.session = session;
    taken
}
