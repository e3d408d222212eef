//! Follows the root's events over all lives, as a client does: it writes down what it was told up to a place, and goes on
//! from there.

use std::{collections::BTreeMap, sync::Arc};

use everturn::{
    ConversationHandle, Cursor, Event, EventKind, Result,
    entry::{EntryRecord, kind},
    id::TaskId,
    message::{End, Message},
};
use serde::{Deserialize, Serialize};

use super::{Life, ROOT};
use crate::tasks::{Ledger, Line};

/// What a follower keeps of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Seen {
    Began(u64),
    Text(u32, u32, String),
    Withdrawn(u32, u32),
    Output(String, usize, String),
    /// What may be told once.
    Once(String),
    CallEnded(String, String),
    Ended(u64),
    Resync,
}

impl Seen {
    fn of(kind: EventKind) -> Option<Self> {
        Some(match kind {
            EventKind::TurnStarted { turn } => Self::Began(turn.0),
            EventKind::Text { step, attempt, delta } => Self::Text(step, attempt, delta),
            EventKind::AttemptDiscarded { step, attempt } => Self::Withdrawn(step, attempt),
            EventKind::Output { call, offset, delta } => Self::Output(call.0, offset, delta),
            EventKind::CallEnded { call, text, .. } => Self::CallEnded(call.0, text),
            EventKind::ApprovalAsked { approval } => Self::Once(format!("asked {}", approval.id)),
            EventKind::ApprovalDecided { approval } => Self::Once(format!("decided {}", approval.id)),
            EventKind::Steered { submission, .. } => Self::Once(format!("steered {submission}")),
            EventKind::Compaction { entry } => Self::Once(format!("compacted {entry}")),
            EventKind::Entry { entry, .. } => Self::Once(format!("entry {entry}")),
            EventKind::TurnEnded(record) => Self::Ended(record.turn.0),
            EventKind::Resync => Self::Resync,
            _ => return None,
        })
    }
}

/// Follows until the session is closed. What one commit told is written down once it is whole.
pub(super) async fn follow(root: ConversationHandle, ledger: Arc<Ledger>) -> Result<()> {
    let known = ledger.lines().into_iter().rev().find_map(|line| match line {
        Line::Saw(cursor, _) => Some(cursor),
        _ => None,
    });
    let session = root.session();
    let new = Cursor { session: session.id(), epoch: session.epoch(), seq: everturn::id::Seq(1) };
    let mut events = root.events(known.unwrap_or(new)).await?;
    drop(root);
    let (mut at, mut told) = (None, Vec::new());
    while let Some(Ok(Event { cursor, kind })) = events.next().await {
        if at.is_some_and(|at| at != cursor) {
            write(&ledger, at, &mut told);
        }
        at = Some(cursor);
        told.extend(Seen::of(kind));
    }
    write(&ledger, at, &mut told);
    Ok(())
}

fn write(ledger: &Ledger, at: Option<Cursor>, told: &mut Vec<Seen>) {
    if let Some(cursor) = at {
        let text = serde_json::to_string(told).expect("what was seen has a JSON form");
        ledger.write(Line::Saw(cursor, text));
        told.clear();
    }
}

/// What the events come to when they are applied.
#[derive(Default)]
struct Applied {
    turn: u64,
    /// The texts of a turn's steps, by attempt.
    texts: BTreeMap<(u64, u32), BTreeMap<u32, String>>,
    outputs: BTreeMap<String, String>,
    results: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Applied {
    fn apply(&mut self, seen: Seen) {
        match seen {
            Seen::Began(turn) => {
                self.turn = turn;
                self.count(format!("turn {turn} began"));
            }
            Seen::Text(step, attempt, delta) => {
                let texts = self.texts.entry((self.turn, step)).or_default();
                texts.entry(attempt).or_default().push_str(&delta);
            }
            Seen::Withdrawn(step, attempt) => {
                let texts = self.texts.entry((self.turn, step)).or_default();
                texts.remove(&attempt);
                if texts.is_empty() {
                    self.texts.remove(&(self.turn, step));
                }
            }
            Seen::Output(call, offset, delta) => {
                let output = self.outputs.entry(call.clone()).or_default();
                if offset > output.len() {
                    let len = output.len();
                    self.wrong.push(format!("output of {call} came at {offset}, behind {len} bytes"));
                    return;
                }
                output.truncate(offset);
                output.push_str(&delta);
            }
            Seen::CallEnded(call, text) => {
                self.count(format!("call {call} ended"));
                self.results.insert(call, text);
            }
            Seen::Once(what) => self.count(what),
            Seen::Ended(turn) => self.count(format!("turn {turn} ended")),
            Seen::Resync => self.wrong.push("a follower was told to begin anew".into()),
        }
    }

    fn count(&mut self, what: String) {
        *self.counts.entry(what).or_default() += 1;
    }
}

impl Life {
    /// How what was followed differs from what is stored.
    pub(super) async fn wrong_in_what_was_followed(&self) -> Result<Vec<String>> {
        let mut applied = Applied::default();
        let mut last = None;
        for line in self.scene.place.ledger.lines() {
            if let Line::Saw(cursor, text) = line {
                let seen: Vec<Seen> = serde_json::from_str(&text).expect("what was written down");
                // Who goes on from a place is told there first what is withdrawn, and output from its beginning.
                let is_anew =
                    seen.iter().all(|one| matches!(one, Seen::Withdrawn(..) | Seen::Output(_, 0, _)));
                let passed = |last: Cursor| last.seq > cursor.seq || (last.seq == cursor.seq && !is_anew);
                if last.is_some_and(passed) {
                    applied.wrong.push(format!("a follower was told of {cursor} again: {text}"));
                }
                last = Some(cursor);
                seen.into_iter().for_each(|seen| applied.apply(seen));
            }
        }
        let mut wrong = std::mem::take(&mut applied.wrong);
        // Each of these was told, whatever else was.
        let expected = [("asked", 2), ("decided", 2), ("steered", 1), ("compacted", 1)];
        for (what, times) in expected {
            let told = applied.counts.keys().filter(|one| one.starts_with(what)).count();
            if told != times {
                wrong.push(format!("a follower was told of {told} that were {what}, not of {times}"));
            }
        }
        let twice = applied.counts.iter().filter(|(_, times)| **times > 1);
        wrong.extend(twice.map(|(what, times)| format!("a follower was told {times} times: {what}")));
        let reader = self.harness.reader(self.session.id()).await?;
        let entries = reader.entries(ROOT, None, usize::MAX).await?;
        for entry in entries.iter().rev() {
            wrong.extend(wrong_of(entry, &mut applied));
        }
        wrong.extend(applied.texts.iter().map(|(place, texts)| format!("{place:?}: only told: {texts:?}")));
        Ok(wrong)
    }
}

/// What of an entry was told wrongly.
fn wrong_of(entry: &EntryRecord, applied: &mut Applied) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut differ = |what: String, told: Option<String>, stored: &str| {
        if told.as_deref() != Some(stored) {
            wrong.push(format!("{what}: told {told:?}, stored {stored:?}"));
        }
    };
    let turn = entry.task.map_or(0, |TaskId(turn)| turn);
    for message in &entry.messages {
        match &**message {
            Message::Assistant(answer) if answer.end == End::Complete => {
                // Steps are told in order, those without a text not at all: the first that was not compared yet is this one.
                let step = applied.texts.range((turn, 0)..(turn + 1, 0)).next().map(|(place, _)| *place);
                let step = step.filter(|_| !answer.text().is_empty());
                let texts = step.and_then(|step| applied.texts.remove(&step)).unwrap_or_default();
                let told = texts.into_values().next_back().unwrap_or_default();
                differ(format!("the text of entry {}", entry.id), Some(told), &answer.text());
            }
            Message::Result(result) => {
                let told = applied.results.remove(&result.call.0);
                differ(format!("the result of {}", result.call), told, &result.text);
            }
            _ => {}
        }
    }
    if entry.kind == kind::TURN {
        let told = |what: &str| applied.counts.contains_key(&format!("turn {turn} {what}"));
        let missing = ["began", "ended"].into_iter().filter(|what| !told(what));
        wrong.extend(missing.map(|what| format!("nobody was told that turn {turn} {what}")));
    }
    wrong
}
