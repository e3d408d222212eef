//! What the figures are measured on: a directory on the disk, payloads, sessions, a harness with a scripted model.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use everturn::{
    Agent, Extension, Harness, Input, LiveSession, Models, SessionSpec, World,
    entry::Entry,
    id::ConversationId,
    kernel::{Memory, Opener, Session},
    message::Message,
    storage::NewSession,
    store::{self, Options, Store},
};
use everturn_testkit::scripted::{Reply, Scripted};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::measure::Stopwatch;

/// A directory on the disk that holds the build, gone when the scene is.
pub(crate) struct Scene(TempDir);

impl Scene {
    pub(crate) fn new() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(target).expect("the build's directory is ours");
        Self(tempfile::tempdir_in(target).expect("there is room"))
    }

    pub(crate) fn directory(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("bench.db")
    }
}

/// The SQLite store in a file.
pub(crate) async fn open(file: &Path) -> Store {
    let url = format!("sqlite:{}", file.display());
    let options = Options::new(World::system().owner());
    store::open(&url, options).await.expect("a store")
}

/// The store in memory.
pub(crate) fn memory() -> Store {
    Store::new(Memory::new())
}

/// The runtime that `#[tokio::main]` gives.
pub(crate) fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("threads")
}

/// Runs work as a server does: as a task on one of the runtime's threads.
pub(crate) fn on<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    runtime.block_on(runtime.spawn(work)).expect("the work does not panic")
}

/// A session without a harness.
pub(crate) async fn session(store: &Store) -> Session {
    let opener = Opener::new(store.clone(), World::system()).await;
    Session::create(&opener, NewSession::default()).await.expect("a session")
}

/// Many of them, of one store.
pub(crate) async fn sessions(store: &Store, count: usize) -> Arc<Vec<Session>> {
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(session(store).await);
    }
    Arc::new(sessions)
}

/// A session with a harness, whose model always gives the same answer at once.
pub(crate) async fn live(store: &Store, answer: Reply) -> LiveSession {
    live_with(store, Scripted::always(answer), Extension::new("none")).await
}

/// A session with a harness, a model and tools.
pub(crate) async fn live_with(store: &Store, model: Scripted, tools: Extension) -> LiveSession {
    let models = Models::new().provider("scripted", model);
    let builder = Harness::builder(store.clone()).models(models).install(tools);
    let harness = builder.expect("tools").open().await.expect("a harness");
    let agent = Agent { model: Some("scripted".parse().expect("a model")), ..Agent::default() };
    let spec = SessionSpec { agent, ..SessionSpec::default() };
    harness.create(spec).await.expect("a session")
}

/// Text as people and models write it: this program's own source, over and over.
pub(crate) fn text(from: usize, bytes: usize) -> String {
    const SOURCE: &str = include_str!("scene.rs");
    debug_assert!(SOURCE.is_ascii());
    SOURCE[from % SOURCE.len()..].chars().chain(SOURCE.chars().cycle()).take(bytes).collect()
}

/// A question of a quarter of a kilobyte.
pub(crate) fn question() -> String {
    text(0, 256)
}

/// An answer of one kilobyte.
pub(crate) fn answer() -> Reply {
    Reply::text(text(256, 1024)).usage(300, 250)
}

/// Holds turns, one after the other, each of the same question and the same answer.
pub(crate) async fn turns(live: &LiveSession, count: usize) {
    for _ in 0..count {
        let asked = live.root().submit(Input::text(question())).await.expect("the session is ours");
        assert!(asked.answer().await.expect("an end").is_answered());
    }
}

/// What commits carry: 1 to 3 entries of 0.2 to 8 KB (log-uniform), each a message. The same each time.
pub(crate) struct Payloads(u64);

impl Payloads {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next commit's entries, and the bytes that a log would have to keep of them.
    pub(crate) fn next(&mut self) -> (Vec<Entry>, Vec<u8>) {
        let count = 1 + self.random() % 3;
        let entries: Vec<Entry> = (0..count).map(|_| self.entry()).collect();
        let bodies = entries.iter().map(|entry| entry.to_body().expect("text has a JSON form"));
        let bytes = bodies.flat_map(String::into_bytes).collect();
        (entries, bytes)
    }

    /// What each of many sessions commits, one after the other, and the bytes of what they commit at the same time.
    pub(crate) fn of_each(
        &mut self,
        sessions: usize,
        commits: usize,
    ) -> (Vec<Vec<Vec<Entry>>>, Vec<Vec<u8>>) {
        let mut groups = vec![Vec::new(); commits];
        let mut of_one = || {
            let (entries, bytes): (Vec<_>, Vec<_>) = (0..commits).map(|_| self.next()).unzip();
            groups.iter_mut().zip(bytes).for_each(|(group, bytes)| group.extend(bytes));
            entries
        };
        let work = (0..sessions).map(|_| of_one()).collect();
        (work, groups)
    }

    fn entry(&mut self) -> Entry {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 200 and 8,000")]
        let bytes = (200.0 * 40f64.powf(self.random() as f64 / u64::MAX as f64)) as usize;
        let from = usize::try_from(self.random() % 65_536).expect("small");
        Entry::new("bench.note").message(Message::user(text(from, bytes)))
    }

    /// Xorshift, by Marsaglia.
    fn random(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// One durable commit of some entries.
pub(crate) async fn commit(session: &Session, entries: Vec<Entry>) {
    let mut tx = session.begin().await.expect("the session is ours");
    for entry in entries {
        tx.append(ConversationId::ROOT, entry).expect("a small entry");
    }
    tx.commit().await.expect("a commit");
}

/// Has all sessions commit at once, each one commit after the other. Gives what each commit took, in microseconds.
pub(crate) async fn commit_together(sessions: &[Session], work: Vec<Vec<Vec<Entry>>>) -> Vec<f64> {
    let of_each = sessions.iter().cloned().zip(work).map(|(session, work)| {
        tokio::spawn(async move {
            let mut taken = Vec::with_capacity(work.len());
            for entries in work {
                let watch = Stopwatch::start();
                commit(&session, entries).await;
                taken.push(watch.us());
            }
            taken
        })
    });
    let mut taken = Vec::new();
    for one in of_each.collect::<Vec<_>>() {
        taken.extend(one.await.expect("commits do not panic"));
    }
    taken
}
