//! The environment port: files and processes as a call may reach them.

mod file;
mod process;

use crate::{
    error::{Error, Result},
    port::port,
};

pub use file::{
    Access, DirectoryEntry, Expect, FileKind, FileVersion, ListDirectory, ReadFile, ResolvePath, Resolved,
    Stat, WriteFile, Written,
};
pub use process::{Exec, Exit};

port! {
    /// Where calls run: a directory of this machine, a sandbox, a container.
    ///
    /// Shape: paths are relative to the environment's root, parts separated by `/`; `.` is the root itself.
    /// Promise: no file outside the root is reachable, whatever a path or a link says; resolving a path and using what
    /// it names are one act, so that no link can be swapped in between. A process that was started ends with its call.
    /// Each promise is a function of `everturn-testkit`, which every environment runs.
    /// Errors: `NotFound`; `Invalid` for a path that leaves the root or names something of the wrong kind;
    /// `Conflict` for a file that is not as it was expected; `Unavailable` for everything the operating system refuses.
    /// The message names the path.
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

    /// Something around an environment: what it does not say goes through as it is.
    ///
    /// Shape: implementers name the environment and override the operations that they change;
    /// [`around`](Self::around) sees all of those that they do not.
    ///
    /// ```
    /// use everturn_core::{Error, Result, env::{Env, EnvLayer, Layered, Nowhere, WriteFile, Written}};
    ///
    /// struct ReadOnly(Env);
    /// impl EnvLayer for ReadOnly {
    ///     fn inner(&self) -> Env { self.0.clone() }
    ///     async fn write(&self, write: WriteFile) -> Result<Written> {
    ///         Err(Error::invalid(format!("write {:?}: nothing is written here", write.path)))
    ///     }
    /// }
    /// let env = Env::new(Layered(ReadOnly(Env::new(Nowhere))));
    /// ```
    layer EnvLayer;

    /// An environment with a layer around it.
    ///
    /// ```
    /// use everturn_core::env::{Env, EnvLayer, Layered, Nowhere};
    /// struct Plain(Env);
    /// impl EnvLayer for Plain { fn inner(&self) -> Env { self.0.clone() } }
    /// let env = Env::new(Layered(Plain(Env::new(Nowhere))));
    /// ```
    layered Layered;

    /// Where a path leads, as policy judges it. Nothing is read of what is there.
    ///
    /// Promise: what lies outside the root is told, so that it can be judged; no other operation touches it.
    /// Errors: `Invalid` for what leads nowhere that could be judged: links in a circle, a file used as a directory, a
    /// name behind a missing one that goes up again, control characters; what is neither file nor directory; and for
    /// [`Access::Write`] a directory, and all at or below `.git`, in any case of letters. A missing name is no error.
    async fn resolve(&self, path: ResolvePath) -> Result<Resolved>;
    /// What is at a path.
    async fn stat(&self, path: String) -> Result<Stat>;
    /// Bytes of a file.
    async fn read(&self, read: ReadFile) -> Result<Vec<u8>>;
    /// The names in a directory, sorted by bytes, a page at a time.
    async fn list(&self, list: ListDirectory) -> Result<Vec<DirectoryEntry>>;
    /// Creates or replaces a file, and the directories that are missing above it.
    ///
    /// Promise: a reader sees the file as it was or as it is to be, whole; its permissions stay. What was expected and
    /// what is done are one act among the writers of this process.
    /// Errors: `Conflict` when the file is not as it was expected, and it is left alone; those of
    /// [`resolve`](Self::resolve) for a write.
    async fn write(&self, write: WriteFile) -> Result<Written>;
    /// Removes a file; a link to it stays.
    ///
    /// Errors: those of [`write`](Self::write).
    async fn remove(&self, path: String) -> Result<()>;
    /// Runs a program, without a shell, until it ends.
    ///
    /// Promise: on cancellation, past the deadline and when the future is dropped, no process that the program started
    /// goes on and no zombie stays: all are asked to end, and those that do not are ended. When the program ends by
    /// itself, what it left running in its own group is ended too, and what else it left behind holds nobody up. Memory
    /// is bounded whatever it writes.
    /// Errors: `NotFound` for a program that does not exist, by its name. How the program ended is no error.
    async fn exec(&self, exec: Exec) -> Result<Exit>;
}

/// An environment without any files or programs: what a session without a root has.
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
    async fn resolve(&self, resolve: ResolvePath) -> Result<Resolved> {
        Self::refuse(&resolve.path)
    }

    async fn stat(&self, path: String) -> Result<Stat> {
        Self::refuse(&path)
    }

    async fn read(&self, read: ReadFile) -> Result<Vec<u8>> {
        Self::refuse(&read.path)
    }

    async fn list(&self, list: ListDirectory) -> Result<Vec<DirectoryEntry>> {
        Self::refuse(&list.path)
    }

    async fn write(&self, write: WriteFile) -> Result<Written> {
        Self::refuse(&write.path)
    }

    async fn remove(&self, path: String) -> Result<()> {
        Self::refuse(&path)
    }

    async fn exec(&self, exec: Exec) -> Result<Exit> {
        let program = exec.argv.first().map_or("", String::as_str);
        Err(Error::not_found(format!("run {program:?}: this session has no directory")))
    }
}
