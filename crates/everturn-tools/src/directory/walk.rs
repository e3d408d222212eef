//! A path being resolved, name by name.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use everturn_core::env::FileKind;
use rustix::{
    fs::{AtFlags, Mode},
    io::Errno,
};

use super::{
    fault::Fault,
    root::{Root, STEP, kind_of_mode},
};

/// How many links a path may lead through, as in the kernel.
const LINKS: u32 = 40;

/// How long a name may be, in bytes.
const NAME_BYTES: usize = 255;

/// What a walk may find besides what is there.
#[derive(Clone, Copy, Default)]
pub(super) struct May {
    /// Whether names at the end may be missing.
    pub(super) be_missing: bool,
    /// Whether it may end outside the root. Nothing is opened there: only its links are read.
    pub(super) be_outside: bool,
}

/// What a walk found.
pub(super) struct Found {
    place: Place,
    /// What is in that place, and no link; none: the place itself.
    name: Option<OsString>,
    /// The names behind it that do not exist.
    missing: Vec<OsString>,
    /// Whether the path said that the last of them is a directory.
    pub(super) is_directory: bool,
}

/// Where a walk is.
enum Place {
    /// Outside: the names from the top of the machine, none of which is a link.
    Outside(Vec<OsString>),
    /// In a directory beneath the root: its names from there, and the directory unless it is the root itself.
    Beneath(Vec<OsString>, Option<OwnedFd>),
}

impl Found {
    /// The directory in which the name is, or the first of those that are missing.
    pub(super) fn directory<'a>(&'a self, root: &'a Root) -> Result<BorrowedFd<'a>, Fault> {
        match &self.place {
            Place::Beneath(_, directory) => Ok(directory.as_ref().unwrap_or(&root.directory).as_fd()),
            Place::Outside(_) => Err(Fault::Leaves),
        }
    }

    /// The name in that directory.
    pub(super) fn name(&self) -> &OsStr {
        self.name.as_deref().unwrap_or(OsStr::new("."))
    }

    pub(super) fn missing(&self) -> &[OsString] {
        &self.missing
    }

    pub(super) fn is_outside(&self) -> bool {
        matches!(self.place, Place::Outside(_))
    }

    /// All names, from the root or from the top of the machine.
    pub(super) fn names(&self) -> impl Iterator<Item = &OsStr> {
        let (Place::Outside(above) | Place::Beneath(above, _)) = &self.place;
        above.iter().chain(&self.name).chain(&self.missing).map(OsString::as_os_str)
    }

    /// What is there, without following a link.
    pub(super) fn stat(&self, root: &Root) -> Result<rustix::fs::Stat, Fault> {
        let found = match &self.place {
            Place::Outside(names) => rustix::fs::lstat(absolute(names))?,
            Place::Beneath(..) => {
                rustix::fs::statat(self.directory(root)?, self.name(), AtFlags::SYMLINK_NOFOLLOW)?
            }
        };
        // It was no link when it was found.
        if kind_of_mode(found.st_mode) == FileKind::Link { Err(Fault::Links) } else { Ok(found) }
    }
}

/// A path being resolved: directories are opened one from the other, so that nobody can swap one for a link.
pub(super) struct Walk<'a> {
    root: &'a Root,
    may: May,
    place: Place,
    missing: Vec<OsString>,
    is_directory: bool,
    /// The names still to go, the next one last.
    rest: Vec<OsString>,
    /// How many links were followed, and how many names were to go behind the last one.
    links: u32,
    behind_link: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Root, may: May, path: &str) -> Self {
        let mut walk = Self {
            root,
            may,
            place: top(),
            missing: Vec::new(),
            is_directory: false,
            rest: Vec::new(),
            links: 0,
            behind_link: 0,
        };
        walk.lead(path.as_bytes());
        walk
    }

    /// Puts the names of a path, or of a link's target, in front of those still to go.
    fn lead(&mut self, path: &[u8]) {
        let mut path = path;
        if path.starts_with(b"/") {
            let below = self.root.below(path);
            self.place = if below.is_some() { top() } else { Place::Outside(Vec::new()) };
            path = below.unwrap_or(path);
        }
        let names = path.split(|byte| *byte == b'/').rev();
        self.rest.extend(names.map(|name| OsStr::from_bytes(name).to_owned()));
    }

    pub(super) fn run(mut self) -> Result<Found, Fault> {
        while let Some(name) = self.rest.pop() {
            let is_missing = !self.missing.is_empty();
            match name.as_bytes() {
                // Also what is behind a slash at the end: the name in front of it is then a directory's.
                b"" | b"." => self.is_directory = is_missing && self.rest.is_empty(),
                b".." if is_missing => return Err(Fault::LeavesMissing),
                b".." => self.up()?,
                long if is_missing && long.len() > NAME_BYTES => return Err(Fault::Long),
                _ if is_missing => self.missing.push(name),
                _ => {
                    if let Some(found) = self.down(name)? {
                        return Ok(found);
                    }
                }
            }
        }
        let Self { place, missing, is_directory, may, .. } = self;
        let found = Found { place, name: None, missing, is_directory };
        if found.is_outside() && !may.be_outside { Err(Fault::Leaves) } else { Ok(found) }
    }

    fn up(&mut self) -> Result<(), Fault> {
        match &mut self.place {
            Place::Outside(names) => drop(names.pop()),
            Place::Beneath(names, directory) => {
                if names.pop().is_some() {
                    *directory = self.root.reopen(names)?;
                } else if let Some((_, above)) = self.root.spine.split_last() {
                    self.place = Place::Outside(above.to_vec());
                }
            }
        }
        Ok(())
    }

    fn down(&mut self, name: OsString) -> Result<Option<Found>, Fault> {
        match &mut self.place {
            Place::Outside(_) => self.down_outside(name).map(|()| None),
            Place::Beneath(names, directory) => {
                let above = directory.as_ref().unwrap_or(&self.root.directory);
                match rustix::fs::readlinkat(above, &name, Vec::new()) {
                    Ok(target) => {
                        if has_kernel_links(above.as_fd())? {
                            return Err(Fault::KernelLink);
                        }
                        self.follow(target.as_bytes())?;
                    }
                    // No link.
                    Err(Errno::INVAL) if self.rest.is_empty() => {
                        let place = std::mem::replace(&mut self.place, top());
                        let (name, missing) = (Some(name), Vec::new());
                        return Ok(Some(Found { place, name, missing, is_directory: false }));
                    }
                    Err(Errno::INVAL) => {
                        *directory = Some(rustix::fs::openat(above, &name, STEP, Mode::empty())?);
                        names.push(name);
                    }
                    Err(fault) => self.fail(fault, name)?,
                }
                Ok(None)
            }
        }
    }

    /// Goes on outside the root. The names that lead to the root are known and not looked at; no others are taken where
    /// the walk must not end outside.
    fn down_outside(&mut self, name: OsString) -> Result<(), Fault> {
        let spine = &self.root.spine;
        let Place::Outside(names) = &mut self.place else {
            return Ok(());
        };
        names.push(name);
        if spine.starts_with(names) {
            if names.len() == spine.len() {
                self.place = top();
            }
            return Ok(());
        }
        if !self.may.be_outside {
            return Err(Fault::Leaves);
        }
        let here = absolute(names);
        match rustix::fs::readlink(&here, Vec::new()) {
            Ok(target) => {
                names.pop();
                let above = rustix::fs::open(absolute(names), STEP, Mode::empty())?;
                if has_kernel_links(above.as_fd())? {
                    return Err(Fault::KernelLink);
                }
                self.follow(target.as_bytes())
            }
            Err(Errno::INVAL) if self.rest.is_empty() => Ok(()),
            Err(Errno::INVAL) => {
                let kind = kind_of_mode(rustix::fs::lstat(here)?.st_mode);
                if kind == FileKind::Directory { Ok(()) } else { Err(Fault::NotDirectory) }
            }
            Err(fault) => {
                let name = names.pop().unwrap_or_default();
                self.fail(fault, name)
            }
        }
    }

    /// What could not be looked at may be missing where missing names are taken.
    fn fail(&mut self, fault: Errno, name: OsString) -> Result<(), Fault> {
        match fault {
            Errno::NOENT if self.may.be_missing => {
                self.missing.push(name);
                Ok(())
            }
            Errno::NOENT if self.links > 0 && self.rest.len() >= self.behind_link => Err(Fault::Dangling),
            fault => Err(fault.into()),
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

fn top() -> Place {
    Place::Beneath(Vec::new(), None)
}

/// The path of these names from the top of the machine.
pub(super) fn absolute(names: &[OsString]) -> PathBuf {
    let mut path = PathBuf::from("/");
    path.extend(names);
    path
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
