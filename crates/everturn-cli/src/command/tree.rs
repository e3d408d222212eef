//! `everturn tree ID`: the branches of a session with their turns, and the sub-agents that work for them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everturn::{
    SessionReader, TurnRecord,
    conversation::{Conversation, Lineage},
    id::{ConversationId, EntryId, SessionId, TaskId},
    storage::{EntryQuery, Only, Order, TaskQuery},
    task::TaskRecord,
};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing, current},
    screen::{Screen, cost, ended},
};

pub(crate) async fn run(place: &Place, id: SessionId) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let tree = Tree::read(&host.harness.reader(id).await?).await?;
    let mut screen = Screen::new();
    for (depth, line) in tree.lines() {
        screen.text(&format!("{}{}", "  ".repeat(depth), everturn::clean::line(&line)));
    }
    screen.delivered()?;
    Ok(Exit::Answered)
}

/// What a session's conversations are, and how they hang together.
struct Tree {
    current: ConversationId,
    conversations: Vec<Conversation>,
    /// The turns of each that have ended: their entries, oldest first.
    turns: HashMap<ConversationId, BTreeMap<EntryId, TurnRecord>>,
    tasks: HashMap<TaskId, TaskRecord>,
}

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Line {
    Conversation(ConversationId),
    /// A turn that has ended, by the entry that keeps it.
    Turn(ConversationId, EntryId),
    /// A turn that runs, or a task that owns conversations.
    Task(TaskId),
}

impl Tree {
    async fn read(reader: &SessionReader) -> Result<Self, Failure> {
        let (store, session) = (reader.store(), reader.row().id);
        let current = current(reader).await?;
        let conversations = store.conversations(session).await?;
        let mut turns = HashMap::new();
        for conversation in &conversations {
            let own = EntryQuery::of(session, Lineage::new(conversation.id));
            let query = EntryQuery { only: Only::Turns, order: Order::OldestFirst, ..own };
            let entries = store.entries(query).await?.into_iter();
            let read = entries.filter_map(|entry| Some((entry.id, entry.read::<TurnRecord>().ok()??)));
            turns.insert(conversation.id, read.collect::<BTreeMap<_, _>>());
        }
        let all = TaskQuery { session, live: false, ids: None, owner: None };
        let tasks = store.tasks(all).await?.into_iter().map(|task| (task.id, task)).collect();
        Ok(Self { current, conversations, turns, tasks })
    }

    /// All lines, each with how deep it stands.
    fn lines(&self) -> Vec<(usize, String)> {
        let mut below = self.below();
        let mut found = Vec::new();
        let mut left = vec![(0, None)];
        while let Some((depth, line)) = left.pop() {
            found.extend(line.map(|line| (depth - 1, self.text(line))));
            let next = below.remove(&line).unwrap_or_default();
            left.extend(next.into_iter().rev().map(|next| (depth + 1, Some(next))));
        }
        found
    }

    /// What stands below what, in order; below nothing, what has no place.
    fn below(&self) -> HashMap<Option<Line>, Vec<Line>> {
        let mut below: HashMap<Option<Line>, Vec<Line>> = HashMap::new();
        for conversation in &self.conversations {
            let here = Line::Conversation(conversation.id);
            for entry in self.turns[&conversation.id].keys() {
                below.entry(Some(here)).or_default().push(Line::Turn(conversation.id, *entry));
            }
        }
        let running = self.tasks.values().filter(|task| task.kind == "et.turn" && task.is_live());
        let owners = self.conversations.iter().filter_map(|one| self.tasks.get(&one.owner?));
        let shown: BTreeSet<TaskId> = running.chain(owners).map(|task| task.id).collect();
        for task in shown.into_iter().map(|id| &self.tasks[&id]) {
            below.entry(Some(self.place_of(task))).or_default().push(Line::Task(task.id));
        }
        for conversation in &self.conversations {
            let above = match (conversation.owner, &conversation.parent) {
                (Some(owner), _) if self.tasks.contains_key(&owner) => Some(Line::Task(owner)),
                (_, Some(parent)) => Some(self.end_before(parent.conversation, parent.at)),
                _ => None,
            };
            below.entry(above).or_default().push(Line::Conversation(conversation.id));
        }
        below
    }

    /// What a task stands below: the turn that it works for, or its conversation.
    fn place_of(&self, task: &TaskRecord) -> Line {
        let conversation = task.conversation;
        let Some(turn) = task.owner else { return Line::Conversation(conversation) };
        let ended = self.turns.get(&conversation).into_iter().flatten().find(|(_, one)| one.turn == turn);
        match ended {
            Some((entry, _)) => Line::Turn(conversation, *entry),
            None if self.tasks.get(&turn).is_some_and(TaskRecord::is_live) => Line::Task(turn),
            None => Line::Conversation(conversation),
        }
    }

    /// The turn at whose end a fork begins.
    fn end_before(&self, conversation: ConversationId, at: EntryId) -> Line {
        let mut lineage = self.conversations.iter().filter(|one| one.id == conversation);
        let spans = lineage.next().map(|one| one.lineage.spans()).unwrap_or_default();
        let newest = spans.iter().find_map(|span| {
            let turns = self.turns.get(&span.conversation)?;
            let (entry, _) = turns.range(..=at.min(span.until)).next_back()?;
            Some(Line::Turn(span.conversation, *entry))
        });
        newest.unwrap_or(Line::Conversation(conversation))
    }

    fn text(&self, line: Line) -> String {
        match line {
            Line::Conversation(id) if id == self.current => format!("conversation {id} (current)"),
            Line::Conversation(id) => format!("conversation {id}"),
            Line::Turn(conversation, entry) => {
                let record = &self.turns[&conversation][&entry];
                format!("turn {} {}: {}", record.turn, ended(&record.outcome), cost(&record.total))
            }
            Line::Task(id) => {
                let task = &self.tasks[&id];
                let state = if task.is_live() { "has not ended" } else { "has ended" };
                match task.kind.as_str() {
                    "et.turn" => format!("turn {id} {state}"),
                    "et.call" => format!("sub-agent of call c{id}, which {state}"),
                    "et.agent" => format!("sub-agent in the background, task {id}, which {state}"),
                    kind => format!("task {id}, {kind}, which {state}"),
                }
            }
        }
    }
}
