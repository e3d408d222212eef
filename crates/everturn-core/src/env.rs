//! The environment port: files as a call may reach them.

use crate::{
    error::{Error, Result},
    port::port,
};

port! {
    /// Where calls run: a directory of this machine, a sandbox, a container.
    ///
    /// Shape: paths are relative to the environment's root, parts separated by `/`; `.` is the root itself.
    /// Promise: nothing outside the root is reachable, whatever a path or a link says; resolving a path and using what
    /// it names are one act, so that no link can be swapped in between.
    /// Errors: `NotFound`; `Invalid` for a path that leaves the root or names something of the wrong kind;
    /// `Unavailable` for everything the operating system refuses. The message names the path.
    ///
    /// Implementers write `async fn`; see `everturn-tools` for a directory of this machine.
    trait ExecutionEnv;

    /// A cheap handle to an environment.
    ///
    /// ```
    /// use everturn_core::env::{Env, Nowhere};
    /// let env = Env::new(Nowhere);
    /// let _ = env.clone();
    /// ```
    handle Env, twin EnvTwin;

    /// What is at a path.
    async fn stat(&self, path: String) -> Result<Stat>;
    /// Bytes of a file.
    async fn read(&self, read: ReadFile) -> Result<Vec<u8>>;
    /// The names in a directory, sorted by bytes, a page at a time.
    async fn list(&self, list: ListDirectory) -> Result<Vec<DirectoryEntry>>;
}

/// What is at a path, links followed.
///
/// ```
/// use everturn_core::env::{FileKind, Stat};
/// assert_eq!(Stat { kind: FileKind::File, size: 3 }.size, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes; 0 for what is not a file.
    pub size: u64,
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

/// An environment without any files: what a session without a root has.
///
/// ```
/// # use futures_util::FutureExt;
/// use everturn_core::env::{Env, Nowhere};
/// let stat = Env::new(Nowhere).stat(".".into()).now_or_never().unwrap();
/// assert!(stat.is_err());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Nowhere {
    fn refuse<T>(path: &str) -> Result<T> {
        Err(Error::not_found(format!("reach {path:?}: this session has no directory")))
    }
}

impl ExecutionEnv for Nowhere {
    async fn stat(&self, path: String) -> Result<Stat> {
        Self::refuse(&path)
    }

    async fn read(&self, read: ReadFile) -> Result<Vec<u8>> {
        Self::refuse(&read.path)
    }

    async fn list(&self, list: ListDirectory) -> Result<Vec<DirectoryEntry>> {
        Self::refuse(&list.path)
    }
}
