//! The root of a directory, and the only ways to what is beneath it.

use std::{
    ffi::{CStr, OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use everturn_core::env::{FileKind, Stat};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::fault::Fault;

/// How many links a path may lead through, as in the kernel.
const LINKS: u32 = 40;

/// Opens a directory only to open what is in it: no right to list it is needed where the system knows the difference.
#[cfg(target_os = "linux")]
const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens for reading. Never waits for the other end of a pipe, never makes a terminal ours.
const READ: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A directory held open, with the names by which links may lead back into it.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
    /// Where it is, without links: the names from the root of the machine down.
    spine: Vec<OsString>,
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
        self.find(path)?.stat(self)
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
        Ok(rustix::fs::openat(found.directory(self), &found.name, flags, Mode::empty())?)
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
    fn find(&self, path: &str) -> Result<Found, Fault> {
        let mut walk = Walk { root: self, place: self.top(), rest: Vec::new(), links: 0, behind_link: 0 };
        walk.lead(path.as_bytes());
        walk.run()
    }

    /// What is left of an absolute path below the root, without a slash in front.
    fn below<'a>(&self, absolute: &'a [u8]) -> Option<&'a [u8]> {
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

    fn top(&self) -> Place {
        Place::Beneath(Vec::new(), None)
    }

    /// Opens the directory of these names again, none of which may be a link.
    fn reopen(&self, names: &[OsString]) -> Result<Option<OwnedFd>, Fault> {
        let mut directory = None;
        for name in names {
            let above = directory.as_ref().map_or(self.directory.as_fd(), OwnedFd::as_fd);
            directory = Some(rustix::fs::openat(above, name, STEP, Mode::empty())?);
        }
        Ok(directory)
    }
}

/// A directory that is open, and a name in it that is no link.
struct Found {
    /// None: the root.
    directory: Option<OwnedFd>,
    name: OsString,
}

impl Found {
    fn directory<'a>(&'a self, root: &'a Root) -> BorrowedFd<'a> {
        self.directory.as_ref().unwrap_or(&root.directory).as_fd()
    }

    fn stat(&self, root: &Root) -> Result<Stat, Fault> {
        let found = stat(&rustix::fs::statat(self.directory(root), &self.name, AtFlags::SYMLINK_NOFOLLOW)?);
        // It was no link when it was found.
        if found.kind == FileKind::Link { Err(Fault::Links) } else { Ok(found) }
    }
}

/// Where a walk is.
enum Place {
    /// Above the root, so many names down its spine. Nothing is opened there; the only way on is to the root.
    Above(usize),
    /// In a directory beneath the root: its names from there, and the directory unless it is the root itself.
    Beneath(Vec<OsString>, Option<OwnedFd>),
}

/// A path being resolved: directories are opened one from the other, so that nobody can swap one for a link.
struct Walk<'a> {
    root: &'a Root,
    place: Place,
    /// The names still to go, the next one last.
    rest: Vec<OsString>,
    /// How many links were followed, and how many names were to go behind the last one.
    links: u32,
    behind_link: usize,
}

impl Walk<'_> {
    /// Puts the names of a path, or of a link's target, in front of those still to go.
    fn lead(&mut self, path: &[u8]) {
        let mut path = path;
        if path.starts_with(b"/") {
            let below = self.root.below(path);
            self.place = if below.is_some() { self.root.top() } else { Place::Above(0) };
            path = below.unwrap_or(path);
        }
        let names = path.split(|byte| *byte == b'/').rev();
        self.rest.extend(names.map(|name| OsStr::from_bytes(name).to_owned()));
    }

    fn run(mut self) -> Result<Found, Fault> {
        while let Some(name) = self.rest.pop() {
            match name.as_bytes() {
                // Also what is behind a slash at the end: the name in front of it is then a directory's.
                b"" | b"." => {}
                b".." => self.up()?,
                _ => {
                    if let Some(found) = self.down(name)? {
                        return Ok(found);
                    }
                }
            }
        }
        match self.place {
            Place::Beneath(_, directory) => Ok(Found { directory, name: ".".into() }),
            Place::Above(_) => Err(Fault::Leaves),
        }
    }

    fn up(&mut self) -> Result<(), Fault> {
        match &mut self.place {
            Place::Above(depth) => *depth = depth.saturating_sub(1),
            Place::Beneath(names, directory) => {
                if names.pop().is_some() {
                    *directory = self.root.reopen(names)?;
                } else if let Some(depth) = self.root.spine.len().checked_sub(1) {
                    self.place = Place::Above(depth);
                }
            }
        }
        Ok(())
    }

    fn down(&mut self, name: OsString) -> Result<Option<Found>, Fault> {
        let root = self.root;
        match &mut self.place {
            Place::Above(depth) => {
                if root.spine.get(*depth) != Some(&name) {
                    return Err(Fault::Leaves);
                }
                *depth += 1;
                if *depth == root.spine.len() {
                    self.place = root.top();
                }
                Ok(None)
            }
            Place::Beneath(names, directory) => {
                let above = directory.as_ref().unwrap_or(&root.directory);
                match rustix::fs::readlinkat(above, &name, Vec::new()) {
                    Ok(target) => {
                        if has_kernel_links(above.as_fd())? {
                            return Err(Fault::KernelLink);
                        }
                        self.follow(target.as_bytes())?;
                    }
                    // No link.
                    Err(Errno::INVAL) if self.rest.is_empty() => {
                        return Ok(Some(Found { directory: directory.take(), name }));
                    }
                    Err(Errno::INVAL) => {
                        *directory = Some(rustix::fs::openat(above, &name, STEP, Mode::empty())?);
                        names.push(name);
                    }
                    Err(Errno::NOENT) if self.links > 0 && self.rest.len() >= self.behind_link => {
                        return Err(Fault::Dangling);
                    }
                    Err(fault) => return Err(fault.into()),
                }
                Ok(None)
            }
        }
    }

    fn follow(&mut self, target: &[u8]) -> Result<(), Fault> {
        self.links += 1;
        if self.links > LINKS {
            return Err(Fault::Links);
        }
        self.behind_link = self.rest.len();
        self.lead(target);
        Ok(())
    }
}

/// Whether links in this directory are the kernel's: those of `/proc` do not lead where their text says.
#[cfg(target_os = "linux")]
fn has_kernel_links(directory: BorrowedFd<'_>) -> Result<bool, Fault> {
    Ok(rustix::fs::fstatfs(directory)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn has_kernel_links(_: BorrowedFd<'_>) -> Result<bool, Fault> {
    Ok(false)
}

/// The kind of a name in a listing; asked of the file where the listing does not say.
pub(super) fn kind_of(directory: &Dir, name: &CStr, listed: FileType) -> FileKind {
    if listed != FileType::Unknown {
        return kind(listed);
    }
    let found = directory.fd().and_then(|fd| rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW));
    found.map_or(FileKind::Other, |found| stat(&found).kind)
}

fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn stat(found: &rustix::fs::Stat) -> Stat {
    let kind = kind(FileType::from_raw_mode(found.st_mode));
    let size = if kind == FileKind::File { u64::try_from(found.st_size).unwrap_or(0) } else { 0 };
    Stat { kind, size }
}
