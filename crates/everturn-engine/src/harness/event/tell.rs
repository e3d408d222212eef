//! How far a follower has seen, and what it is told next: pure.

mod entry;

use std::collections::{BTreeMap, BTreeSet};

use everturn_core::{
    approval::{ApprovalRecord, ApprovalState},
    clock::Timestamp,
    entry::EntryRecord,
    id::{ApprovalId, EntryId, Seq, TaskId},
    message::{CallId, Message},
};

use super::EventKind;
use crate::harness::turn::{Attempt, Partial};

/// How far a follower has seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    entry: EntryId,
    turn: Option<TaskId>,
    shown: Option<Shown>,
    /// The newest attempt whose entry was seen: what its partial response still says is old.
    ended: Option<(TaskId, Attempt)>,
    /// The newest attempt of which was told that it waits, and until when.
    waited: Option<(TaskId, Attempt, Option<Timestamp>)>,
    /// The calls that have not ended.
    calls: BTreeMap<CallId, SeenCall>,
    /// The newest approval that was told of.
    asked: ApprovalId,
    /// Those of them that were open.
    open: BTreeSet<ApprovalId>,
    /// Up to where commits were looked at: what comes is of a later one.
    head: Seq,
    /// The newest commit that was told of.
    told: Seq,
}

/// What an attempt has shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    attempt: Attempt,
    /// Bytes of text and of thinking.
    text: usize,
    thinking: usize,
}

/// What was seen of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenCall {
    /// The commit that proposed it; the first of all, where that was not seen.
    pub(super) proposed: Seq,
    pub(super) is_started: bool,
    /// Bytes of output.
    pub(super) output: usize,
}

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Glance {
    /// The newest commit before anything else was read.
    pub(super) head: Seq,
    /// Entries that were not seen, oldest first. Read behind the partial response, and before the calls.
    pub(super) entries: Vec<EntryRecord>,
    /// Whether there are more of them.
    pub(super) is_cut: bool,
    /// The partial response, and the commit that made it so.
    pub(super) partial: Option<(Partial, Seq)>,
    /// The calls that have not ended, or that the entries propose.
    pub(super) calls: BTreeMap<CallId, GlanceCall>,
    /// Approvals that were not told of, or were open, in the order of their ids.
    pub(super) approvals: Vec<ApprovalRecord>,
}

/// What a look found of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct GlanceCall {
    /// Whether its intent was committed with the response.
    pub(super) is_planned: bool,
    /// Whether its intent is committed by now, and it has not ended.
    pub(super) is_ready: bool,
    /// What it has written, and the commit that made it so.
    pub(super) output: Option<(String, Seq)>,
}

/// What is told beside the entries.
#[derive(Clone, Copy)]
enum Beside<'a> {
    Asked(&'a ApprovalRecord),
    Decided(&'a ApprovalRecord),
    Started(&'a CallId),
    Output(&'a CallId, &'a str, Seq),
    Partial(&'a Partial, Seq),
}

impl Seen {
    /// Everything up to an entry.
    pub(super) fn after(entry: EntryId) -> Self {
        Self {
            entry,
            turn: None,
            shown: None,
            ended: None,
            waited: None,
            calls: BTreeMap::new(),
            asked: ApprovalId(entry.0),
            open: BTreeSet::new(),
            head: Seq(0),
            told: Seq(0),
        }
    }

    /// The same, with nothing told of later commits.
    pub(super) fn at(self, head: Seq) -> Self {
        Self { head, told: head, ..self }
    }

    /// The same in the midst of a turn, of which this attempt was the last that ended.
    pub(super) fn in_turn(self, turn: Option<TaskId>, ended: Option<Attempt>) -> Self {
        Self { turn, ended: turn.zip(ended), ..self }
    }

    /// The same with a call that has not ended.
    pub(super) fn with_call(mut self, call: CallId, seen: SeenCall) -> Self {
        self.calls.insert(call, seen);
        self
    }

    /// The same with an approval that was told of.
    pub(super) fn with_approval(mut self, id: ApprovalId, is_open: bool) -> Self {
        self.asked = self.asked.max(id);
        if is_open {
            self.open.insert(id);
        }
        self
    }

    pub(super) fn entry(&self) -> EntryId {
        self.entry
    }

    /// The calls that have not ended.
    pub(super) fn calls(&self) -> impl Iterator<Item = &CallId> {
        self.calls.keys()
    }

    /// The approvals that are open, as far as was seen.
    pub(super) fn open(&self) -> &BTreeSet<ApprovalId> {
        &self.open
    }

    /// The first approval of which more could be told.
    pub(super) fn asks_from(&self) -> ApprovalId {
        let next = ApprovalId(self.asked.0 + 1);
        self.open.first().map_or(next, |open| next.min(*open))
    }

    /// What a look tells, each with its commit. Of what carries no mark of its commit, the earliest that it can be.
    pub(super) fn tell(&mut self, glance: &Glance) -> Vec<(Seq, EventKind)> {
        let mut beside = self.beside(glance);
        if glance.is_cut {
            beside.retain(|(at, _)| *at < glance.entries.len());
        }
        let mut beside = beside.into_iter().peekable();
        let mut told = Vec::new();
        for at in 0..=glance.entries.len() {
            while let Some((_, one)) = beside.next_if(|(place, _)| *place == at) {
                let (seq, kinds) = self.beside_came(one);
                self.put(&mut told, seq, kinds);
            }
            if let Some(entry) = glance.entries.get(at) {
                let kinds = self.entry_came(entry, glance);
                self.put(&mut told, Some(entry.seq), kinds);
            }
        }
        if !glance.is_cut {
            self.head = self.head.max(glance.head);
        }
        told
    }

    fn put(&mut self, told: &mut Vec<(Seq, EventKind)>, seq: Option<Seq>, kinds: Vec<EventKind>) {
        if kinds.is_empty() {
            return;
        }
        let seq = seq.unwrap_or(Seq(self.head.0 + 1)).max(self.told);
        self.told = seq;
        told.extend(kinds.into_iter().map(|kind| (seq, kind)));
    }

    /// What stands beside the entries, each with the entry that it comes before.
    fn beside<'a>(&self, glance: &'a Glance) -> Vec<(usize, Beside<'a>)> {
        let entries = &glance.entries;
        let behind = |seq: Seq| entries.partition_point(|entry| entry.seq <= seq);
        let mut beside = Vec::new();
        for approval in &glance.approvals {
            let is_new = approval.id > self.asked;
            let asked = if is_new { entries.partition_point(|entry| entry.id.0 < approval.id.0) } else { 0 };
            if is_new {
                beside.push((asked, Beside::Asked(approval)));
            }
            if let Some(time) = over(approval).filter(|_| is_new || self.open.contains(&approval.id)) {
                let call = crate::harness::call::call_id(approval.call);
                let is_later = |entry: &EntryRecord| entry.time > time || ends(entry, &call);
                let later = entries[asked..].iter().position(is_later);
                beside.push((later.map_or(entries.len(), |at| asked + at), Beside::Decided(approval)));
            }
        }
        for (call, found) in &glance.calls {
            if found.is_ready && !found.is_planned {
                beside.push((entries.len(), Beside::Started(call)));
            }
        }
        let outputs = glance.calls.iter().filter_map(|(call, found)| Some((call, found.output.as_ref()?)));
        let mut outputs: Vec<_> = outputs.collect();
        outputs.sort_by_key(|(_, (_, seq))| *seq);
        for (call, (text, seq)) in outputs {
            beside.push((behind(*seq), Beside::Output(call, text, *seq)));
        }
        if let Some((partial, seq)) = &glance.partial {
            let at = behind(*seq);
            // An entry of its turn behind it makes it old.
            if !entries[at..].iter().any(|entry| entry.task == partial.turn) {
                beside.push((at, Beside::Partial(partial, *seq)));
            }
        }
        beside.sort_by_key(|(at, _)| *at);
        beside
    }

    fn beside_came(&mut self, one: Beside<'_>) -> (Option<Seq>, Vec<EventKind>) {
        match one {
            Beside::Asked(approval) => {
                self.asked = self.asked.max(approval.id);
                self.open.insert(approval.id);
                // As it was asked, whatever has become of it.
                let approval = ApprovalRecord { state: ApprovalState::Open, ..approval.clone() };
                (None, vec![EventKind::ApprovalAsked { approval }])
            }
            Beside::Decided(approval) => {
                self.open.remove(&approval.id);
                (None, vec![EventKind::ApprovalDecided { approval: approval.clone() }])
            }
            Beside::Started(call) => match self.calls.get_mut(call) {
                Some(seen) if !seen.is_started => {
                    seen.is_started = true;
                    (None, vec![EventKind::CallStarted { call: call.clone() }])
                }
                _ => (None, Vec::new()),
            },
            Beside::Output(call, text, seq) => (Some(seq), self.output_came(call, text)),
            Beside::Partial(partial, seq) => (Some(seq), self.partial_came(partial)),
        }
    }

    /// What a call has written beyond what was seen of it.
    pub(super) fn output_came(&mut self, call: &CallId, text: &str) -> Vec<EventKind> {
        let Some(seen) = self.calls.get_mut(call) else { return Vec::new() };
        if text.len() < seen.output {
            // A power cut took what was seen.
            seen.output = 0;
        }
        let offset = std::mem::replace(&mut seen.output, text.len());
        match text.get(offset..).filter(|delta| !delta.is_empty()) {
            Some(delta) => {
                let started = std::mem::replace(&mut seen.is_started, true);
                let started = (!started).then(|| EventKind::CallStarted { call: call.clone() });
                let output = EventKind::Output { call: call.clone(), offset, delta: delta.into() };
                started.into_iter().chain([output]).collect()
            }
            None => Vec::new(),
        }
    }

    /// What a partial response tells.
    pub(super) fn partial_came(&mut self, partial: &Partial) -> Vec<EventKind> {
        let Some(turn) = partial.turn else { return Vec::new() };
        let attempt = Attempt { step: partial.step, attempt: partial.attempt };
        let is_old = self.ended.is_some_and(|ended| (turn, attempt) <= ended);
        // The partial response of a turn whose beginning was not seen belongs to another follower.
        if is_old || self.turn.is_some_and(|seen| seen != turn) {
            return Vec::new();
        }
        if !partial.is_waiting() {
            return self.grow(attempt, &partial.text, &partial.thinking);
        }
        let waits = Some((turn, attempt, partial.until));
        if std::mem::replace(&mut self.waited, waits) == waits {
            return Vec::new();
        }
        let Attempt { step, attempt } = attempt;
        vec![match partial.until.filter(|_| !partial.is_held) {
            Some(until) => EventKind::Retry { step, attempt, until },
            None => EventKind::Waiting { step, attempt, until: partial.until },
        }]
    }

    /// What an attempt has shown beyond what was seen of it.
    fn grow(&mut self, attempt: Attempt, text: &str, thinking: &str) -> Vec<EventKind> {
        let mut told = Vec::new();
        let Attempt { step, attempt: number } = attempt;
        let known = self.shown.filter(|shown| shown.attempt == attempt);
        let is_lost = known.is_some_and(|shown| text.len() < shown.text || thinking.len() < shown.thinking);
        if is_lost {
            // A power cut took what was seen.
            told.push(EventKind::AttemptDiscarded { step, attempt: number });
        }
        let mut shown = known.filter(|_| !is_lost).unwrap_or_else(|| {
            told.push(EventKind::RequestStarted { step, attempt: number });
            Shown { attempt, text: 0, thinking: 0 }
        });
        let attempt = number;
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

/// Since when an approval is no longer open.
fn over(approval: &ApprovalRecord) -> Option<Timestamp> {
    match approval.state {
        ApprovalState::Open => None,
        ApprovalState::Decided { time, .. } | ApprovalState::Void { time, .. } => Some(time),
    }
}

/// Whether an entry has the result of a call.
fn ends(entry: &EntryRecord, call: &CallId) -> bool {
    entry.messages.iter().any(|message| matches!(&**message, Message::Result(result) if result.call == *call))
}

#[cfg(test)]
mod tests;
