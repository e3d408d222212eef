//! `everturn sessions`: what is stored, newest first.

use everturn::{
    id::SessionId,
    storage::{SessionQuery, SessionRow},
};
use serde_json::json;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::line,
    host::{Host, Missing},
    screen::{Screen, moment},
};

/// How many sessions are asked for at a time.
const PAGE: usize = 100;

pub(crate) async fn run(place: &Place, limit: usize, json: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let mut screen = Screen::new();
    let (mut left, mut after) = (limit, None::<SessionId>);
    while left > 0 {
        let page = host
            .harness
            .sessions(SessionQuery { after, limit: left.min(PAGE), ..SessionQuery::default() })
            .await?;
        let Some(last) = page.last() else { break };
        (after, left) = (Some(last.id), left - page.len());
        for row in &page {
            if json {
                line(&fields(row)).map_err(|fault| Failure::output(&fault))?;
            } else {
                screen.text(&shown(row));
            }
        }
    }
    screen.delivered().map_err(|fault| Failure::output(&fault))?;
    if after.is_none() && !json {
        eprintln!("everturn: the store has no sessions yet");
    }
    Ok(Exit::Answered)
}

fn shown(row: &SessionRow) -> String {
    let title = row.new.title.as_deref().unwrap_or("(untitled)");
    format!("{}  {}  {}", row.id, moment(row.used), crate::clean::line(title))
}

fn fields(row: &SessionRow) -> serde_json::Value {
    json!({
        "session": row.id, "title": row.new.title, "labels": row.new.labels, "created": row.created, "used": row.used,
        "commits": row.head,
    })
}
