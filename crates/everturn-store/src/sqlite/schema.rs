//! The schema: numbered SQL files, applied in one transaction each and recorded with their checksums.

use std::{fs, io, path::Path};

use everturn_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use sha2::{Digest, Sha256};

use super::{
    fault::Outcome,
    owner::{Owners, owner_only},
};

/// "Evtn": what marks a SQLite file as a store.
pub(super) const APPLICATION_ID: u32 = 0x4576_746e;

/// Bytes of a page. Larger ones wrote half as many bytes more for the same commits.
pub(super) const PAGE_SIZE: u32 = 4096;

/// The newest schema that this program knows.
pub(super) const KNOWN: u32 = 4;

struct Migration {
    version: u32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; KNOWN as usize] = [
    Migration { version: 1, name: "init", sql: include_str!("../../migrations/sqlite/0001_init.sql") },
    Migration { version: 2, name: "kernel", sql: include_str!("../../migrations/sqlite/0002_kernel.sql") },
    Migration { version: 3, name: "tasks", sql: include_str!("../../migrations/sqlite/0003_tasks.sql") },
    Migration {
        version: 4,
        name: "approvals",
        sql: include_str!("../../migrations/sqlite/0004_approvals.sql"),
    },
];

impl Migration {
    fn sha256(&self) -> String {
        format!("{:x}", Sha256::digest(self.sql.as_bytes()))
    }
}

/// Errors: `Newer` for a schema that this program does not know.
pub(super) fn check_version(found: u32, path: &Path) -> Result<()> {
    if found <= KNOWN {
        return Ok(());
    }
    let message = format!(
        "open store {}: a newer version wrote it (schema {found}, this program knows {KNOWN}); use that version",
        path.display()
    );
    Err(Error::new(ErrorKind::Newer { found, known: KNOWN }, message))
}

/// Creates an empty store. The file gets its name when it is whole, so that dying on the way leaves none.
pub(super) fn create(path: &Path, owners: &Owners) -> Result<()> {
    let scratch = owners.scratch();
    let created = write_empty(&scratch, path).and_then(|()| match fs::hard_link(&scratch, path) {
        // Another process was faster.
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(|fault| refuse(path, fault)),
    });
    let removed = fs::remove_file(&scratch);
    created?;
    removed.and_then(|()| sync_directory(path)).map_err(|fault| refuse(path, fault))
}

fn refuse(path: &Path, fault: io::Error) -> Error {
    let message = format!("create store {}: {fault}", path.display());
    match fault.kind() {
        io::ErrorKind::StorageFull => Error::unavailable(message).caused_by(fault),
        _ => Error::invalid(message).caused_by(fault),
    }
}

fn write_empty(scratch: &Path, path: &Path) -> Result<()> {
    let _leftover = fs::remove_file(scratch);
    let file = owner_only(fs::OpenOptions::new().read(true).write(true).create_new(true))
        .open(scratch)
        .map_err(|fault| refuse(path, fault))?;
    let fill = || -> Outcome<()> {
        let mut db = Connection::open_with_flags(scratch, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.pragma_update(None, "page_size", PAGE_SIZE)?;
        db.pragma_update(None, "application_id", APPLICATION_ID)?;
        migrate(&mut db)?;
        let _mode: String = db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        Ok(())
    };
    fill().map_err(|fault| fault.into_error(format_args!("create store {}", path.display())))?;
    file.sync_all().map_err(|fault| refuse(path, fault))
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Checks an existing store's schema, and applies what it lacks.
pub(super) fn bring_up_to_date(db: &mut Connection, path: &Path) -> Result<()> {
    let explain =
        |fault: super::fault::Fault| fault.into_error(format_args!("open store {}", path.display()));
    let found = version(db).map_err(|fault| explain(fault.into()))?;
    check_version(found, path)?;
    if found < KNOWN {
        migrate(db).map_err(explain)?;
    }
    MIGRATIONS.iter().try_for_each(|migration| check(db, migration)).map_err(explain)
}

/// The newest schema that was applied.
pub(super) fn version(db: &Connection) -> rusqlite::Result<u32> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Applies each missing migration in a transaction of its own; whoever comes second finds it done.
fn migrate(db: &mut Connection) -> Outcome<()> {
    for migration in &MIGRATIONS {
        let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if version(&transaction)? < migration.version {
            transaction.execute_batch(migration.sql)?;
            transaction.execute(
                "INSERT INTO migration (version, name, sha256) VALUES (?1, ?2, ?3)",
                (migration.version, migration.name, migration.sha256()),
            )?;
            transaction.pragma_update(None, "user_version", migration.version)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

fn check(db: &Connection, migration: &Migration) -> Outcome<()> {
    let sql = "SELECT sha256 FROM migration WHERE version = ?1";
    let found: Option<String> = db.query_row(sql, [migration.version], |row| row.get(0)).optional()?;
    let place = || format!("table migration, version {}", migration.version);
    match found {
        Some(found) if found == migration.sha256() => Ok(()),
        Some(found) => {
            let what = format!("the schema has checksum {found}, this program's has {}", migration.sha256());
            Err(Error::corrupt(what, place()).into())
        }
        None => Err(Error::corrupt("the row is missing", place()).into()),
    }
}
