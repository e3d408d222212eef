//! What a follower is told: what it had seen and what came, in; events, out.

use everturn_core::{
    clock::Timestamp,
    entry::{Entry, EntryRecord, kind},
    id::{ConversationId, EntryId, Seq, TaskId},
    message::{Assistant, End, Message, Part},
};

use super::Seen;
use crate::harness::{
    event::EventKind,
    turn::{Attempt, Partial},
};

const TURN: TaskId = TaskId(5);

fn partial(attempt: u32, text: &str) -> Partial {
    Partial { turn: Some(TURN), step: 1, attempt, text: text.into(), ..Partial::default() }
}

fn answer(id: u64, attempt: u32, text: &str, end: End) -> EntryRecord {
    let parts = vec![Part::Text(text.into())];
    let message = Message::Assistant(Assistant { parts, end, ..Assistant::default() });
    let entry = Entry::new(kind::ASSISTANT).message(message).data(Attempt { step: 1, attempt });
    EntryRecord {
        id: EntryId(id),
        conversation: ConversationId::ROOT,
        seq: Seq(id),
        time: Timestamp(0),
        task: Some(TURN),
        entry: entry.expect("numbers have a JSON form"),
    }
}

fn started(attempt: u32) -> EventKind {
    EventKind::RequestStarted { step: 1, attempt }
}

fn text(attempt: u32, delta: &str) -> EventKind {
    EventKind::Text { step: 1, attempt, delta: delta.into() }
}

#[test]
fn deltas_are_what_was_not_seen_yet() {
    let mut seen = Seen::after(EntryId(1));
    assert_eq!(seen.partial_came(&partial(1, "né")), [started(1), text(1, "né")]);
    assert_eq!(seen.partial_came(&partial(1, "né")), [], "nothing new is nothing to tell");
    assert_eq!(seen.partial_came(&partial(1, "né 🙂 z")), [text(1, " 🙂 z")]);
    assert_eq!(seen.entry_came(&answer(9, 1, "né 🙂 zoë", End::Complete)), [text(1, "oë")]);
    assert_eq!(seen.partial_came(&partial(1, "né 🙂 zoë")), [], "what an entry said is old");
}

#[test]
fn a_slow_follower_is_told_everything_at_once() {
    let mut seen = Seen::after(EntryId(1));
    let told = seen.entry_came(&answer(9, 1, "all of it", End::Complete));
    assert_eq!(told, [started(1), text(1, "all of it")]);
}

#[test]
fn what_a_cut_attempt_has_shown_is_withdrawn_before_the_next_one_begins() {
    let mut seen = Seen::after(EntryId(1));
    seen.partial_came(&partial(1, "half"));
    let told = seen.entry_came(&answer(9, 1, "half of", End::Aborted));
    assert_eq!(told, [text(1, " of"), EventKind::AttemptDiscarded { step: 1, attempt: 1 }]);
    assert_eq!(seen.partial_came(&partial(1, "half of it")), [], "the attempt has ended");
    assert_eq!(seen.partial_came(&partial(2, "whole")), [started(2), text(2, "whole")]);
}
