//! `everturn search`: messages that have all of some words.

use everturn::{
    clean,
    storage::{Hit, SearchQuery},
};
use serde_json::json;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::line,
    host::{Host, Missing},
    screen::Screen,
};

pub(crate) async fn run(place: &Place, query: SearchQuery, json: bool) -> Result<Exit, Failure> {
    query.terms().map_err(|error| Failure::usage(error.to_string()))?;
    let host = Host::open(place, Missing::Refuse).await?;
    let hits = host.harness.opener().store.search(query).await?;
    let mut screen = Screen::new();
    for hit in &hits {
        if json {
            line(&fields(hit)).map_err(|fault| Failure::output(&fault))?;
        } else {
            screen.text(&format!("{}  entry {}  {}", hit.session, hit.entry, clean::line(&hit.excerpt)));
        }
    }
    screen.delivered()?;
    if hits.is_empty() {
        eprintln!("everturn: no message has all of these words");
        return Ok(Exit::NotFound);
    }
    Ok(Exit::Answered)
}

fn fields(hit: &Hit) -> serde_json::Value {
    json!({
        "session": hit.session, "conversation": hit.conversation, "entry": hit.entry, "excerpt": hit.excerpt,
    })
}
