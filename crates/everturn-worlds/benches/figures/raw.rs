//! The disk without a store: what no store on it can beat, and how often it was flushed.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// A file that bytes are appended to, as the simplest durable log does.
pub(crate) struct Appended(File);

impl Appended {
    pub(crate) fn new(directory: &Path) -> Self {
        let open = OpenOptions::new().create(true).append(true).open(directory.join("appended.raw"));
        Self(open.expect("the directory of the bench is ours"))
    }

    /// Append, then fdatasync.
    pub(crate) fn commit(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("there is room");
        self.0.sync_data().expect("the disk is well");
    }
}

/// A file that was filled with zeros and is overwritten from its beginning on: the same sync without a growing file,
/// which is the least that this disk takes.
pub(crate) struct Overwritten {
    file: File,
    at: u64,
}

impl Overwritten {
    const BYTES: usize = 8 << 20;

    pub(crate) fn new(directory: &Path) -> Self {
        let mut file = File::create(directory.join("overwritten.raw")).expect("the directory is ours");
        file.write_all(&vec![0; Self::BYTES]).expect("there is room");
        file.sync_all().expect("the disk is well");
        Self { file, at: 0 }
    }

    /// Overwrite, then fdatasync.
    pub(crate) fn commit(&mut self, bytes: &[u8]) {
        if self.at + bytes.len() as u64 > Self::BYTES as u64 {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at).expect("there is room");
        self.file.sync_data().expect("the disk is well");
        self.at += bytes.len() as u64;
    }
}

/// The disk that holds a directory, as the kernel counts what it does.
pub(crate) struct Disk(Option<PathBuf>);

impl Disk {
    /// Finds the disk; a directory in memory or on a network has none that could be asked.
    pub(crate) fn of(directory: &Path) -> Self {
        let found = std::fs::metadata(directory).ok().and_then(|found| {
            let device = found.dev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            let block = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
            // The flushes of a partition are counted by its disk.
            let disk = match block.join("partition").exists() {
                true => block.parent()?.to_path_buf(),
                false => block,
            };
            Some(disk.join("stat"))
        });
        let disk = Self(found);
        Self(disk.flushes().and(disk.0))
    }

    /// Flush requests that the disk has finished since the machine started, those of others included; none where
    /// nobody counts them.
    ///
    /// Source: Linux, Documentation/block/stat.rst: the sixteenth field.
    pub(crate) fn flushes(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(self.0.as_ref()?).ok()?;
        stat.split_whitespace().nth(15)?.parse().ok()
    }
}
