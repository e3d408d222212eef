//! Owners' locks: a file per open store, locked while its process lives. The kernel frees it at death.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use everturn_core::{
    error::{Error, Result},
    id::OwnerId,
};

/// The directory of the owners of one file, and our own lock in it.
pub(super) struct Owners {
    own: OwnerId,
    directory: PathBuf,
    mine: PathBuf,
    _lock: File,
}

impl Owners {
    /// Stands for `owner` until it is dropped.
    ///
    /// Errors: `Conflict` when the owner's store is open already.
    pub(super) fn join(store: &Path, owner: OwnerId) -> Result<Self> {
        let directory = directory(store);
        let mine = directory.join(owner.to_string());
        let refuse = |fault: io::Error| {
            let message = format!("open store {}: lock {}: {fault}", store.display(), mine.display());
            Error::invalid(message).caused_by(fault)
        };
        create_directory(&directory).map_err(refuse)?;
        // The file gets its name when it is locked: who sees an owner's file unlocked may take the owner for dead.
        let unnamed = directory.join(format!(".{owner}"));
        let lock = new_file(&unnamed).map_err(refuse)?;
        let locked = lock.try_lock().map_err(io::Error::from).and_then(|()| name(&unnamed, &mine));
        let removed = fs::remove_file(&unnamed);
        match locked {
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Err(Error::conflict(format!(
                "open store {}: owner {owner} has it open already; each open store takes an owner id of its own",
                store.display()
            ))),
            locked => locked.and(removed).map_err(refuse),
        }?;
        Ok(Self { own: owner, directory, mine, _lock: lock })
    }

    /// Whom this store was opened for.
    pub(super) fn own(&self) -> OwnerId {
        self.own
    }

    /// Whether an owner's process has ended without giving up its leases. Its file goes.
    pub(super) fn is_dead(&self, owner: OwnerId) -> bool {
        remove_if_dead(&self.directory.join(owner.to_string()))
    }

    /// Another owner whose process lives, if there is one.
    pub(super) fn other(&self) -> Option<OwnerId> {
        let files = fs::read_dir(&self.directory).ok()?.flatten();
        let mut others =
            files.filter_map(|file| owner_of(&file.file_name())).filter(|owner| *owner != self.own);
        others.find(|owner| !self.is_dead(*owner))
    }

    /// Where a file of ours may be prepared before it gets its own name.
    pub(super) fn scratch(&self) -> PathBuf {
        self.mine.with_extension("new")
    }

    /// Removes what dead owners left behind.
    pub(super) fn sweep(&self) {
        // Files that cannot be listed now are swept another time.
        let Ok(files) = fs::read_dir(&self.directory) else {
            return;
        };
        for file in files.flatten() {
            let name = file.file_name();
            let Some(owner) = owner_of(&name) else { continue };
            let lock = self.directory.join(owner.to_string());
            if lock != self.mine && remove_if_dead(&lock) && file.path() != lock {
                let _gone = fs::remove_file(file.path());
            }
        }
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        // A file that stays is swept by the next who opens the store, for its lock is free.
        let _kept = fs::remove_file(&self.mine);
    }
}

/// Where the owners of a store have their files: beside it.
fn directory(store: &Path) -> PathBuf {
    let mut name = store.file_name().map(OsStr::to_os_string).unwrap_or_default();
    name.push(".owners");
    store.with_file_name(name)
}

/// The owner that a file belongs to: `<owner>`, or `<owner>.new` and the like.
fn owner_of(name: &OsStr) -> Option<OwnerId> {
    let name = name.to_str()?;
    name.split('.').next()?.parse().ok()
}

fn remove_if_dead(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => match file.try_lock() {
            Ok(()) => fs::remove_file(path).is_ok(),
            // Locked: alive. Not lockable at all: nothing is known, and the lease decides.
            Err(_) => false,
        },
        Err(fault) => fault.kind() == io::ErrorKind::NotFound,
    }
}

/// Gives a locked file its name. A file of that name that nobody locks was left by an earlier life of the same owner.
fn name(unnamed: &Path, mine: &Path) -> io::Result<()> {
    match fs::hard_link(unnamed, mine) {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists && remove_if_dead(mine) => {
            fs::hard_link(unnamed, mine)
        }
        linked => linked,
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    let _leftover = fs::remove_file(path);
    owner_only(OpenOptions::new().read(true).write(true).create_new(true)).open(path)
}

#[cfg(unix)]
pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}
