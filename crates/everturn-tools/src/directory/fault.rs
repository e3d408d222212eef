//! Why a path does not lead to what was wanted.

use std::{fmt, io};

use everturn_core::{Error, env::FileKind};
use rustix::io::Errno;

/// Why a path does not lead to what was wanted.
pub(super) enum Fault {
    Leaves,
    Missing,
    LeavesMissing,
    Dangling,
    Links,
    KernelLink,
    NotDirectory,
    Long,
    Name,
    Git,
    Changed(&'static str),
    Kind(FileKind),
    System(io::Error),
}

impl Fault {
    /// Refuses what is not of the kind that is wanted.
    pub(super) fn unless(wanted: FileKind, found: FileKind) -> Result<(), Self> {
        if wanted == found { Ok(()) } else { Err(Self::Kind(found)) }
    }

    /// The error for a person who did `act` on `path`.
    pub(super) fn error(self, act: &str, path: &str) -> Error {
        let message = format!("{act} {path:?}: {self}");
        match self {
            Self::Missing | Self::Dangling => Error::not_found(message),
            Self::Changed(_) => Error::conflict(message),
            Self::System(fault) => Error::unavailable(message).caused_by(fault),
            _ => Error::invalid(message),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaves => "it leaves the root directory, and nothing outside may be reached",
            Self::Missing => "no such file or directory",
            Self::LeavesMissing => "a name in it does not exist, so \"..\" behind it leads nowhere",
            Self::Dangling => "a link in it leads to nothing",
            Self::Links => "too many links, or links in a circle",
            Self::KernelLink => "it leads through a link of the kernel, and those are not followed",
            Self::NotDirectory => "a file stands where a directory should be",
            Self::Long => "a name in it is longer than the system takes",
            Self::Name => "a link in it leads to a name that cannot be shown as it is",
            Self::Git => "nothing is written at or below .git",
            Self::Changed(what) => what,
            Self::Kind(FileKind::Directory) => "it is a directory",
            Self::Kind(FileKind::File) => "it is a file, not a directory",
            Self::Kind(_) => "it is a device, a pipe or a socket, and those are never opened",
            Self::System(fault) => return fault.fmt(f),
        })
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::LOOP => Self::Links,
            Errno::NAMETOOLONG => Self::Long,
            errno => Self::System(errno.into()),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(fault: io::Error) -> Self {
        Self::System(fault)
    }
}
