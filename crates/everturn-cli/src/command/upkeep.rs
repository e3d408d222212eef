//! `everturn backup` and `everturn vacuum`: looking after the file.

use std::path::PathBuf;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing},
};

pub(crate) async fn backup(place: &Place, file: PathBuf) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    host.harness.opener().store.backup(file.clone()).await?;
    eprintln!("everturn: {} is a copy of {}", file.display(), host.config.store);
    Ok(Exit::Answered)
}

pub(crate) async fn vacuum(place: &Place) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let swept = host.harness.opener().sweep().await?;
    host.harness.opener().store.vacuum().await?;
    eprintln!(
        "everturn: {} blobs that nobody needed are gone, {} deletions were finished, free room went to the disk",
        swept.blobs, swept.sessions
    );
    Ok(Exit::Answered)
}
