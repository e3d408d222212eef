//! `everturn archive` and `everturn restore`: a session out to a file, and back.

use std::{
    io,
    path::{Path, PathBuf},
};

use everturn::{Error, id::SessionId, kernel::Session};
use tempfile::NamedTempFile;
use tokio::{
    fs::File,
    io::{AsyncWriteExt, BufReader, BufWriter},
};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing},
};

pub(crate) async fn write(place: &Place, id: SessionId, file: &Path, delete: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let session = Session::open(host.harness.opener(), id).await?;
    if delete {
        prove(&host, id).await?;
    }
    let unfinished = Unfinished::create(file)?;
    let faulty = |fault: io::Error| refused("write", file, &fault);
    let mut out = BufWriter::new(unfinished.open().map_err(faulty)?);
    session.archive(&mut out).await?;
    out.shutdown().await.map_err(faulty)?;
    unfinished.finish()?;
    if delete {
        session.delete().await?;
    } else {
        session.close().await?;
    }
    eprintln!(
        "everturn: session {id} is in {}{}",
        file.display(),
        if delete { " and deleted here" } else { "" }
    );
    Ok(Exit::Answered)
}

/// Proves that a session agrees with itself: one that does not is not brought back from an archive, and so is not deleted.
async fn prove(host: &Host, id: SessionId) -> Result<(), Failure> {
    match host.harness.verify(id).await?.into_iter().next() {
        Some(finding) => {
            Err(Error::corrupt(finding.what, format!("session {id}, {}", finding.record)).into())
        }
        None => Ok(()),
    }
}

/// A file under a name of its own beside the one that it gets when it is finished, so that what has that name is whole, even
/// after a kill.
struct Unfinished {
    path: PathBuf,
    file: NamedTempFile,
}

impl Unfinished {
    fn create(path: &Path) -> Result<Self, Failure> {
        let unfinished = || {
            if path.symlink_metadata().is_ok() {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            // Only its owner may read it.
            tempfile::Builder::new().prefix(".everturn-").suffix(".part").tempfile_in(directory(path))
        };
        let file = unfinished().map_err(|fault| refused("write", path, &fault))?;
        Ok(Self { path: path.into(), file })
    }

    fn open(&self) -> io::Result<File> {
        self.file.as_file().try_clone().map(File::from_std)
    }

    /// Gives the file its name, unless something has it by now. What is named survives the power.
    fn finish(self) -> Result<(), Failure> {
        let Self { path, file } = self;
        let named = file
            .as_file()
            .sync_all()
            .and_then(|()| file.persist_noclobber(&path).map_err(|refused| refused.error))
            .and_then(|_| sync(directory(&path)));
        named.map_err(|fault| refused("write", &path, &fault))
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name survives the power only once its directory does.
#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    std::fs::File::open(directory)?.sync_all()
}

/// Here a directory cannot be opened; the system keeps its names by itself.
#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) async fn restore(place: &Place, file: &Path) -> Result<Exit, Failure> {
    let archive = File::open(file).await.map_err(|fault| refused("read", file, &fault))?;
    let host = Host::open(place, Missing::Create).await?;
    let session = Session::restore(host.harness.opener(), BufReader::new(archive)).await?;
    println!("{}", session.id());
    session.close().await?;
    Ok(Exit::Answered)
}

fn refused(attempted: &str, file: &Path, fault: &io::Error) -> Failure {
    Failure::usage(format!("{attempted} {}: {fault}", file.display()))
}

#[cfg(test)]
mod tests;
