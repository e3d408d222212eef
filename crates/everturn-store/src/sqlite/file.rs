//! Looks at a file before SQLite does, so that what is refused is not touched.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    path::Path,
};

use everturn_core::error::{Error, Result};

use super::schema;

/// Whether the store's file exists and may be opened.
///
/// Errors: `NotFound` when it, or its directory, has to exist; `Newer`; `Invalid`, saying what is there instead.
pub(super) fn inspect(path: &Path, must_exist: bool) -> Result<bool> {
    let refused = |what: &str| Error::invalid(format!("open store {}: {what}", path.display()));
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if let Some(name) = network(directory) {
        return Err(refused(&format!(
            "it lies on {name}, a network file system, where locks and shared memory cannot be trusted; \
             use a local disk"
        )));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(refused("it is a directory; name a file in it")),
        Ok(found) if !found.is_file() => Err(refused("it is not a regular file")),
        Ok(found) if found.len() == 0 => {
            Err(refused("the file is empty; remove it to have a store created there"))
        }
        Ok(_) => {
            inspect_header(path)?;
            inspect_access(path)?;
            Ok(true)
        }
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => missing(path, directory, must_exist),
        Err(fault) => Err(refused(&format!("it cannot be looked at: {fault}")).caused_by(fault)),
    }
}

fn missing(path: &Path, directory: &Path, must_exist: bool) -> Result<bool> {
    let absent = |what: &str| Err(Error::not_found(format!("open store {}: {what}", path.display())));
    if must_exist {
        return absent("there is no such file; name an existing store, or create one by writing to it");
    }
    if !directory.is_dir() {
        return absent("its directory does not exist; create it first");
    }
    Ok(false)
}

/// Reads what SQLite's first page says: whose file it is, and which schema it has.
///
/// Source: SQLite, "Database File Format", section 1.3: magic at 0, user version at 60, application id at 68.
fn inspect_header(path: &Path) -> Result<()> {
    let refused = |what: &str| Error::invalid(format!("open store {}: {what}", path.display()));
    let mut header = [0; 100];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(refused("it is not a SQLite database; it was left as it is"));
        }
        Err(fault) => return Err(refused(&format!("the file may not be read: {fault}")).caused_by(fault)),
        Ok(()) if !header.starts_with(b"SQLite format 3\0") => {
            return Err(refused("it is not a SQLite database; it was left as it is"));
        }
        Ok(()) => {}
    }
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if number(68) != schema::APPLICATION_ID {
        return Err(refused("it is a SQLite database of another application; it was left as it is"));
    }
    schema::check_version(number(60), path)
}

/// Whether the log is as a store that closes leaves it: empty, or started over with one write, of the first page.
///
/// Source: SQLite, "WAL-mode File Format": a header of 32 bytes, then frames of 24 bytes and a page; a frame begins with
/// the number of its page, and belongs to the log if its salt (bytes 8 to 16) is the header's (bytes 16 to 24).
pub(super) fn is_log_at_rest(path: &Path) -> bool {
    const FRAME: usize = 24 + schema::PAGE_SIZE as usize;
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let mut log = Vec::new();
    match File::open(name).and_then(|file| file.take(32 + 2 * FRAME as u64).read_to_end(&mut log)) {
        Ok(0) => return true,
        Ok(_) => {}
        Err(fault) => return fault.kind() == io::ErrorKind::NotFound,
    }
    let is_its_own = |frame: &[u8]| frame.get(8..16) == log.get(16..24);
    let mut frames = log.get(32..).unwrap_or_default().chunks(FRAME);
    let is_of_the_first_page = |frame: &[u8]| is_its_own(frame) && frame.starts_with(&1u32.to_be_bytes());
    frames.next().is_some_and(is_of_the_first_page) && !frames.next().is_some_and(is_its_own)
}

fn inspect_access(path: &Path) -> Result<()> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map(drop).map_err(|fault| {
        let message = format!(
            "open store {}: the file may only be read: {fault}; a store is opened for writing",
            path.display()
        );
        Error::invalid(message).caused_by(fault)
    })
}

/// Which file a name stands for; none where the name, or the system, says nothing of it.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }
    #[cfg(not(unix))]
    {
        let _path = path;
        None
    }
}

#[cfg(target_os = "linux")]
fn network(directory: &Path) -> Option<&'static str> {
    // A directory that cannot be asked is refused for its own reason.
    let found = rustix::fs::statfs(directory).ok()?;
    network_name(u64::try_from(found.f_type).ok()? & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn network(_: &Path) -> Option<&'static str> {
    None
}

/// The network file system with this magic number.
///
/// Source: Linux, include/uapi/linux/magic.h, and the file systems' own headers.
#[cfg(target_os = "linux")]
fn network_name(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x0102_1997 => "9P",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::network_name;

    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_name(0xef53), None, "ext4 is a local disk");
    }
}
