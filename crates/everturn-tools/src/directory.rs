//! A directory of this machine as an environment.

mod fault;
mod process;
mod root;
mod walk;
mod write;

use std::{collections::BTreeMap, fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc};

use everturn_core::{
    Error, Result,
    env::{
        DirectoryEntry, Exec, ExecutionEnv, Exit, FileKind, ListDirectory, ReadFile, ResolvePath, Resolved,
        Stat, WriteFile, Written,
    },
};
use rustix::fs::Dir;

use self::{
    fault::Fault,
    process::Program,
    root::{Root, kind_of},
};
use crate::text;

/// How long a path may be, in bytes; Linux takes no longer one.
const PATH_BYTES: usize = 4096;

/// Where no file system has bytes any more.
const END: u64 = i64::MAX as u64 - CHUNK as u64;

/// How much memory a read takes at once, however much is asked for.
const CHUNK: usize = 256 * 1024;

/// A directory of this machine, and nothing outside of it.
///
/// Shape: paths are relative to the directory; an absolute path is taken when it lies below. Links are followed as
/// long as they end inside. Names that are not UTF-8 are listed with U+FFFD and cannot be opened.
/// Promise: the file that is used is the file that was resolved (`openat2` on Linux; elsewhere, and for links that
/// need a closer look, a walk that opens each directory from the one above and follows no link unseen). Nothing
/// outside is opened; where a path leads there, its links are read to say so. Devices, pipes and sockets are never
/// opened. A file is written beside its place and then moved there.
///
/// A program runs as a process of this machine, with all that it may do: what keeps it inside is a matter of policy. It
/// leads a group of its own. What leaves that group is found by a variable that marks it (`EVERTURN_RUN`; on Linux). A
/// runtime of tokio with time and I/O is needed to run one.
/// Errors: those of [`ExecutionEnv`]; `Invalid` also for an empty path, one of more than 4,096 bytes, and control
/// characters or direction marks in it.
///
/// ```
/// use everturn_core::env::{Env, ReadFile};
/// use everturn_tools::Directory;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let project = tempfile::tempdir().unwrap();
/// std::fs::write(project.path().join("a.txt"), "hello").unwrap();
///
/// let env = Env::new(Directory::open(project.path()).unwrap());
/// let read = |path: &str| env.read(ReadFile { path: path.into(), offset: 0, limit: 100 });
/// assert_eq!(read("a.txt").await.unwrap(), b"hello");
/// assert!(read("../../etc/hostname").await.is_err());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Directory(Arc<Root>);

impl Directory {
    /// Opens the directory at `root`, which may itself be reached through links. It stays the same directory when
    /// it is renamed later.
    ///
    /// Errors: `NotFound` when there is nothing, `Invalid` when it is no directory, else `Unavailable`.
    pub fn open(root: &Path) -> Result<Self> {
        let opened = Root::open(root).map_err(|fault| {
            let message = format!("open directory {root:?}: {fault}");
            let error = match fault.kind() {
                io::ErrorKind::NotFound => Error::not_found(message),
                io::ErrorKind::NotADirectory => Error::invalid(message),
                _ => Error::unavailable(message),
            };
            error.caused_by(fault)
        })?;
        Ok(Self(Arc::new(opened)))
    }

    /// Does blocking work on a path that was checked, where blocking is allowed.
    async fn on<T: Send + 'static>(
        &self,
        act: &'static str,
        path: String,
        work: impl FnOnce(&Root, &str) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        check(act, &path)?;
        let root = self.0.clone();
        let shown = path.clone();
        let done = tokio::task::spawn_blocking(move || work(&root, &path)).await;
        done.map_err(|fault| Error::unavailable(format!("{act} {shown:?}: {fault}")).caused_by(fault))?
            .map_err(|fault| fault.error(act, &shown))
    }
}

impl ExecutionEnv for Directory {
    async fn resolve(&self, resolve: ResolvePath) -> Result<Resolved> {
        let ResolvePath { path, access } = resolve;
        self.on("resolve", path, move |root, path| root.resolve(path, access)).await
    }

    async fn stat(&self, path: String) -> Result<Stat> {
        self.on("look at", path, |root, path| root.stat(path)).await
    }

    async fn read(&self, read: ReadFile) -> Result<Vec<u8>> {
        let ReadFile { path, offset, limit } = read;
        self.on("read", path, move |root, path| {
            let file = File::from(root.open_kind(path, FileKind::File)?);
            bytes(&file, offset, limit).map_err(Fault::from)
        })
        .await
    }

    async fn list(&self, list: ListDirectory) -> Result<Vec<DirectoryEntry>> {
        let ListDirectory { path, after, limit } = list;
        self.on("list", path, move |root, path| {
            let directory = Dir::new(root.open_kind(path, FileKind::Directory)?)?;
            page(directory, after.as_deref(), limit)
        })
        .await
    }

    async fn write(&self, write: WriteFile) -> Result<Written> {
        let WriteFile { path, bytes, expect } = write;
        self.on("write", path, move |root, path| write::write(root, path, &bytes, &expect)).await
    }

    async fn remove(&self, path: String) -> Result<()> {
        self.on("remove", path, write::remove).await
    }

    async fn exec(&self, exec: Exec) -> Result<Exit> {
        Program::check(&exec)?;
        let directory = exec.directory.clone();
        let find = move |root: &Root, _: &str| Ok((Program::find(root, &exec), exec));
        let (program, exec) = self.on("run in", directory, find).await?;
        process::run(program?, exec).await
    }
}

/// Refuses text that is no path, before anything is opened.
fn check(act: &str, path: &str) -> Result<()> {
    let refused = |why: String| Err(Error::invalid(format!("{act} {:?}: {why}", text::head(path, 200))));
    if path.is_empty() {
        return refused("an empty path names nothing; the root is \".\"".into());
    }
    if path.len() > PATH_BYTES {
        return refused(format!("the path has {} bytes, at most {PATH_BYTES} are taken", path.len()));
    }
    if let Some(c) = path.chars().find(|c| text::is_refused(*c)) {
        return refused(format!("a path may not hold U+{:04X}", u32::from(c)));
    }
    Ok(())
}

fn bytes(file: &File, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        let start = bytes.len();
        let at = offset.saturating_add(start as u64);
        if at > END {
            break;
        }
        bytes.resize(start + CHUNK.min(limit - start), 0);
        let got = file.read_at(&mut bytes[start..], at);
        bytes.truncate(start + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => break,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            got => drop(got?),
        }
    }
    Ok(bytes)
}

/// The first names after `after`. The whole directory is read, but no more names are held than are wanted.
fn page(mut directory: Dir, after: Option<&str>, limit: usize) -> Result<Vec<DirectoryEntry>, Fault> {
    let mut names: BTreeMap<String, FileKind> = BTreeMap::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let raw = entry.file_name();
        let name = raw.to_string_lossy();
        let is_wanted = after.is_none_or(|after| *name > *after)
            && (names.len() < limit || names.last_key_value().is_some_and(|(last, _)| *name < **last));
        if matches!(raw.to_bytes(), b"." | b"..") || !is_wanted {
            continue;
        }
        let kind = kind_of(&directory, raw, entry.file_type());
        names.insert(name.into_owned(), kind);
        if names.len() > limit {
            names.pop_last();
        }
    }
    Ok(names.into_iter().map(|(name, kind)| DirectoryEntry { name, kind }).collect())
}
