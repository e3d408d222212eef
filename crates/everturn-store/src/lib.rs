//! Stores behind Everturn's storage port: SQLite files, and memory under the same roof.
//!
//! This crate knows nothing of policy, models or the engine. A url says which store is meant, and [`open`] gives the
//! same [`Store`] handle for each. `docs/format.md` describes the file, table by table.
//!
//! Read in this order: [`open`], then `sqlite.rs` (what is opened and how it closes), `sqlite/writer.rs` (group
//! commit), `sqlite/commit.rs` (one batch), and the operations beside it.

#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::Duration;

use everturn_core::{
    error::{Error, Result},
    id::OwnerId,
    memory::Memory,
    storage::Store,
};

/// How a store is opened.
///
/// ```
/// use everturn_store::Options;
///
/// let owner = "0198c0de-0000-7000-8000-000000000001".parse().unwrap();
/// let reading = Options { must_exist: true, ..Options::new(owner) };
/// assert!(reading.bytes_max.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Who will own sessions through this handle: an id that is random per opened store.
    ///
    /// Promise: while the store is open, an operating-system lock stands for this owner; when the process dies, its
    /// sessions can be claimed at once.
    pub owner: OwnerId,
    /// Whether a missing file is an error, as it is for commands that only read. Otherwise it is created.
    pub must_exist: bool,
    /// How long to wait for another process that is writing to the same file; then the answer is `Unavailable`.
    pub patience: Duration,
    /// How big the file may become, in bytes; a commit beyond it is refused as on a full disk.
    pub bytes_max: Option<u64>,
}

impl Options {
    /// The usual: a missing file is created, five seconds of patience, no limit but the disk's.
    pub fn new(owner: OwnerId) -> Self {
        Self { owner, must_exist: false, patience: Duration::from_secs(5), bytes_max: None }
    }
}

/// Opens a store: `sqlite:PATH`, a path that ends in `.db`, or `memory:`.
///
/// Promise: a file that is refused is left as it is. Dropping the last handle finishes what was handed over, ends
/// the store's threads and releases everything.
/// Errors: `Invalid` when the url names no store, or a file that is none; `NotFound` when the file has to exist;
/// `Newer` when a newer version wrote it; `Corrupt` when its schema is not what it says; `Unavailable` when another
/// process keeps it busy.
///
/// ```
/// # fn block_on<T>(future: impl Future<Output = T>) -> T { everturn_testkit::block_on(future) }
/// # block_on(async {
/// use everturn_store::{Options, open};
///
/// let owner = "0198c0de-0000-7000-8000-000000000001".parse().unwrap();
/// let store = open("memory:", Options::new(owner)).await.unwrap();
/// assert!(store.sessions(Default::default()).await.unwrap().is_empty());
///
/// let error = open("mongodb://db", Options::new(owner)).await.unwrap_err();
/// assert!(error.to_string().contains("sqlite:PATH"));
/// # });
/// ```
pub async fn open(url: &str, options: Options) -> Result<Store> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Store::new(Memory::new())),
        Some(("sqlite", path)) if !path.is_empty() => sqlite(path, options).await,
        _ if is_path(url) => sqlite(url, options).await,
        _ => Err(Error::invalid(format!(
            "open store {url:?}: no such kind of store; there are sqlite:PATH (or a path that ends in .db) and memory:"
        ))),
    }
}

fn is_path(url: &str) -> bool {
    url.ends_with(".db") && !url.contains("://")
}

#[cfg(feature = "sqlite")]
async fn sqlite(path: &str, options: Options) -> Result<Store> {
    sqlite::Sqlite::open(path.into(), options).await.map(Store::new)
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(path: &str, _: Options) -> Result<Store> {
    Err(Error::invalid(format!("open store {path}: this program was built without the feature \"sqlite\"")))
}
