//! Files of a directory, written and removed.

use std::{
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use everturn_core::env::{Expect, FileKind, FileVersion, Written};
use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Uid},
    io::Errno,
};

use super::{
    fault::Fault,
    root::{Root, STEP, check_write, kind_of_mode, stat},
    walk::{Found, May, Walk},
};

/// The locks of all files of this process, whatever directory they are reached through: each file has one of these.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// How many files were written so far, so that no two of this process are written under one name.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// What a new file may be to others, less what the process takes away.
const NEW: Mode = Mode::from_raw_mode(0o666);

/// What a file is to others until it gets the owner and the mode of the one that it replaces.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// What is wrong where a file is no longer there.
const GONE: &str = "it was expected as it had been, and it is gone";

/// Creates or replaces a file, in one act for who reads it.
pub(super) fn write(root: &Root, path: &str, bytes: &[u8], expect: &Expect) -> Result<Written, Fault> {
    let found = Walk::new(root, May { be_missing: true, be_outside: false }, path).run()?;
    check_write(&found)?;
    let made;
    let (directory, name) = match found.missing() {
        [] => (found.directory(root)?, found.name()),
        [.., _] if matches!(expect, Expect::Version(_)) => return Err(Fault::Changed(GONE)),
        [directories @ .., name] => {
            made = make(found.directory(root)?, directories)?;
            (made.as_ref().map_or(found.directory(root)?, OwnedFd::as_fd), name.as_os_str())
        }
    };
    let place = Spot { directory, name: name.to_owned() };
    let mode = if place.look(expect)?.is_some() { PRIVATE } else { NEW };
    let spare = Spare::create(directory, mode, bytes)?;
    let _lock = place.lock()?;
    let there = place.look(expect)?;
    if let Some(there) = &there {
        spare.take_owner_and_mode(there)?;
    }
    spare.move_to(&place)?;
    let version = stat(&rustix::fs::fstat(&spare.file)?).version;
    Ok(Written { version, replaced: there.map(|there| stat(&there).version) })
}

/// Removes a file.
pub(super) fn remove(root: &Root, path: &str) -> Result<(), Fault> {
    let found: Found = root.find(path)?;
    check_write(&found)?;
    let place = Spot { directory: found.directory(root)?, name: found.name().to_owned() };
    let _lock = place.lock()?;
    place.look(&Expect::Any)?.ok_or(Fault::Missing)?;
    rustix::fs::unlinkat(place.directory, &place.name, AtFlags::empty())?;
    Ok(())
}

/// Makes directories, one in the other, and opens the last; what somebody else makes meanwhile is taken unless it is a
/// link.
fn make(top: BorrowedFd<'_>, names: &[std::ffi::OsString]) -> Result<Option<OwnedFd>, Fault> {
    let mut made = None;
    for name in names {
        let above = made.as_ref().map_or(top, OwnedFd::as_fd);
        match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(fault) => return Err(fault.into()),
        }
        made = Some(rustix::fs::openat(above, name, STEP, Mode::empty())?);
    }
    Ok(made)
}

/// A name in a directory that is open.
struct Spot<'a> {
    directory: BorrowedFd<'a>,
    name: std::ffi::OsString,
}

impl Spot<'_> {
    /// Waits until no one else of this process writes this file.
    fn lock(&self) -> Result<MutexGuard<'static, ()>, Fault> {
        let directory = rustix::fs::fstat(self.directory)?;
        let mut hasher = DefaultHasher::new();
        // Where case means nothing two names are one file; a lock for more than one does no harm.
        (directory.st_dev, directory.st_ino, self.name.to_ascii_lowercase()).hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % LOCKS.len() as u64).expect("it is below 64");
        Ok(LOCKS[index].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The file that is here, if any, when it is what was expected.
    fn look(&self, expect: &Expect) -> Result<Option<rustix::fs::Stat>, Fault> {
        let there = match rustix::fs::statat(self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => Some(there),
            Err(Errno::NOENT) => None,
            Err(fault) => return Err(fault.into()),
        };
        if let Some(there) = &there {
            match kind_of_mode(there.st_mode) {
                FileKind::File => {}
                // It was no link when it was found.
                FileKind::Link => return Err(Fault::Links),
                kind => return Err(Fault::Kind(kind)),
            }
        }
        let version: Option<FileVersion> = there.as_ref().map(|there| stat(there).version);
        match (expect, version) {
            (Expect::Absent, Some(_)) => {
                Err(Fault::Changed("nothing was expected there, and there is a file"))
            }
            (Expect::Version(_), None) => Err(Fault::Changed(GONE)),
            (Expect::Version(expected), Some(version)) if *expected != version => {
                Err(Fault::Changed("it has changed since it was read; read it again"))
            }
            _ => Ok(there),
        }
    }
}

/// A file beside the one that it is going to replace. It goes away unless it does.
struct Spare<'a> {
    directory: BorrowedFd<'a>,
    name: String,
    file: File,
}

impl<'a> Spare<'a> {
    fn create(directory: BorrowedFd<'a>, mode: Mode, bytes: &[u8]) -> Result<Self, Fault> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut spare = loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".everturn-{}-{number}.tmp", std::process::id());
            match rustix::fs::openat(directory, &name, flags, mode) {
                Ok(file) => break Self { directory, name, file: file.into() },
                // What a process that was killed left behind.
                Err(Errno::EXIST) => {}
                Err(fault) => return Err(fault.into()),
            }
        };
        spare.file.write_all(bytes)?;
        Ok(spare)
    }

    /// Makes the file to others what that one was. Who may not give it to its owner keeps it.
    fn take_owner_and_mode(&self, there: &rustix::fs::Stat) -> Result<(), Fault> {
        let ours = rustix::fs::fstat(&self.file)?;
        if (ours.st_uid, ours.st_gid) != (there.st_uid, there.st_gid) {
            let owner = (Uid::from_raw(there.st_uid), Gid::from_raw(there.st_gid));
            let _ = rustix::fs::fchown(&self.file, Some(owner.0), Some(owner.1));
        }
        Ok(rustix::fs::fchmod(&self.file, Mode::from_raw_mode(there.st_mode & 0o777))?)
    }

    fn move_to(&self, place: &Spot<'_>) -> Result<(), Fault> {
        Ok(rustix::fs::renameat(self.directory, &self.name, place.directory, &place.name)?)
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        // Once it has replaced the other there is nothing under its name.
        let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}
