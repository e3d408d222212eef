//! Which file a program is, where it runs, and what it is given to know.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    os::fd::{AsRawFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use everturn_core::{
    Error, Result,
    env::{Exec, FileKind},
};
use rustix::fs::Access;

use super::super::{fault::Fault, root::Root};

/// The variables that a program gets as the host has them.
const KEPT: &[&str] = &["PATH", "HOME", "USER", "LANG", "TMPDIR"];

/// A program that was looked up.
pub(in super::super) struct Program {
    /// What is run.
    pub(super) file: PathBuf,
    /// The directory in which it runs, as the new process reaches it.
    pub(super) place: PathBuf,
    /// All variables that it is given.
    pub(super) variables: BTreeMap<OsString, OsString>,
    /// Keeps the place what it is until the process has gone there.
    _directory: OwnedFd,
}

impl Program {
    /// Finds the program and the directory of a run.
    pub(in super::super) fn find(root: &Root, exec: &Exec) -> Result<Self> {
        let at = &exec.directory;
        let opened = root.open_kind(at, FileKind::Directory);
        let directory = opened.map_err(|fault: Fault| fault.error("run in", at))?;
        let variables = variables(exec);
        let file = file(&directory, &exec.argv[0], variables.get(OsStr::new("PATH")))?;
        let place = place(root, at, &directory).map_err(|fault| fault.error("run in", at))?;
        Ok(Self { file, place, variables, _directory: directory })
    }

    /// Refuses what no process can be started with.
    pub(in super::super) fn check(exec: &Exec) -> Result<()> {
        let program = exec.argv.first().map_or("", String::as_str);
        let refused = |why: &str| Err(Error::invalid(format!("run {program:?}: {why}")));
        if program.is_empty() {
            return refused("no program is named");
        }
        if exec.argv.iter().any(|argument| argument.contains('\0')) {
            return refused("an argument holds NUL");
        }
        let is_wrong = |(name, value): (&String, &String)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        match exec.variables.iter().find(|variable| is_wrong(*variable)) {
            Some((name, _)) => refused(&format!("{name:?} is no variable that a process can have")),
            None => Ok(()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment port is where a process gets what the machine has"
)]
fn variables(exec: &Exec) -> BTreeMap<OsString, OsString> {
    let is_kept =
        |name: &OsStr| name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with("LC_"));
    let mut variables: BTreeMap<_, _> = env::vars_os().filter(|(name, _)| is_kept(name)).collect();
    variables.insert("TERM".into(), "dumb".into());
    variables.extend(exec.variables.iter().map(|(name, value)| (name.into(), value.into())));
    variables
}

/// The file of a program: where it has a `/`, seen from the directory; else the first of its name on the path.
fn file(directory: &OwnedFd, program: &str, path: Option<&OsString>) -> Result<PathBuf> {
    let missing = |what: &str| Err(Error::not_found(format!("run {program:?}: {what}")));
    if program.contains('/') {
        // The new process is in the directory when it looks for it.
        return match rustix::fs::accessat(directory, program, Access::EXISTS, rustix::fs::AtFlags::empty()) {
            Ok(()) => Ok(program.into()),
            Err(_) => missing("no such file"),
        };
    }
    let directories = path.map_or(&b""[..], |path| path.as_bytes()).split(|byte| *byte == b':');
    let absolute = directories.filter(|directory| directory.starts_with(b"/"));
    let mut files = absolute.map(|directory| PathBuf::from(OsStr::from_bytes(directory)).join(program));
    let is_program = |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
    files.find(is_program).map_or_else(|| missing("no such program on PATH"), Ok)
}

/// The directory by a name that leads to the one that was opened, whatever is renamed meanwhile.
#[cfg(target_os = "linux")]
fn place(_: &Root, _: &str, directory: &OwnedFd) -> Result<PathBuf, Fault> {
    Ok(format!("/proc/self/fd/{}", directory.as_raw_fd()).into())
}

#[cfg(not(target_os = "linux"))]
fn place(root: &Root, path: &str, _: &OwnedFd) -> Result<PathBuf, Fault> {
    let found = root.find(path)?;
    let mut place = super::super::walk::absolute(&root.spine);
    place.extend(found.names());
    Ok(place)
}
