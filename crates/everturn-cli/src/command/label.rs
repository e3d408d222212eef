//! `everturn label`: a session's title and labels.

use everturn::{id::SessionId, kernel::Session};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing},
};

pub(crate) async fn run(
    place: &Place,
    id: SessionId,
    title: Option<String>,
    labels: Vec<(String, String)>,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let session = Session::open(host.harness.opener(), id).await?;
    let mut tx = session.begin().await?;
    if title.is_none() || !labels.is_empty() {
        tx.set_labels(labels.into_iter().collect());
    }
    if let Some(title) = title {
        tx.set_title(title);
    }
    tx.commit().await?;
    session.close().await?;
    Ok(Exit::Answered)
}
