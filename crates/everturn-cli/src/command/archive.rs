//! `everturn archive` and `everturn restore`: a session out to a file, and back.

use std::{
    io,
    path::{Path, PathBuf},
};

use everturn::{id::SessionId, kernel::Session};
use tokio::{
    fs::{File, OpenOptions},
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
    let unfinished = Unfinished::create(file).await?;
    let faulty = |fault: io::Error| refused("write", file, &fault);
    let mut out = BufWriter::new(unfinished.file.try_clone().await.map_err(faulty)?);
    session.archive(&mut out).await?;
    out.shutdown().await.map_err(faulty)?;
    unfinished.finish().await?;
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

/// A file that goes away unless it is finished, so that what is there is whole.
struct Unfinished {
    path: PathBuf,
    file: File,
    is_finished: bool,
}

impl Unfinished {
    async fn create(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        options.mode(0o600);
        let file = options.open(path).await.map_err(|fault| refused("write", path, &fault))?;
        Ok(Self { path: path.into(), file, is_finished: false })
    }

    /// Keeps the file, once it survives the power.
    async fn finish(mut self) -> Result<(), Failure> {
        self.file.sync_all().await.map_err(|fault| refused("write", &self.path, &fault))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
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
