//! `everturn watch ID`: what happens in a session, whoever owns it.

use std::sync::Arc;

use everturn::{Cursor, SystemClock, id::SessionId};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::try_line,
    host::{Host, Missing, current},
    screen::Screen,
    signal::Signals,
};

pub(crate) async fn run(
    place: &Place,
    id: SessionId,
    from: Option<Cursor>,
    json: bool,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let reader = host.harness.reader(id).await?;
    let conversation = current(&reader).await?;
    let mut events = reader.events(Arc::new(SystemClock), conversation, from).await?;
    let (mut signals, mut screen, mut last) = (Signals::listen()?, Screen::new(), from);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = signals.next() => break,
        };
        let Some(event) = event.transpose()? else { break };
        last = Some(event.cursor);
        let is_read = match json {
            true => try_line(&event).map_err(|fault| Failure::output(&fault))?,
            false => {
                screen.event(&event.kind);
                !screen.is_gone()
            }
        };
        // Who reads no more wants no more.
        if !is_read {
            return Ok(Exit::Answered);
        }
    }
    screen.end_line();
    screen.delivered()?;
    if let Some(last) = last {
        eprintln!("everturn: `everturn watch {id} --from {last}` goes on here");
    }
    Ok(Exit::Answered)
}
