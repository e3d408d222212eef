//! The root of a directory, and the only ways to what is beneath it.

use std::{
    ffi::{CStr, OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use everturn_core::env::{Access, FileKind, FileVersion, Resolved, Stat};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

use super::{
    fault::Fault,
    walk::{Found, May, Walk},
};
use crate::text;

/// Opens a directory only to open what is in it: no right to list it is needed where the system knows the difference.
#[cfg(target_os = "linux")]
pub(super) const STEP: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(super) const STEP: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens for reading. Never waits for the other end of a pipe, never makes a terminal ours.
const READ: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A directory held open, with the names by which links may lead back into it.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) directory: OwnedFd,
    /// Where it is, without links: the names from the root of the machine down.
    pub(super) spine: Vec<OsString>,
    /// How it may be written: where it is, and how it was called when it was opened.
    spellings: [PathBuf; 2],
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let place = fs::canonicalize(path)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            directory: rustix::fs::open(&place, flags, Mode::empty())?,
            spine: place.iter().skip(1).map(OsStr::to_owned).collect(),
            spellings: [place, std::path::absolute(path)?],
        })
    }

    /// What is at a path, links followed; it is not opened.
    pub(super) fn stat(&self, path: &str) -> Result<Stat, Fault> {
        #[cfg(target_os = "linux")]
        if let Ok(place) = self.open_at_once(path, OFlags::PATH | OFlags::CLOEXEC) {
            return Ok(stat(&rustix::fs::fstat(place)?));
        }
        Ok(stat(&self.find(path)?.stat(self)?))
    }

    /// Opens what is at a path for reading, if it is of the kind that is wanted.
    pub(super) fn open_kind(&self, path: &str, wanted: FileKind) -> Result<OwnedFd, Fault> {
        // To open a device can do something, so its kind is asked for first; and asked again of what was opened, as
        // another file may stand there by then.
        Fault::unless(wanted, self.stat(path)?.kind)?;
        let opened = self.open_beneath(path)?;
        Fault::unless(wanted, stat(&rustix::fs::fstat(&opened)?).kind)?;
        Ok(opened)
    }

    fn open_beneath(&self, path: &str) -> Result<OwnedFd, Fault> {
        #[cfg(target_os = "linux")]
        if let Ok(opened) = self.open_at_once(path, READ) {
            return Ok(opened);
        }
        let found = self.find(path)?;
        let flags = READ | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(found.directory(self)?, found.name(), flags, Mode::empty())?)
    }

    /// Lets the kernel resolve beneath the root. It refuses all that leaves, even where it would come back, and
    /// some kernels do not know the call: the walk has the last word on every refusal.
    #[cfg(target_os = "linux")]
    fn open_at_once(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        use rustix::fs::ResolveFlags;
        let below = if path.starts_with('/') {
            self.below(path.as_bytes()).ok_or(Errno::XDEV)?
        } else {
            path.as_bytes()
        };
        let below = if below.is_empty() { b"." } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.directory, below, flags, Mode::empty(), resolve)
    }

    /// Finds what is at a path, name by name.
    pub(super) fn find(&self, path: &str) -> Result<Found, Fault> {
        Walk::new(self, May::default(), path).run()
    }

    /// Where a path leads, as policy judges it.
    pub(super) fn resolve(&self, path: &str, access: Access) -> Result<Resolved, Fault> {
        let found = Walk::new(self, May { be_missing: true, be_outside: true }, path).run()?;
        let path = shown(&found)?;
        if access == Access::Write {
            check_write(&found)?;
        }
        if !found.missing().is_empty() {
            return Ok(Resolved { path, kind: None, links: 0 });
        }
        let there = found.stat(self)?;
        let kind = kind_of_mode(there.st_mode);
        if kind != FileKind::File && (kind != FileKind::Directory || access == Access::Write) {
            return Err(Fault::Kind(kind));
        }
        let links = if kind == FileKind::File { number(there.st_nlink) } else { 0 };
        Ok(Resolved { path, kind: Some(kind), links })
    }

    /// What is left of an absolute path below the root, without a slash in front.
    pub(super) fn below<'a>(&self, absolute: &'a [u8]) -> Option<&'a [u8]> {
        self.spellings.iter().find_map(|spelling| {
            let spelling = spelling.as_os_str().as_bytes();
            let rest = absolute.strip_prefix(spelling.strip_suffix(b"/").unwrap_or(spelling))?;
            match rest {
                [] => Some(rest),
                [b'/', ..] => Some(&rest[rest.iter().take_while(|byte| **byte == b'/').count()..]),
                _ => None,
            }
        })
    }

    /// Opens the directory of these names again, none of which may be a link.
    pub(super) fn reopen(&self, names: &[OsString]) -> Result<Option<OwnedFd>, Fault> {
        let mut directory = None;
        for name in names {
            let above = directory.as_ref().map_or(self.directory.as_fd(), OwnedFd::as_fd);
            directory = Some(rustix::fs::openat(above, name, STEP, Mode::empty())?);
        }
        Ok(directory)
    }
}

/// Refuses what is never written: a name that the path calls a directory, and all at or below `.git`.
pub(super) fn check_write(found: &Found) -> Result<(), Fault> {
    if found.is_directory {
        return Err(Fault::Kind(FileKind::Directory));
    }
    if found.names().any(|name| name.eq_ignore_ascii_case(".git")) {
        return Err(Fault::Git);
    }
    Ok(())
}

/// A path that was found, as it may be shown.
fn shown(found: &Found) -> Result<String, Fault> {
    let names: Option<Vec<_>> = found.names().map(OsStr::to_str).collect();
    let path = names.ok_or(Fault::Name)?.join("/");
    if path.contains(text::is_refused) {
        return Err(Fault::Name);
    }
    Ok(match path.as_str() {
        "" if !found.is_outside() => ".".into(),
        _ if !found.is_outside() => path,
        _ => format!("/{path}"),
    })
}

/// The kind of a name in a listing; asked of the file where the listing does not say.
pub(super) fn kind_of(directory: &Dir, name: &CStr, listed: FileType) -> FileKind {
    if listed != FileType::Unknown {
        return kind(listed);
    }
    let found = directory.fd().and_then(|fd| rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW));
    found.map_or(FileKind::Other, |found| stat(&found).kind)
}

/// The kind of what has this mode.
pub(super) fn kind_of_mode(mode: rustix::fs::RawMode) -> FileKind {
    kind(FileType::from_raw_mode(mode))
}

fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

/// What the system says of a file, in our words.
pub(super) fn stat(found: &rustix::fs::Stat) -> Stat {
    let kind = kind_of_mode(found.st_mode);
    let size = if kind == FileKind::File { number(found.st_size) } else { 0 };
    let (seconds, nanoseconds) = (found.st_mtime, found.st_mtime_nsec);
    let version = FileVersion::new(format!("{size}-{seconds}.{nanoseconds:09}-{}", found.st_ino));
    Stat { kind, size, version }
}

/// A number of the system, whose width is not the same on each.
fn number(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}
