//! How far a follower has seen, and what it is told next: pure.

use everturn_core::{
    entry::{EntryRecord, kind},
    id::{EntryId, TaskId},
    message::{Assistant, End, Message, Part},
};

use super::EventKind;
use crate::harness::{
    history::TurnRecord,
    turn::{Attempt, Partial},
};

/// How far a follower has seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    entry: EntryId,
    turn: Option<TaskId>,
    shown: Option<Shown>,
    /// The newest attempt whose entry was seen: what its partial response still says is old.
    ended: Option<(TaskId, Attempt)>,
}

/// What an attempt has shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    attempt: Attempt,
    /// Bytes of text and of thinking.
    text: usize,
    thinking: usize,
}

impl Seen {
    pub(super) fn after(entry: EntryId) -> Self {
        Self { entry, turn: None, shown: None, ended: None }
    }

    pub(super) fn entry(&self) -> EntryId {
        self.entry
    }

    /// What an entry tells.
    pub(super) fn entry_came(&mut self, entry: &EntryRecord) -> Vec<EventKind> {
        self.entry = entry.id;
        match entry.kind.as_str() {
            kind::USER => {
                self.turn_of(entry).map(|turn| EventKind::TurnStarted { turn }).into_iter().collect()
            }
            kind::ASSISTANT => self.assistant_came(entry),
            kind::RESULT => entry.messages.iter().filter_map(|message| result(message)).collect(),
            kind::TURN => {
                self.shown = None;
                entry.read::<TurnRecord>().ok().flatten().map(EventKind::TurnEnded).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn turn_of(&mut self, entry: &EntryRecord) -> Option<TaskId> {
        self.turn = entry.task;
        entry.task
    }

    fn assistant_came(&mut self, entry: &EntryRecord) -> Vec<EventKind> {
        let attempt = entry.data.as_ref().and_then(|data| data.read::<Attempt>().ok());
        let message = entry.messages.iter().find_map(|message| match &**message {
            Message::Assistant(assistant) => Some(assistant),
            _ => None,
        });
        let (Some(attempt), Some(message)) = (attempt, message) else {
            return Vec::new();
        };
        self.ended = entry.task.map(|turn| (turn, attempt));
        let mut told = self.grow(attempt, &message.text(), &thinking(message));
        let Attempt { step, attempt } = attempt;
        if message.end != End::Complete {
            told.push(EventKind::AttemptDiscarded { step, attempt });
        }
        told.extend(message.calls().map(|call| EventKind::CallProposed {
            call: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        }));
        told.extend(message.usage.map(|usage| EventKind::Usage { step, usage }));
        self.shown = None;
        told
    }

    /// What a partial response tells.
    pub(super) fn partial_came(&mut self, partial: &Partial) -> Vec<EventKind> {
        let attempt = Attempt { step: partial.step, attempt: partial.attempt };
        let is_old = self.ended.is_some_and(|ended| partial.turn.is_none_or(|turn| (turn, attempt) <= ended));
        match partial.turn {
            // The partial response of a turn whose beginning was not seen belongs to another follower.
            Some(turn) if self.turn.is_none_or(|seen| seen == turn) && !is_old => {
                self.grow(attempt, &partial.text, &partial.thinking)
            }
            _ => Vec::new(),
        }
    }

    /// What an attempt has shown beyond what was seen of it.
    fn grow(&mut self, attempt: Attempt, text: &str, thinking: &str) -> Vec<EventKind> {
        let mut told = Vec::new();
        let mut shown = match self.shown {
            Some(shown) if shown.attempt == attempt => shown,
            _ => {
                let Attempt { step, attempt: number } = attempt;
                told.push(EventKind::RequestStarted { step, attempt: number });
                Shown { attempt, text: 0, thinking: 0 }
            }
        };
        let Attempt { step, attempt } = attempt;
        if let Some(delta) = thinking.get(shown.thinking..).filter(|delta| !delta.is_empty()) {
            told.push(EventKind::Thinking { step, attempt, delta: delta.into() });
            shown.thinking = thinking.len();
        }
        if let Some(delta) = text.get(shown.text..).filter(|delta| !delta.is_empty()) {
            told.push(EventKind::Text { step, attempt, delta: delta.into() });
            shown.text = text.len();
        }
        self.shown = Some(shown);
        told
    }
}

fn thinking(message: &Assistant) -> String {
    let thinking = |part: &'_ Part| {
        if let Part::Thinking(text) = part { Some(text.clone()) } else { None }
    };
    message.parts.iter().filter_map(thinking).collect()
}

fn result(message: &Message) -> Option<EventKind> {
    let Message::Result(result) = message else {
        return None;
    };
    Some(EventKind::CallEnded {
        call: result.call.clone(),
        outcome: result.outcome.clone(),
        text: result.text.clone(),
    })
}

#[cfg(test)]
mod tests;
