//! Files, as an environment speaks of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is at a path, links followed.
///
/// ```
/// use everturn_core::env::{FileKind, FileVersion, Stat};
/// let stat = Stat { kind: FileKind::File, size: 3, version: FileVersion::new("3-17") };
/// assert_eq!(stat.size, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes; 0 for what is not a file.
    pub size: u64,
    /// What tells it from what was there before.
    pub version: FileVersion,
}

/// Which of its states a file is in: another one after each change, and after it was replaced.
///
/// Shape: text that only the environment that gave it can read; compared, and stored as it is.
///
/// ```
/// use everturn_core::env::FileVersion;
/// assert_eq!(serde_json::to_string(&FileVersion::new("3-17")).unwrap(), r#""3-17""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileVersion(String);

impl FileVersion {
    /// A version by the environment's own token for it.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which path, and what is going to be done there.
///
/// ```
/// use everturn_core::env::{Access, ResolvePath};
/// assert_eq!(ResolvePath { path: "src/a.rs".into(), access: Access::Write }.access, Access::Write);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvePath {
    /// The path as it was given.
    pub path: String,
    /// What is going to be done.
    pub access: Access,
}

/// What is done with a path.
///
/// ```
/// use everturn_core::env::Access;
/// assert_ne!(Access::Read, Access::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read, or listed.
    Read,
    /// It is created, replaced or removed.
    Write,
}

/// Where a path leads.
///
/// Shape: links are followed and `..` is gone. Relative to the root (`.` is the root itself), or absolute when it lies
/// outside. Missing names stand as they would be created.
///
/// ```
/// use everturn_core::env::{FileKind, Resolved};
/// let resolved = Resolved { path: "src/a.rs".into(), kind: Some(FileKind::File), links: 1 };
/// assert!(!resolved.is_outside());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The path.
    pub path: String,
    /// What is there: a file or a directory, or nothing.
    pub kind: Option<FileKind>,
    /// How many names a regular file has; 0 for all else. Another name of it may lie outside.
    pub links: u64,
}

impl Resolved {
    /// Whether it lies outside the root.
    pub fn is_outside(&self) -> bool {
        self.path.starts_with('/')
    }
}

/// A kind of file.
///
/// ```
/// use everturn_core::env::FileKind;
/// assert_ne!(FileKind::File, FileKind::Directory);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, as a listing shows it (elsewhere links are followed).
    Link,
    /// A device, a pipe, a socket: never read.
    Other,
}

/// Which bytes of which file.
///
/// ```
/// use everturn_core::env::ReadFile;
/// assert_eq!(ReadFile { path: "a.txt".into(), offset: 0, limit: 1024 }.limit, 1024);
/// ```
#[derive(Clone, Debug)]
pub struct ReadFile {
    /// The file.
    pub path: String,
    /// Where to begin, in bytes.
    pub offset: u64,
    /// How many bytes at most; fewer come back only at the end of the file.
    pub limit: usize,
}

/// Which names of which directory.
///
/// ```
/// use everturn_core::env::ListDirectory;
/// assert_eq!(ListDirectory { path: ".".into(), after: None, limit: 100 }.limit, 100);
/// ```
#[derive(Clone, Debug)]
pub struct ListDirectory {
    /// The directory.
    pub path: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// How many names at most.
    pub limit: usize,
}

/// A name in a directory.
///
/// ```
/// use everturn_core::env::{DirectoryEntry, FileKind};
/// assert_eq!(DirectoryEntry { name: "src".into(), kind: FileKind::Directory }.name, "src");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// What it names; a link is not followed.
    pub kind: FileKind,
}

/// A file as it is to be.
///
/// ```
/// use everturn_core::env::{Expect, WriteFile};
/// let write = WriteFile { path: "a.txt".into(), bytes: b"hello\n".to_vec(), expect: Expect::Absent };
/// assert_eq!(write.bytes.len(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct WriteFile {
    /// The file.
    pub path: String,
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// What must be there.
    pub expect: Expect,
}

/// What must be at a path for it to be written: a compare-and-set.
///
/// ```
/// use everturn_core::env::Expect;
/// assert_eq!(Expect::default(), Expect::Any);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Whatever there is, or nothing.
    #[default]
    Any,
    /// Nothing.
    Absent,
    /// A file in this very state.
    Version(FileVersion),
}

/// What a write did.
///
/// ```
/// use everturn_core::env::{FileVersion, Written};
/// let written = Written { version: FileVersion::new("3-17"), replaced: None };
/// assert!(written.replaced.is_none(), "it was created");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file as it is now.
    pub version: FileVersion,
    /// What was there before; none where the file was created.
    pub replaced: Option<FileVersion>,
}
