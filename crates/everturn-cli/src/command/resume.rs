//! `everturn resume ID`: a session goes on where it was cut off.

use everturn::id::SessionId;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::{Form, follow},
    host::{Host, Missing},
};

pub(crate) async fn run(place: &Place, id: SessionId, json: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let session = host.reopen(id).await?;
    let open = session.open_submissions();
    if open.is_empty() {
        eprintln!("everturn: nothing in session {id} was cut off; `everturn run --session {id}` asks on");
    }
    let mut form = Form::of(json);
    let mut exit = Exit::Answered;
    for asked in open {
        exit = follow(&session, &asked, &mut form).await?;
    }
    session.close().await?;
    Ok(exit)
}
