//! `everturn show ID`: a session's transcript, read without taking the session.

use everturn::{
    Agent, Current, TurnRecord,
    entry::{EntryRecord, kind},
    id::SessionId,
    message::{Message, Part},
};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing},
    screen::{Screen, call, cost, moment},
};

/// How many entries are read at a time.
const PAGE: usize = 200;

pub(crate) async fn run(place: &Place, id: SessionId, ids: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let reader = host.harness.reader(id).await?;
    let mut screen = Screen::new();
    let row = reader.row();
    screen.heading(row.new.title.as_deref().unwrap_or("(untitled)"));
    screen.note(&format!("session {id}, last used {} UTC", moment(row.used)));
    let current = reader.snapshot::<Current>(()).await?.unwrap_or_default().conversation;
    if let Some(agent) = reader.snapshot::<Agent>(current).await? {
        let model = agent.model.map_or("no model".into(), |model| model.to_string());
        screen.note(&format!("{model} in {}", agent.directory.as_deref().unwrap_or("no directory")));
    }
    let lineage = reader.conversation(current).await?.lineage;
    let mut after = None;
    loop {
        let page = reader.entries_after(&lineage, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for entry in &page {
            if ids {
                screen.note(&format!("entry {}", entry.id));
            }
            show(entry, &mut screen);
        }
    }
    if reader.is_working().await? {
        screen.note(&format!("a turn was cut off or runs elsewhere; `everturn resume {id}` goes on"));
    }
    screen.delivered().map_err(|fault| Failure::output(&fault))?;
    Ok(Exit::Answered)
}

fn show(entry: &EntryRecord, screen: &mut Screen) {
    if entry.kind == kind::TURN
        && let Ok(Some(record)) = entry.read::<TurnRecord>()
    {
        screen.note(&format!("turn {} {}: {}", record.turn, record.outcome.word(), cost(&record.total)));
    }
    for message in &entry.messages {
        match &**message {
            Message::User(_) => {
                screen.heading("you");
                screen.text(&message.text());
            }
            Message::System(_) => screen.note(&message.text()),
            Message::Result(result) => {
                let lines = result.text.lines().count();
                screen.note(&format!("  {}, {lines} lines", result.outcome.word()));
            }
            Message::Assistant(assistant) => {
                screen.heading("everturn");
                for part in &assistant.parts {
                    match part {
                        Part::Text(text) => screen.text(text),
                        Part::Call(made) => screen.note(&call(&made.name, &made.arguments)),
                        Part::Thinking(_) | Part::Opaque(_) => {}
                    }
                }
                if assistant.end != everturn::message::End::Complete {
                    screen.note("(cut off)");
                }
            }
        }
    }
}
