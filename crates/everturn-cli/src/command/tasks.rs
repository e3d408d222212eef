//! `everturn tasks [ID]`: what a session works on, read without taking it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use everturn::{
    SessionReader, clean,
    id::{ConversationId, SessionId, TaskId},
    storage::TaskQuery,
    task::{Report, Status, TaskRecord, TaskView},
};
use serde_json::{Value, json};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::line,
    host::{Host, Missing},
    screen::{Screen, moment},
};

/// How much of a report is shown, in characters.
const REPORT_MAX: usize = 160;

pub(crate) async fn run(
    place: &Place,
    id: Option<SessionId>,
    all: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let id = match id {
        Some(id) => id,
        None => host.last_used().await?,
    };
    let reader = host.harness.reader(id).await?;
    let mut views = reader.inspect().await?.tasks;
    if all {
        views = with_ended(&reader, views).await?;
    }
    let mut screen = Screen::new();
    for (depth, view) in tree(&views) {
        let report = match view.record.is_live() {
            true => reader.snapshot::<Report>(view.record.id).await?,
            false => None,
        };
        if json {
            line(&fields(view, report.as_ref())).map_err(|fault| Failure::output(&fault))?;
        } else {
            for (number, text) in shown(view, report.as_ref()).iter().enumerate() {
                let inset = if number == 0 { 2 * depth } else { 2 * depth + 4 };
                screen.text(&format!("{}{}", " ".repeat(inset), clean::line(text)));
            }
        }
    }
    screen.delivered()?;
    if views.is_empty() && !json {
        let none = if all { "has never had a task" } else { "works on nothing; --all lists what has ended" };
        eprintln!("everturn: session {id} {none}");
    }
    Ok(Exit::Answered)
}

/// What lives and what has ended, in the order of the ids.
async fn with_ended(reader: &SessionReader, live: Vec<TaskView>) -> Result<Vec<TaskView>, Failure> {
    let session = reader.row().id;
    let all = TaskQuery { session, live: false, ids: None, owner: None };
    let mut owned: HashMap<TaskId, Vec<ConversationId>> = HashMap::new();
    for conversation in reader.store().conversations(session).await? {
        if let Some(owner) = conversation.owner {
            owned.entry(owner).or_default().push(conversation.id);
        }
    }
    let ended = reader.store().tasks(all).await?.into_iter().filter(|task| !task.is_live());
    let ended = ended.map(|task| TaskView {
        conversations: owned.remove(&task.id).unwrap_or_default(),
        status: Status::Completing,
        record: Arc::new(task),
    });
    let known: BTreeMap<TaskId, TaskView> = ended.chain(live).map(|view| (view.record.id, view)).collect();
    Ok(known.into_values().collect())
}

/// Each task behind the one that it is below, with how deep it lies.
fn tree(views: &[TaskView]) -> Vec<(usize, &TaskView)> {
    let owner: HashMap<ConversationId, TaskId> = views
        .iter()
        .flat_map(|view| view.conversations.iter().map(|conversation| (*conversation, view.record.id)))
        .collect();
    let listed: HashMap<TaskId, &TaskView> = views.iter().map(|view| (view.record.id, view)).collect();
    let above = |task: &TaskRecord| task.owner.or_else(|| owner.get(&task.conversation).copied());
    let mut below: HashMap<Option<TaskId>, Vec<&TaskView>> = HashMap::new();
    for view in views.iter().rev() {
        let above = above(&view.record).filter(|above| listed.contains_key(above));
        below.entry(above).or_default().push(view);
    }
    let with_depth = |depth| move |view| (depth, view);
    let mut left: Vec<_> = below.remove(&None).into_iter().flatten().map(with_depth(0)).collect();
    let mut found = Vec::with_capacity(views.len());
    while let Some((depth, view)) = left.pop() {
        found.push((depth, view));
        let next = below.remove(&Some(view.record.id)).into_iter().flatten();
        left.extend(next.map(with_depth(depth + 1)));
    }
    found
}

/// A task in lines: what it is and does, and what else there is to say.
fn shown(view: &TaskView, report: Option<&Report>) -> Vec<String> {
    let task = &*view.record;
    let mut lines = vec![format!("{}  {}  {}", task.id, task.kind, state(view))];
    let mut flags = vec![match task.ended {
        Some(ended) => format!("{} to {} UTC", moment(task.started), moment(ended)),
        None => format!("since {} UTC", moment(task.started)),
    }];
    flags.extend(task.background.then(|| "in the background".into()));
    flags.extend(task.abandon_on_restart.then(|| "abandoned on restart".into()));
    flags.extend((task.attempts > 0).then(|| format!("begun anew {} times", task.attempts)));
    if task.conversation != ConversationId::ROOT {
        flags.push(format!("in conversation {}", task.conversation));
    }
    if !view.conversations.is_empty() {
        let owned: Vec<_> = view.conversations.iter().map(ToString::to_string).collect();
        flags.push(format!("owns conversation {}", owned.join(", ")));
    }
    lines.push(flags.join(", "));
    if let (Some(reason), None) = (&task.abort, task.ended) {
        lines.push(format!("told to stop: {reason}"));
    }
    if let Some(report) = report {
        lines.push(format!("says {}", short(&report.value.to_string())));
    }
    lines
}

/// What a task does, in words.
pub(crate) fn state(view: &TaskView) -> String {
    match (&view.status, view.record.outcome()) {
        (_, Some(outcome)) if !view.record.is_live() => outcome.to_string(),
        (status, Some(outcome)) => format!("{status}: {outcome}"),
        (Status::Sleeping { until }, None) => format!("sleeping until {} UTC", moment(*until)),
        (Status::Listening { signal, until: Some(until) }, None) => {
            format!("listening for {signal} until {} UTC", moment(*until))
        }
        (status, None) => status.to_string(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(REPORT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn fields(view: &TaskView, report: Option<&Report>) -> Value {
    let task = &*view.record;
    json!({
        "task": task.id, "owner": task.owner, "conversation": task.conversation, "conversations": view.conversations,
        "kind": task.kind, "version": task.version, "status": state(view), "background": task.background,
        "abandon_on_restart": task.abandon_on_restart, "attempts": task.attempts, "abort": task.abort,
        "blocked": task.blocked, "outcome": task.outcome(), "started": task.started, "ended": task.ended,
        "report": report.map(|report| &report.value),
    })
}
