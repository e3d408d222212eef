//! What calls do to files: recorded before it is done, so that it can be undone, and held back where someone else was faster.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use everturn_core::{
    Error, ErrorKind, Result,
    env::{Access, Env, EnvLayer, Expect, FileVersion, ReadFile, ResolvePath, WriteFile, Written},
    id::{BlobId, ConversationId, SessionId},
    task::TaskRecord,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Session, task::TaskContext};

/// How many bytes are read at once.
const PIECE: usize = 256 << 10;

/// How many files are remembered as they were read.
const SEEN_MAX: usize = 4_096;

/// The names of memos that record changes begin with this.
const MEMO: &str = "write ";

/// What a call did to a file, or was about to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileChange {
    /// The directory that the call worked in; none where its agent had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) directory: Option<String>,
    /// The file, relative to that.
    pub(super) path: String,
    /// What was there before.
    pub(super) before: Image,
    /// The hash of what is there behind it; none where the file was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}

/// What was in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Image {
    /// There was no file.
    Absent,
    /// It was empty.
    Empty,
    /// These bytes.
    Blob(BlobId),
}

/// What the entry of a result says of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Changes {
    pub(super) changes: Vec<FileChange>,
}

impl Changes {
    /// What a call has recorded, in order.
    pub(super) fn of(call: &TaskRecord) -> Self {
        let number = |name: &str| name.strip_prefix(MEMO)?.split(' ').next()?.parse::<u32>().ok();
        let recorded = call.memos.iter().filter_map(|(name, memo)| Some((number(name)?, memo.read().ok()?)));
        let mut recorded: Vec<(u32, FileChange)> = recorded.collect();
        recorded.sort_by_key(|(number, _)| *number);
        Self { changes: recorded.into_iter().map(|(_, change)| change).collect() }
    }

    /// The blobs that they refer to.
    pub(super) fn blobs(&self) -> impl Iterator<Item = BlobId> {
        self.changes.iter().filter_map(|change| match change.before {
            Image::Blob(blob) => Some(blob),
            Image::Absent | Image::Empty => None,
        })
    }
}

/// The hash by which contents are known.
pub(super) fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// All bytes of a file; none where there is no file.
pub(super) async fn contents(env: &Env, path: &str) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        let read = ReadFile { path: path.into(), offset: bytes.len() as u64, limit: PIECE };
        match env.read(read).await {
            Ok(piece) => {
                let is_last = piece.len() < PIECE;
                bytes.extend(piece);
                if is_last {
                    return Ok(Some(bytes));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Keeps contents as a blob.
pub(super) async fn keep(session: &Session, bytes: Option<&[u8]>) -> Result<Image> {
    match bytes {
        None => Ok(Image::Absent),
        Some([]) => Ok(Image::Empty),
        Some(bytes) => {
            let mut writer = session.write_blob();
            writer.write(bytes).await?;
            writer.finish().await.map(Image::Blob)
        }
    }
}

/// The states in which files were read or written last, by the conversations of this process. What is not known is not held
/// back.
#[derive(Default)]
pub(super) struct Seen(Mutex<Known>);

type Place = (SessionId, ConversationId, String);

#[derive(Default)]
struct Known {
    versions: HashMap<Place, FileVersion>,
    order: VecDeque<Place>,
}

impl Seen {
    fn put(&self, place: Place, version: FileVersion) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.versions.insert(place.clone(), version).is_none() {
            known.order.push_back(place);
        }
        if known.order.len() > SEEN_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.versions.remove(&oldest);
        }
    }

    fn get(&self, place: &Place) -> Option<FileVersion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).versions.get(place).cloned()
    }
}

/// The environment of a call: what it does to files is recorded before it is done.
pub(super) struct Recording {
    pub(super) inner: Env,
    pub(super) cx: TaskContext,
    pub(super) seen: Arc<Seen>,
    /// The files that it was judged to write; any, without a list.
    pub(super) writes: Option<Vec<String>>,
    /// The directory that it works in.
    pub(super) directory: Option<String>,
    pub(super) count: AtomicU32,
}

impl Recording {
    /// The file that a path leads to.
    async fn resolve(&self, path: &str, access: Access) -> Result<String> {
        Ok(self.inner.resolve(ResolvePath { path: path.into(), access }).await?.path)
    }

    /// The file that a path leads to, which is to be written. A link may lead elsewhere since the call was judged.
    async fn resolve_write(&self, path: &str) -> Result<String> {
        let resolved = self.resolve(path, Access::Write).await?;
        match &self.writes {
            Some(writes) if !writes.contains(&resolved) => Err(Error::conflict(format!(
                "write {path:?}: it leads to {resolved:?}, and that is not what the call was judged by"
            ))),
            _ => Ok(resolved),
        }
    }

    fn place(&self, path: &str) -> Place {
        (self.cx.session_id(), self.cx.conversation(), path.into())
    }

    async fn saw(&self, path: &str) -> Result<()> {
        let version = self.inner.stat(path.into()).await?.version;
        self.seen.put(self.place(path), version);
        Ok(())
    }

    /// Proves that nobody else has changed a file since this conversation has read it.
    async fn check_unchanged(&self, path: &str) -> Result<()> {
        let Some(seen) = self.seen.get(&self.place(path)) else { return Ok(()) };
        match self.inner.stat(path.into()).await {
            Ok(stat) if stat.version == seen => Ok(()),
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound) => Err(error),
            _ => Err(Error::conflict(format!(
                "write {path:?}: it was changed by someone else since it was read; read it again"
            ))),
        }
    }

    /// Records what is about to be done to a file: what is there now, and what will be.
    async fn record(&self, path: &str, after: Option<&[u8]>) -> Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let (directory, path, after) = (self.directory.clone(), path.to_owned(), after.map(hash));
        // A name has a limit, and a path may be longer.
        let name = format!("{MEMO}{number} {}", &hash(path.as_bytes())[..16]);
        let made = self.cx.memo(&name, || async {
            let before = contents(&self.inner, &path).await?;
            let before = keep(self.cx.session(), before.as_deref()).await?;
            Ok::<_, Error>(FileChange { directory, path: path.clone(), before, after })
        });
        made.await
            .map(drop)
            .map_err(|error| error.engine().cloned().unwrap_or_else(|| Error::invalid(error.to_string())))
    }
}

impl EnvLayer for Recording {
    fn inner(&self) -> Env {
        self.inner.clone()
    }

    async fn read(&self, read: ReadFile) -> Result<Vec<u8>> {
        let path = self.resolve(&read.path, Access::Read).await?;
        self.saw(&path).await?;
        self.inner.read(read).await
    }

    async fn write(&self, write: WriteFile) -> Result<Written> {
        let path = self.resolve_write(&write.path).await?;
        if write.expect == Expect::Any {
            self.check_unchanged(&path).await?;
        }
        self.record(&path, Some(&write.bytes)).await?;
        let written = self.inner.write(write).await?;
        self.seen.put(self.place(&path), written.version.clone());
        Ok(written)
    }

    async fn remove(&self, path: String) -> Result<()> {
        let resolved = self.resolve_write(&path).await?;
        self.check_unchanged(&resolved).await?;
        self.record(&resolved, None).await?;
        self.inner.remove(path).await
    }
}
