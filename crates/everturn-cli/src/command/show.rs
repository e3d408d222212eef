//! `everturn show ID`: a session's transcript, read without taking the session.

use std::collections::{BTreeMap, HashMap};

use everturn::{
    Agent, TurnRecord,
    approval::ApprovalRecord,
    entry::{EntryRecord, kind},
    id::SessionId,
    message::{CallId, Message, Part},
    prompt::{Epoch, Prompt, Standing},
    storage::{ApprovalQuery, ApprovalRow},
    tool::ToolSpec,
};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing, current},
    screen::{Screen, asks, call, cost, decided, ended, moment},
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
    let current = current(&reader).await?;
    if let Some(agent) = reader.snapshot::<Agent>(current).await? {
        let model = agent.model.map_or("no model".into(), |model| model.to_string());
        screen.note(&format!("{model} in {}", agent.directory.as_deref().unwrap_or("no directory")));
    }
    let lineage = reader.conversation(current).await?.lineage;
    let shown = Shown::of(reader.store().approvals(ApprovalQuery::of(id)).await?);
    let mut after = None;
    loop {
        let page = reader.entries_after(&lineage, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for entry in &page {
            if ids {
                screen.note(&format!("entry {}", entry.id));
            }
            shown.entry(entry, &mut screen);
        }
    }
    for approval in shown.open() {
        screen.note(&asks(approval));
    }
    if reader.is_working().await? {
        screen.note(&format!("a turn was cut off or runs elsewhere; `everturn resume {id}` goes on"));
    }
    screen.delivered()?;
    Ok(Exit::Answered)
}

/// What is shown beside the entries.
struct Shown {
    /// What was asked about each call, oldest first.
    approvals: HashMap<CallId, Vec<ApprovalRecord>>,
}

impl Shown {
    fn of(rows: Vec<ApprovalRow>) -> Self {
        let mut approvals: HashMap<_, Vec<_>> = HashMap::new();
        for ApprovalRow { record, .. } in rows {
            approvals.entry(CallId(format!("c{}", record.call))).or_default().push(record);
        }
        Self { approvals }
    }

    /// What nobody has decided, oldest first.
    fn open(&self) -> Vec<&ApprovalRecord> {
        let mut open: Vec<_> = self.approvals.values().flatten().filter(|one| one.is_open()).collect();
        open.sort_by_key(|one| one.id);
        open
    }

    fn entry(&self, entry: &EntryRecord, screen: &mut Screen) {
        match entry.kind.as_str() {
            kind::TURN => {
                if let Ok(Some(record)) = entry.read::<TurnRecord>() {
                    let (end, cost) = (ended(&record.outcome), cost(&record.total));
                    screen.note(&format!("turn {} {end}: {cost}", record.turn));
                }
            }
            kind::NOTICE => return screen.note(&format!("(told: {})", entry.text())),
            kind::RESET => screen.note("(begun anew)"),
            kind::COMPACTION => screen.note("(the context was made shorter)"),
            _ => {}
        }
        entry.messages.iter().for_each(|message| self.message(message, screen));
    }

    fn message(&self, message: &Message, screen: &mut Screen) {
        match message {
            Message::User(_) => {
                screen.heading("you");
                screen.text(&message.text());
            }
            Message::System(_) => screen.note(&message.text()),
            Message::Result(result) => {
                for approval in self.approvals.get(&result.call).into_iter().flatten() {
                    screen.note(&format!("  {}", decided(approval)));
                }
                let lines = result.text.lines().count();
                let truncated = match (result.truncated, result.whole) {
                    (false, _) => String::new(),
                    (true, None) => ", truncated".into(),
                    (true, Some(whole)) => format!(", truncated; all of it is blob {whole}"),
                };
                screen.note(&format!("  {}, {lines} lines{truncated}", result.outcome.word()));
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

/// `everturn show ID --epochs`: what the model was told beside the messages, each time that it was told anew.
pub(crate) async fn epochs(place: &Place, id: SessionId) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let reader = host.harness.reader(id).await?;
    let current = current(&reader).await?;
    let lineage = reader.conversation(current).await?.lineage;
    let (mut screen, mut standing, mut after) = (Screen::new(), Standing::default(), None);
    loop {
        let page = reader.entries_after(&lineage, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for entry in &page {
            if let Ok(Some(epoch)) = entry.read::<Epoch>() {
                let (sections, tools) = (epoch.prompt.sections.len(), epoch.prompt.tools.len());
                screen.heading(&format!(
                    "entry {}, {} UTC: {}, family {}, {sections} sections, {tools} tools",
                    entry.id,
                    moment(entry.time),
                    epoch.reason.word(),
                    epoch.family,
                ));
                if standing.epoch.is_some() {
                    changes(&standing, &epoch).iter().for_each(|change| screen.note(&format!("  {change}")));
                }
            }
            standing.take(entry);
        }
    }
    screen.delivered()?;
    Ok(Exit::Answered)
}

/// What an epoch says that was not said before, and the other way round.
fn changes(before: &Standing, epoch: &Epoch) -> Vec<String> {
    let sections = |prompt: &Prompt| -> BTreeMap<String, String> {
        prompt.sections.iter().map(|one| (one.key.clone(), one.text.clone())).collect()
    };
    let tools = |prompt: &Prompt| -> BTreeMap<String, String> {
        let spec = |tool: &ToolSpec| (tool.name.clone(), format!("{tool:?}"));
        prompt.tools.iter().map(spec).collect()
    };
    let mut changes = Vec::new();
    if let Some(family) = before.family.as_ref().filter(|family| **family != epoch.family) {
        changes.push(format!("family {family} before"));
    }
    let (old, new) = (&before.prompt, &epoch.prompt);
    for (what, old, new) in [("section", sections(old), sections(new)), ("tool", tools(old), tools(new))] {
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        changes.extend(gone.map(|key| format!("{what} {key} is gone")));
        for (key, text) in &new {
            match old.get(key) {
                None => changes.push(format!("{what} {key} is new")),
                Some(before) if before != text => changes.push(format!("{what} {key} has changed")),
                Some(_) => {}
            }
        }
    }
    if changes.is_empty() {
        changes.push("says the same".into());
    }
    changes
}
