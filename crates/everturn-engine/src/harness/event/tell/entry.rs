//! What an entry tells a follower.

use everturn_core::{
    entry::{EntryRecord, kind},
    id::Seq,
    message::{Assistant, CallResult, End, Message, Outcome, Part},
    prompt::{Epoch, EpochReason},
};

use super::{Glance, Seen, SeenCall};
use crate::harness::{event::EventKind, history::TurnRecord, inbox::Steered, turn::Attempt};

impl Seen {
    /// What an entry tells.
    pub(super) fn entry_came(&mut self, entry: &EntryRecord, glance: &Glance) -> Vec<EventKind> {
        self.entry = entry.id;
        let told = match entry.kind.as_str() {
            kind::USER => self.user_came(entry),
            kind::ASSISTANT => self.assistant_came(entry, glance),
            kind::RESULT => self.results_came(entry),
            kind::TURN => self.turn_ended(entry),
            kind::COMPACTION => Some(vec![EventKind::Compaction { entry: entry.id }]),
            kind::EPOCH => epoch(entry),
            _ => None,
        };
        told.unwrap_or_else(|| vec![EventKind::Entry { entry: entry.id, kind: entry.kind.clone() }])
    }

    fn user_came(&mut self, entry: &EntryRecord) -> Option<Vec<EventKind>> {
        let steered = entry.data.as_ref().and_then(|data| data.read::<Steered>().ok());
        if let Some(Steered { steer }) = steered {
            return Some(vec![EventKind::Steered { submission: steer, entry: entry.id }]);
        }
        let turn = entry.task.filter(|turn| self.turn != Some(*turn))?;
        self.turn = Some(turn);
        Some(vec![EventKind::TurnStarted { turn }])
    }

    fn assistant_came(&mut self, entry: &EntryRecord, glance: &Glance) -> Option<Vec<EventKind>> {
        let attempt = entry.data.as_ref().and_then(|data| data.read::<Attempt>().ok())?;
        let message = entry.messages.iter().find_map(|message| match &**message {
            Message::Assistant(assistant) => Some(assistant),
            _ => None,
        })?;
        self.ended = entry.task.map(|turn| (turn, attempt));
        let mut told = self.grow(attempt, &message.text(), &thinking(message));
        self.shown = None;
        let Attempt { step, attempt } = attempt;
        let usage = message.usage.map(|usage| EventKind::Usage { step, usage });
        if message.end != End::Complete {
            told.push(EventKind::AttemptDiscarded { step, attempt });
            told.extend(usage);
            return Some(told);
        }
        told.extend(message.calls().map(|call| EventKind::CallProposed {
            call: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        }));
        told.extend(usage);
        for call in message.calls().map(|call| &call.id) {
            let is_started = glance.calls.get(call).is_some_and(|found| found.is_planned);
            told.extend(is_started.then(|| EventKind::CallStarted { call: call.clone() }));
            self.calls.insert(call.clone(), SeenCall { proposed: entry.seq, is_started, output: 0 });
        }
        Some(told)
    }

    fn results_came(&mut self, entry: &EntryRecord) -> Option<Vec<EventKind>> {
        let mut told = Vec::new();
        for message in &entry.messages {
            let Message::Result(result) = &**message else { continue };
            // What it had written is kept by its result alone, as far as that begins with it.
            if self.calls.get(&result.call).is_some_and(|seen| seen.output < result.shown) {
                told.extend(self.output_came(&result.call, result.shown()));
            }
            let seen = self.calls.remove(&result.call);
            if seen.is_some_and(|seen| !seen.is_started && has_started(seen.proposed, result, entry.seq)) {
                told.push(EventKind::CallStarted { call: result.call.clone() });
            }
            told.push(EventKind::CallEnded {
                call: result.call.clone(),
                outcome: result.outcome.clone(),
                text: result.text.clone(),
            });
        }
        (!told.is_empty()).then_some(told)
    }

    fn turn_ended(&mut self, entry: &EntryRecord) -> Option<Vec<EventKind>> {
        let record = entry.read::<TurnRecord>().ok().flatten()?;
        (self.shown, self.waited) = (None, None);
        self.calls.clear();
        Some(vec![EventKind::TurnEnded(record)])
    }
}

/// Whether a call whose start was not seen has started, by its end.
fn has_started(proposed: Seq, result: &CallResult, ended: Seq) -> bool {
    use Outcome::{Cancelled, Declined, Denied, InvalidArguments, Unavailable};
    let never = matches!(
        result.outcome,
        Denied { .. } | Declined { .. } | Unavailable | InvalidArguments | Cancelled
    );
    proposed != ended && !never
}

/// What an epoch tells; the first one is where a conversation begins.
fn epoch(entry: &EntryRecord) -> Option<Vec<EventKind>> {
    let reason = entry.read::<Epoch>().ok().flatten()?.reason;
    (reason != EpochReason::Start).then(|| vec![EventKind::Epoch { entry: entry.id, reason }])
}

fn thinking(message: &Assistant) -> String {
    let thinking = |part: &'_ Part| {
        if let Part::Thinking(text) = part { Some(text.clone()) } else { None }
    };
    message.parts.iter().filter_map(thinking).collect()
}
