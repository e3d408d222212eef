//! `everturn resume ID`: a session goes on where it was cut off.

use everturn::id::SessionId;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::{Form, follow},
    host::{Host, Missing},
    signal::Signals,
};

pub(crate) async fn run(place: &Place, id: SessionId, json: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let session = host.reopen(id).await?;
    let open = session.open_submissions();
    if open.is_empty() {
        eprintln!("everturn: nothing in session {id} was cut off; `everturn run --session {id}` asks on");
    }
    let (mut form, mut signals) = (Form::of(json), Signals::listen()?);
    let mut ended = Ok(Exit::Answered);
    for asked in open {
        // The first failure is told at the end; what follows is waited for all the same, unless the session is gone.
        let one = follow(&session, &asked, &mut signals, &mut form).await;
        let is_gone = matches!(&one, Err(failure) if failure.exit == Exit::Stopped);
        ended = ended.and(one);
        if is_gone {
            break;
        }
    }
    // How the question ended is what counts. A lease that could not be given back ends with this process.
    let _ = session.close().await;
    ended
}
