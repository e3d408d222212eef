//! `everturn sessions`: what is stored, newest first.

use everturn::storage::{SessionQuery, SessionRow};
use serde_json::json;

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::line,
    host::{Host, Missing, PAGE},
    screen::{Screen, moment},
};

pub(crate) async fn run(
    place: &Place,
    limit: usize,
    labels: Vec<(String, String)>,
    json: bool,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let mut screen = Screen::new();
    let is_filtered = !labels.is_empty();
    let labels = labels.into_iter().collect();
    let (mut left, mut query) = (limit, SessionQuery { labels, ..SessionQuery::default() });
    while left > 0 {
        query.limit = left.min(PAGE);
        let page = host.next_page(&mut query).await?;
        if page.is_empty() {
            break;
        }
        left -= page.len();
        for row in &page {
            if json {
                line(&fields(row)).map_err(|fault| Failure::output(&fault))?;
            } else {
                screen.text(&shown(row));
            }
        }
    }
    screen.delivered()?;
    if query.after.is_none() && !json {
        let found = if is_filtered { "no session has these labels" } else { "the store has no sessions yet" };
        eprintln!("everturn: {found}");
    }
    Ok(Exit::Answered)
}

fn shown(row: &SessionRow) -> String {
    let title = match row.new.labels.contains_key("et.restoring") {
        true => "(only partly restored: restore it again)",
        false => row.new.title.as_deref().unwrap_or("(untitled)"),
    };
    format!("{}  {}  {}", row.id, moment(row.used), everturn::clean::line(title))
}

fn fields(row: &SessionRow) -> serde_json::Value {
    json!({
        "session": row.id, "title": row.new.title, "labels": row.new.labels, "created": row.created, "used": row.used,
        "commits": row.head,
    })
}
