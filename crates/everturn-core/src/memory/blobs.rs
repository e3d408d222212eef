//! Blobs in memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    clock::Timestamp,
    error::Result,
    id::{BlobId, UploadId},
    storage::{BlobPart, BlobQuery, Chunk, Seal},
};

#[derive(Default)]
pub(super) struct Blobs {
    uploads: HashMap<UploadId, Upload>,
    sealed: HashMap<BlobId, Sealed>,
}

#[derive(Default)]
struct Upload {
    time: Timestamp,
    chunks: BTreeMap<u32, Vec<u8>>,
}

struct Sealed {
    time: Timestamp,
    bytes: Vec<u8>,
}

impl Blobs {
    pub(super) fn has(&self, blob: BlobId) -> bool {
        self.sealed.contains_key(&blob)
    }

    pub(super) fn put(&mut self, chunk: Chunk) -> Result<()> {
        chunk.check()?;
        let upload = self.uploads.entry(chunk.upload).or_default();
        upload.time = chunk.time;
        upload.chunks.entry(chunk.number).or_insert(chunk.bytes);
        Ok(())
    }

    pub(super) fn seal(&mut self, seal: Seal) -> Result<()> {
        if let Some(sealed) = self.sealed.get_mut(&seal.blob) {
            sealed.time = sealed.time.max(seal.time);
            self.uploads.remove(&seal.upload);
            return Ok(());
        }
        let upload = self.uploads.get(&seal.upload).ok_or_else(|| seal.unknown())?;
        let sizes = upload.chunks.iter().map(|(number, bytes)| (*number, bytes.len()));
        seal.check(sizes)?;
        let bytes = self.uploads.remove(&seal.upload).map(|upload| upload.chunks.into_values().flatten());
        let bytes = bytes.into_iter().flatten().collect();
        self.sealed.insert(seal.blob, Sealed { time: seal.time, bytes });
        Ok(())
    }

    pub(super) fn read(&self, BlobQuery { blob, from, limit }: BlobQuery) -> Option<BlobPart> {
        let bytes = &self.sealed.get(&blob)?.bytes;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        let until = from.saturating_add(limit).min(bytes.len());
        Some(BlobPart { size: bytes.len() as u64, bytes: bytes[from..until].to_vec() })
    }

    pub(super) fn sweep(&mut self, before: Timestamp, referred: &HashSet<BlobId>) -> u64 {
        let found = self.uploads.len() + self.sealed.len();
        self.uploads.retain(|_, upload| upload.time >= before);
        self.sealed.retain(|blob, sealed| sealed.time >= before || referred.contains(blob));
        (found - self.uploads.len() - self.sealed.len()) as u64
    }
}
