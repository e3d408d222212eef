//! Blobs of a session: written ahead in chunks, referred to by a commit, read by range.

use std::ops::Range;

use everturn_core::{
    Error, Result,
    id::{BlobId, UploadId},
    storage::{BlobPart, BlobQuery, CHUNK, Chunk, Seal, Store},
};
use sha2::{Digest, Sha256};

use super::{Session, SessionReader};
use crate::World;

/// Writes the bytes of a blob, a chunk at a time.
///
/// Promise: what was written and never finished, or finished and never referred to, goes after a day.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::{NewSession, Store}};
/// # use everturn_engine::{Opener, Session, World};
/// # let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
/// # let session = Session::create(&opener, NewSession::default()).await?;
/// let mut writer = session.write_blob();
/// writer.write(b"output of ").await?;
/// writer.write(b"a long command").await?;
/// let blob = writer.finish().await?;
///
/// let mut tx = session.begin().await?;
/// tx.refer(blob);
/// tx.commit().await?;
/// assert_eq!(session.blob(blob, 10..16).await?.bytes, b"a long");
/// # Ok(()) }
/// ```
pub struct BlobWriter {
    store: Store,
    world: World,
    upload: UploadId,
    number: u32,
    size: u64,
    hash: Sha256,
    /// Bytes that the store may not have yet.
    waiting: Vec<u8>,
    /// How many of these it has all the same: they go when the next come.
    sent: usize,
}

impl BlobWriter {
    fn new(store: Store, world: World) -> Self {
        let upload = UploadId::new(world.clock.now(), &*world.entropy);
        Self { store, world, upload, number: 0, size: 0, hash: Sha256::new(), waiting: Vec::new(), sent: 0 }
    }

    /// Takes more bytes. Whole chunks go to the store at once.
    ///
    /// Promise: the bytes are taken also when the store refuses a chunk: the next call, with more or with none, tries
    /// again. Errors: what the store says.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.drain(..std::mem::take(&mut self.sent));
        self.waiting.extend_from_slice(bytes);
        while self.waiting.len() - self.sent >= CHUNK {
            self.put(CHUNK).await?;
        }
        Ok(())
    }

    /// Hands the first of the waiting bytes to the store. Given up in the middle, it is done again.
    async fn put(&mut self, count: usize) -> Result<()> {
        let (upload, number, time) = (self.upload, self.number, self.world.clock.now());
        let range = self.sent..self.sent + count;
        let bytes = self.waiting[range.clone()].to_vec();
        self.store.put_chunk(Chunk { upload, number, bytes, time }).await?;
        self.hash.update(&self.waiting[range]);
        self.sent += count;
        self.size += count as u64;
        self.number += 1;
        Ok(())
    }

    /// Ends the blob and gives its id.
    ///
    /// Errors: `Invalid` when nothing was written.
    pub async fn finish(mut self) -> Result<BlobId> {
        if self.number == 0 && self.waiting.is_empty() {
            return Err(Error::invalid("finish a blob: no bytes were written"));
        }
        self.write(&[]).await?;
        if self.waiting.len() > self.sent {
            self.put(self.waiting.len() - self.sent).await?;
        }
        let blob = BlobId(self.hash.finalize().into());
        let (upload, size, time) = (self.upload, self.size, self.world.clock.now());
        self.store.seal(Seal { upload, blob, size, time }).await?;
        Ok(blob)
    }
}

impl Session {
    /// Begins a blob. A commit that [refers](super::Transaction::refer) to it makes it stay.
    pub fn write_blob(&self) -> BlobWriter {
        let opener = &self.0.opener;
        BlobWriter::new(opener.store.clone(), opener.world.clone())
    }

    /// A range of a blob, and how many bytes the whole has.
    ///
    /// Errors: `NotFound`.
    pub async fn blob(&self, blob: BlobId, range: Range<u64>) -> Result<BlobPart> {
        read(&self.0.opener.store, blob, range).await
    }
}

impl SessionReader {
    /// A range of a blob, and how many bytes the whole has.
    ///
    /// Errors: `NotFound`.
    pub async fn blob(&self, blob: BlobId, range: Range<u64>) -> Result<BlobPart> {
        read(self.store(), blob, range).await
    }
}

async fn read(store: &Store, blob: BlobId, range: Range<u64>) -> Result<BlobPart> {
    let limit = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let found = store.blob(BlobQuery { blob, from: range.start, limit }).await?;
    found.ok_or_else(|| Error::not_found(format!("read blob {blob}: the store has no such blob")))
}
