//! What the kernel counts of this process: bytes that it writes, and memory that it holds.

use std::fs;

/// Bytes that this process has written so far.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    /// Handed to write calls, of whatever kind of file.
    pub(crate) by_calls: u64,
    /// Of pages that it made dirty and that the kernel has to bring to a disk: twice written there, once counted, while
    /// the page waits.
    pub(crate) to_disk: u64,
}

/// None where nobody counts.
///
/// Source: Linux, Documentation/filesystems/proc.rst, "/proc/<pid>/io": `wchar` and `write_bytes`.
pub(crate) fn written() -> Option<Written> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    let find = |name| field(&counts, name);
    Some(Written { by_calls: find("wchar:")?, to_disk: find("write_bytes:")? })
}

/// Bytes of memory that this process has resident now, counted page by page; none where nobody counts.
///
/// Source: Linux, Documentation/filesystems/proc.rst, "/proc/<pid>/smaps_rollup".
pub(crate) fn resident() -> Option<u64> {
    Some(field(&fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Rss:")? * 1024)
}

/// The most that it ever had resident, in bytes.
pub(crate) fn resident_max() -> Option<u64> {
    Some(field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")? * 1024)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
