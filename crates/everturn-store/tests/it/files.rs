//! Files for tests, gone when the store over them is.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use event_listener::Event;
use everturn_core::{
    error::Result,
    id::OwnerId,
    storage::{Batch, Committed, Create, Created, Layer, Layered, Stats, Store},
};
use everturn_store::{Options, open};
use everturn_testkit::store::scene::owner;
use tempfile::TempDir;

/// A directory for one store.
pub(crate) struct Temporary(TempDir);

impl Temporary {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for temporary files"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("work.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// The store, opened for the scenes' owner.
    pub(crate) async fn open(&self) -> Store {
        self.open_as(owner()).await
    }

    pub(crate) async fn open_as(&self, owner: OwnerId) -> Store {
        open(&self.url(), Options::new(owner)).await.expect("the store opens")
    }

    /// A store that keeps its directory.
    pub(crate) async fn into_store(self, reopen: Reopen) -> Store {
        Store::new(Layered(Kept::new(self, reopen).await))
    }
}

/// When a store is closed and opened again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reopen {
    Never,
    AfterEveryCommit,
}

struct Kept {
    opened: Mutex<Opened>,
    reopen: Reopen,
    file: Temporary,
    /// A store that is opened again has a new bell, so there is one before all of them.
    rung: AtomicU64,
    bell: Event,
    /// How many calls are with the store that is open; told when one ends.
    calls: AtomicUsize,
    ended: Event,
}

/// A call that is with the store.
struct Call<'a>(&'a Kept);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify(usize::MAX);
    }
}

struct Opened {
    /// None while it is closed, to be opened again.
    store: Option<Store>,
    /// What the stores before this one counted.
    counted: Stats,
}

impl Kept {
    async fn new(file: Temporary, reopen: Reopen) -> Self {
        let opened = Opened { store: Some(file.open().await), counted: Stats::default() };
        Self {
            opened: Mutex::new(opened),
            reopen,
            file,
            rung: AtomicU64::new(0),
            bell: Event::new(),
            calls: AtomicUsize::new(0),
            ended: Event::new(),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the store and opens it again, if that is wanted, when `done` with it.
    async fn reopen<T>(&self, done: T) -> T {
        if self.reopen == Reopen::AfterEveryCommit {
            let stats = self.inner().stats().await.expect("a store counts");
            self.quiet().await;
            let mut opened = self.opened();
            opened.counted = sum(opened.counted, stats);
            opened.store = None;
            // Without a wait: nobody may ask in between.
            opened.store = Some(everturn_testkit::block_on(self.file.open()));
            drop(opened);
            self.ring();
        }
        done
    }

    /// Waits until no call is with the store: each holds it open.
    async fn quiet(&self) {
        loop {
            let ended = self.ended.listen();
            if self.calls.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }

    fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.bell.notify(usize::MAX);
    }
}

fn sum(one: Stats, other: Stats) -> Stats {
    Stats {
        commits: one.commits + other.commits,
        groups: one.groups + other.groups,
        syncs: one.syncs + other.syncs,
    }
}

impl Layer for Kept {
    fn inner(&self) -> Store {
        self.opened().store.clone().expect("nobody asks while it is opened again")
    }

    async fn around<T: Send>(&self, operation: &'static str, call: impl Future<Output = T> + Send) -> T {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let with_store = Call(self);
        let done = call.await;
        drop(with_store);
        if ["claim", "delete", "post", "release"].contains(&operation) {
            self.ring();
        }
        done
    }

    async fn create(&self, create: Create) -> Result<Created> {
        let created = self.inner().create(create).await;
        self.reopen(created).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let committed = self.inner().commit(batch).await;
        self.reopen(committed).await
    }

    async fn doorbell(&self, heard: u64) -> u64 {
        if self.reopen == Reopen::Never {
            return self.inner().doorbell(heard).await;
        }
        loop {
            let rings = self.bell.listen();
            match self.rung.load(Ordering::SeqCst) {
                rung if rung == heard => rings.await,
                rung => return rung,
            }
        }
    }

    async fn stats(&self) -> Result<Stats> {
        let now = self.inner().stats().await?;
        Ok(sum(self.opened().counted, now))
    }
}

/// Another program that holds the file's write lock until it is dropped.
pub(crate) struct Blocker(rusqlite::Connection);

impl Blocker {
    pub(crate) fn new(path: &Path) -> Self {
        let connection = rusqlite::Connection::open(path).expect("the file opens");
        connection.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes now");
        Self(connection)
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").expect("the lock is given back");
    }
}
