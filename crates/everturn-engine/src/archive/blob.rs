//! Blobs on their way back: chunks that are hashed as they come, and named only when the hash is the name.

use everturn_core::{
    Result,
    clock::Timestamp,
    id::{BlobId, UploadId},
    storage::{CHUNK, Chunk, Seal},
};
use sha2::{Digest, Sha256};

use super::lines::invalid;

/// A blob whose chunks are coming.
pub(super) struct Coming {
    blob: BlobId,
    upload: UploadId,
    size: u64,
    number: u32,
    written: u64,
    hash: Sha256,
}

impl Coming {
    pub(super) fn new(blob: BlobId, size: u64, upload: UploadId) -> Self {
        Self { blob, upload, size, number: 0, written: 0, hash: Sha256::new() }
    }

    /// The next chunk, as it is stored.
    ///
    /// Errors: `Invalid` when it is none of this blob's, or has not as many bytes as come next.
    pub(super) fn chunk(
        &mut self,
        (blob, size): (BlobId, u64),
        bytes: Vec<u8>,
        time: Timestamp,
    ) -> Result<Chunk> {
        if (blob, size) != (self.blob, self.size) {
            let written = self.written;
            return Err(invalid(&format!(
                "blob {} of {} bytes ends after {written}: then comes blob {blob} of {size}",
                self.blob, self.size
            )));
        }
        let (number, expected) = (self.number, (CHUNK as u64).min(self.size - self.written));
        if bytes.is_empty() || bytes.len() as u64 != expected {
            let found = bytes.len();
            return Err(invalid(&format!(
                "chunk {number} of blob {blob} has {found} bytes, and {expected} come next"
            )));
        }
        self.hash.update(&bytes);
        self.written += expected;
        self.number += 1;
        Ok(Chunk { upload: self.upload, number, bytes, time })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.written == self.size
    }

    /// What names the blob, once it is whole.
    ///
    /// Errors: `Invalid` when its bytes are not those that its id is the hash of. Every session that refers to it would read them.
    pub(super) fn seal(self, time: Timestamp) -> Result<Seal> {
        let Self { blob, upload, size, hash, .. } = self;
        match BlobId(hash.finalize().into()) {
            found if found == blob => Ok(Seal { upload, blob, size, time }),
            found => Err(invalid(&format!("the bytes of blob {blob} are those of blob {found}"))),
        }
    }
}
