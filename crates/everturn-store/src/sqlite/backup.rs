//! Backups: a copy of the whole store at one moment, which gets its name when it is whole.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use everturn_core::error::{Error, Result};
use rusqlite::{Connection, OpenFlags};

use super::{Sqlite, fault::Outcome, owner::owner_only, schema};

impl Sqlite {
    /// Copies the store while others read and write.
    pub(super) async fn back_up(&self, to: PathBuf) -> Result<()> {
        let copy = Copy { unnamed: beside(&to, &format!(".{}.new", self.owners.own())), to };
        copy.check_free()?;
        self.aside(move |db| copy.write(db)).await
    }
}

/// A file's name with an ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    path.with_file_name(name)
}

struct Copy {
    to: PathBuf,
    unnamed: PathBuf,
}

impl Copy {
    /// Nothing is overwritten; and a log of that name would be taken for the copy's.
    fn check_free(&self) -> Result<()> {
        for path in [&self.to, &beside(&self.to, "-wal"), &beside(&self.to, "-journal")] {
            if fs::symlink_metadata(path).is_ok() {
                let (to, found) = (self.to.display(), path.display());
                return Err(Error::conflict(format!("back up to {to}: {found} exists; name a new file")));
            }
        }
        Ok(())
    }

    fn write(&self, db: &Connection) -> Result<()> {
        let mut options = fs::OpenOptions::new();
        let file = owner_only(options.read(true).write(true).create_new(true)).open(&self.unnamed);
        let file = file.map_err(|fault| self.refuse(fault))?;
        let written =
            self.fill(db).map_err(|fault| fault.into_error(format_args!("back up to {}", self.to.display())));
        let written = written.and_then(|()| self.name(&file));
        let removed = fs::remove_file(&self.unnamed);
        written?;
        removed.and_then(|()| schema::sync_directory(&self.to)).map_err(|fault| self.refuse(fault))
    }

    /// Nobody who lives owns a session of the copy.
    fn fill(&self, db: &Connection) -> Outcome<()> {
        let Some(unnamed) = self.unnamed.to_str() else {
            return Err(Error::invalid("the name is not UTF-8; name another file").into());
        };
        db.execute("VACUUM INTO ?1", [unnamed])?;
        let copy = Connection::open_with_flags(unnamed, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        copy.execute_batch("UPDATE session SET owner = NULL, until = NULL WHERE owner IS NOT NULL")?;
        let _mode: String = copy.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        Ok(())
    }

    fn name(&self, file: &fs::File) -> Result<()> {
        let named = file.sync_all().and_then(|()| fs::hard_link(&self.unnamed, &self.to));
        named.map_err(|fault| self.refuse(fault))
    }

    fn refuse(&self, fault: io::Error) -> Error {
        let message = format!("back up to {}: {fault}", self.to.display());
        let error = match fault.kind() {
            io::ErrorKind::AlreadyExists => Error::conflict(message),
            io::ErrorKind::NotFound => Error::not_found(message),
            io::ErrorKind::StorageFull => Error::unavailable(message),
            _ => Error::invalid(message),
        };
        error.caused_by(fault)
    }
}
