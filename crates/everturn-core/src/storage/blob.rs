//! Blobs: bytes too big for a record, written ahead of the commit that refers to them.

use crate::{
    clock::Timestamp,
    error::{Error, Result},
    id::{BlobId, UploadId},
};

/// How many bytes a chunk has; the last one of a blob may have fewer.
pub const CHUNK: usize = 256 << 10;

/// A piece of a blob that is being written.
///
/// ```
/// # use everturn_core::{clock::Timestamp, storage::Chunk};
/// let chunk = Chunk {
///     upload: "0198c0de-0000-7000-8000-000000000009".parse().unwrap(),
///     number: 0, bytes: b"hello".to_vec(), time: Timestamp(0),
/// };
/// assert!(chunk.bytes.len() <= everturn_core::storage::CHUNK);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which upload.
    pub upload: UploadId,
    /// Which piece, from 0. Writing a piece again changes nothing.
    pub number: u32,
    /// The bytes: [`CHUNK`] of them, fewer in the last piece.
    pub bytes: Vec<u8>,
    /// When it was written.
    pub time: Timestamp,
}

/// An upload that is whole, and the name it gets.
///
/// ```
/// # use everturn_core::{clock::Timestamp, id::BlobId, storage::Seal};
/// let seal = Seal {
///     upload: "0198c0de-0000-7000-8000-000000000009".parse().unwrap(),
///     blob: BlobId([7; 32]), size: 5, time: Timestamp(0),
/// };
/// assert_eq!(seal.size, 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Which upload.
    pub upload: UploadId,
    /// The hash of its bytes.
    pub blob: BlobId,
    /// How many bytes it has.
    pub size: u64,
    /// When it was sealed.
    pub time: Timestamp,
}

/// Which bytes of which blob.
///
/// ```
/// use everturn_core::{id::BlobId, storage::BlobQuery};
/// let first = BlobQuery { blob: BlobId([7; 32]), from: 0, limit: 1024 };
/// assert_eq!(first.from, 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlobQuery {
    /// The blob.
    pub blob: BlobId,
    /// The first byte, from 0.
    pub from: u64,
    /// How many bytes at most.
    pub limit: usize,
}

/// A range of a blob.
///
/// ```
/// let part = everturn_core::storage::BlobPart { size: 5, bytes: b"lo".to_vec() };
/// assert_eq!(part.size, 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPart {
    /// How many bytes the whole blob has.
    pub size: u64,
    /// The range's bytes.
    pub bytes: Vec<u8>,
}

impl Chunk {
    /// Proves that it is no larger than a chunk may be.
    ///
    /// Errors: `TooLarge`; `Invalid` without bytes.
    pub fn check(&self) -> Result<()> {
        let (upload, number) = (self.upload, self.number);
        match self.bytes.len() {
            0 => Err(Error::invalid(format!("write chunk {number} of upload {upload}: it has no bytes"))),
            found if found > CHUNK => Err(Error::too_large(format!(
                "write chunk {number} of upload {upload}: it has {found} bytes, at most {CHUNK} are allowed"
            ))),
            _ => Ok(()),
        }
    }
}

impl Seal {
    /// Proves that chunks, by number and size and in their order, are all of the blob.
    ///
    /// Errors: `Invalid`, saying which is missing or short.
    pub fn check(&self, chunks: impl IntoIterator<Item = (u32, usize)>) -> Result<()> {
        let Self { upload, size, .. } = self;
        let invalid = |what: String| Err(Error::invalid(format!("seal upload {upload}: {what}")));
        let mut found = 0;
        for (expected, (number, bytes)) in (0..).zip(chunks) {
            if number != expected {
                return invalid(format!("chunk {expected} is missing"));
            }
            if found % CHUNK as u64 != 0 {
                return invalid(format!("chunk {} is short, and not the last", expected - 1));
            }
            found += bytes as u64;
        }
        match found {
            found if found == *size => Ok(()),
            found => invalid(format!("its chunks have {found} bytes, and it says {size}")),
        }
    }

    /// The error for an upload of which nothing is there.
    pub fn unknown(&self) -> Error {
        Error::not_found(format!("seal upload {}: no chunk of it was written", self.upload))
    }
}
