//! Connections to the file, each set up for its part.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use everturn_core::error::{Error, Result};
use rusqlite::{Connection, FileControl, OpenFlags, config::DbConfig};

use super::{
    fault::{Fault, Outcome},
    schema::PAGE_SIZE,
};
use crate::Options;

/// Where the file is, and how connections to it behave.
pub(super) struct Place {
    path: PathBuf,
    patience: Duration,
    pages_max: Option<u64>,
    seed: u32,
}

impl Place {
    /// The place of an existing file.
    pub(super) fn new(path: &Path, options: &Options) -> Result<Self> {
        // An absolute path is never taken for one of SQLite's own URIs.
        let absolute = std::fs::canonicalize(path).map_err(|fault| {
            Error::invalid(format!("open store {}: {fault}", path.display())).caused_by(fault)
        })?;
        Ok(Self {
            path: absolute,
            patience: options.patience,
            pages_max: options.bytes_max.map(|bytes| bytes / u64::from(PAGE_SIZE)),
            seed: crc32fast::hash(options.owner.to_string().as_bytes()) | 1,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A connection that commits.
    pub(super) fn open_writer(&self) -> Result<Connection> {
        let set_up = || {
            let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            keep_wal(&connection)?;
            // When a commit has split a page, SQLite looks through the whole cache at its end.
            connection.pragma_update(None, "cache_size", "-4000")?;
            set_secure_delete(&connection, "FAST")?;
            if let Some(pages) = self.pages_max {
                connection.pragma_update(None, "max_page_count", pages)?;
            }
            if connection.is_readonly(rusqlite::MAIN_DB)? {
                let message = format!("open store {}: the file may only be read", self.path.display());
                return Err(Fault::Known(Error::invalid(message)));
            }
            Ok(connection)
        };
        set_up().map_err(|fault| self.explain(fault))
    }

    /// A connection that moves pages from the write-ahead log into the file.
    pub(super) fn open_checkpointer(&self) -> Result<Connection> {
        let set_up = || {
            let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            keep_wal(&connection)?;
            Ok(connection)
        };
        set_up().map_err(|fault| self.explain(fault))
    }

    /// A connection that cannot write.
    pub(super) fn open_reader(&self) -> Result<Connection> {
        self.open(OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|fault| self.explain(fault))
    }

    /// Has a connection wait for others' locks as long as the store's patience lasts.
    fn be_patient(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        connection.busy_handler(Some(patience(self.patience, self.seed)))
    }

    /// Does work with a connection that waits for nobody meanwhile.
    pub(super) fn at_once<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Connection) -> T,
    ) -> rusqlite::Result<T> {
        connection.busy_timeout(Duration::ZERO)?;
        let done = work(connection);
        self.be_patient(connection)?;
        Ok(done)
    }

    fn explain(&self, fault: Fault) -> Error {
        fault.into_error(format_args!("open store {}", self.path.display()))
    }

    fn open(&self, mode: OpenFlags) -> Result<Connection, Fault> {
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        self.be_patient(&mut connection)?;
        connection.set_prepared_statement_cache_capacity(96);
        // A plan holds for all values: else SQLite prepares a statement again whenever a bound value changes that it
        // held against a partial index. Each query names its index.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // A persisted mode: this only confirms it, and is what first reads the file.
        let _mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        for (name, value) in [
            ("synchronous", "FULL"),
            ("foreign_keys", "ON"),
            ("trusted_schema", "OFF"),
            ("cache_size", "-16000"),
            ("temp_store", "MEMORY"),
        ] {
            connection.pragma_update(None, name, value)?;
        }
        // These two answer with a row.
        connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
        Ok(connection)
    }
}

/// Does work after which what it deleted cannot be read from the file.
///
/// Other deletions are overwritten where that takes no write more ("FAST"). Overwriting the pages that each superseded
/// revision frees, too, wrote up to a seventh more.
pub(super) fn overwriting<T>(db: &Connection, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    set_secure_delete(db, "ON")?;
    let done = work();
    set_secure_delete(db, "FAST")?;
    done
}

fn set_secure_delete(db: &Connection, value: &str) -> rusqlite::Result<()> {
    db.pragma_update_and_check(None, "secure_delete", value, |_| Ok(()))
}

/// Keeps the log's file when the last connection closes: overwriting it is cheaper than growing a new one.
fn keep_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.file_control(Some(rusqlite::MAIN_DB), FileControl::PersistWal(&mut 1))
}

/// Waits for another process's lock in short steps of uneven length, until the bound is reached.
fn patience(bound: Duration, seed: u32) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut waited = Duration::ZERO;
    let mut random = seed;
    move |attempt| {
        if attempt == 0 {
            waited = Duration::ZERO;
        }
        if waited >= bound {
            return false;
        }
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let longest = 500u32 << attempt.clamp(0, 5);
        let step = Duration::from_micros(u64::from(longest / 2 + random % longest));
        thread::park_timeout(step);
        waited += step;
        true
    }
}
