//! A file that a tool changes: as it was found, and how it is put back.

use everturn_core::{
    Error, ErrorKind, Result,
    env::{Env, Expect, FileKind, ReadFile, WriteFile, Written},
};

/// How many bytes are asked for at once.
const CHUNK: usize = 1024 * 1024;

/// A file as it was found.
pub(crate) struct Before {
    /// What must still be there when it is written.
    expect: Expect,
    /// How many bytes it had; none where there was no file.
    pub(crate) size: Option<u64>,
    /// Its bytes, unless they are more than were wanted.
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Before {
    /// Looks at a file, and reads it unless it is larger than this; a missing one is as good as an empty one.
    ///
    /// Errors: those of the environment; `Invalid` for what is no file.
    pub(crate) async fn of(env: &Env, path: &str, bytes_max: u64) -> Result<Self> {
        let stat = match env.stat(path.into()).await {
            Ok(stat) => stat,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => {
                return Ok(Self { expect: Expect::Absent, size: None, bytes: Some(Vec::new()) });
            }
            Err(error) => return Err(error),
        };
        if stat.kind != FileKind::File {
            return Err(Error::invalid(format!("change {path:?}: it is no regular file")));
        }
        let bytes = if stat.size > bytes_max { None } else { read(env, path, bytes_max).await? };
        Ok(Self { expect: Expect::Version(stat.version), size: Some(stat.size), bytes })
    }

    /// Writes the file, if it still is as it was found.
    pub(crate) async fn write(self, env: &Env, path: &str, bytes: Vec<u8>) -> Result<Written> {
        env.write(WriteFile { path: path.into(), bytes, expect: self.expect }).await
    }
}

/// All bytes of a file; none where they are more than `bytes_max`.
async fn read(env: &Env, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let chunk = env.read(ReadFile { path: path.into(), offset, limit: CHUNK }).await?;
        let is_last = chunk.len() < CHUNK;
        bytes.extend(chunk);
        if bytes.len() as u64 > bytes_max {
            return Ok(None);
        }
        if is_last {
            return Ok(Some(bytes));
        }
    }
}

/// Whether somebody else was faster.
pub(crate) fn is_conflict<T>(done: &Result<T>) -> bool {
    done.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Conflict))
}
