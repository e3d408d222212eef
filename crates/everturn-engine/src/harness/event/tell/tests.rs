//! What a follower is told: what it had seen and what came, in; events, out.

use everturn_core::{
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    entry::{Entry, EntryRecord, kind},
    id::{ApprovalId, ConversationId, EntryId, Seq, SubmissionId, TaskId},
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, End, Message, Outcome, Part},
    prompt::{Epoch, EpochReason, Prompt},
};

use super::{Glance, GlanceCall, Seen};
use crate::harness::{
    event::EventKind,
    inbox::Steered,
    turn::{Attempt, Partial},
};

const TURN: TaskId = TaskId(5);

fn partial(attempt: u32, text: &str) -> Partial {
    Partial { turn: Some(TURN), step: 1, attempt, text: text.into(), ..Partial::default() }
}

/// An entry of the turn: its id is its commit's number and its time.
fn record(id: u64, entry: Entry) -> EntryRecord {
    EntryRecord {
        id: EntryId(id),
        conversation: ConversationId::ROOT,
        seq: Seq(id),
        time: Timestamp(i64::try_from(id).expect("small")),
        task: Some(TURN),
        entry,
    }
}

fn response(id: u64, attempt: u32, parts: Vec<Part>, end: End) -> EntryRecord {
    let message = Message::Assistant(Assistant { parts, end, ..Assistant::default() });
    let entry = Entry::new(kind::ASSISTANT).message(message).data(Attempt { step: 1, attempt });
    record(id, entry.expect("numbers have a JSON form"))
}

fn answer(id: u64, attempt: u32, text: &str, end: End) -> EntryRecord {
    response(id, attempt, vec![Part::Text(text.into())], end)
}

fn calls(id: u64, calls: &[&str]) -> EntryRecord {
    let call = |id: &&str| {
        Part::Call(Call {
            id: CallId((*id).into()),
            provider: None,
            name: "look".into(),
            arguments: RawJson::empty(),
        })
    };
    response(id, 1, calls.iter().map(call).collect(), End::Complete)
}

fn result(id: u64, call: &str, outcome: Outcome) -> EntryRecord {
    let result = CallResult::new(CallId(call.into()), outcome, "told");
    record(id, Entry::new(kind::RESULT).message(Message::Result(result)))
}

fn started(attempt: u32) -> EventKind {
    EventKind::RequestStarted { step: 1, attempt }
}

fn text(attempt: u32, delta: &str) -> EventKind {
    EventKind::Text { step: 1, attempt, delta: delta.into() }
}

fn glance(entries: impl Into<Vec<EntryRecord>>) -> Glance {
    Glance { entries: entries.into(), ..Glance::default() }
}

impl Glance {
    fn with_partial(self, partial: Partial, seq: u64) -> Self {
        Self { partial: Some((partial, Seq(seq))), ..self }
    }

    fn with_call(mut self, call: &str, found: GlanceCall) -> Self {
        self.calls.insert(CallId(call.into()), found);
        self
    }

    fn with_approval(mut self, approval: ApprovalRecord) -> Self {
        self.approvals.push(approval);
        self
    }
}

fn planned() -> GlanceCall {
    GlanceCall { is_planned: true, is_ready: true, output: None }
}

fn written(text: &str, seq: u64) -> GlanceCall {
    GlanceCall { output: Some((text.into(), Seq(seq))), ..planned() }
}

fn asked(id: u64, call: u64, decided: Option<i64>) -> ApprovalRecord {
    let state = match decided {
        Some(time) => {
            ApprovalState::Decided { decision: Decision::Allow, actor: "local".into(), time: Timestamp(time) }
        }
        None => ApprovalState::Open,
    };
    ApprovalRecord {
        id: ApprovalId(id),
        conversation: ConversationId::ROOT,
        call: TaskId(call),
        turn: Some(TURN),
        question: Question::Person { text: "?".into(), choices: Vec::new() },
        state,
        until: None,
        time: Timestamp(0),
    }
}

fn kinds(seen: &mut Seen, glance: &Glance) -> Vec<EventKind> {
    seen.tell(glance).into_iter().map(|(_, kind)| kind).collect()
}

/// Events in words: the type and the call that it is about.
fn words(seen: &mut Seen, glance: &Glance) -> Vec<String> {
    let word = |(_, kind): (Seq, EventKind)| {
        let json = serde_json::to_value(&kind).expect("events have a JSON form");
        let about = |name: &str| json.get(name).and_then(|it| it.as_str().map(str::to_owned));
        let about = about("call").or_else(|| about("delta")).map(|about| format!(" {about}"));
        format!("{}{}", json["type"].as_str().expect("a type"), about.unwrap_or_default())
    };
    seen.tell(glance).into_iter().map(word).collect()
}

#[test]
fn deltas_are_what_was_not_seen_yet() {
    let mut seen = Seen::after(EntryId(1));
    assert_eq!(seen.partial_came(&partial(1, "né")), [started(1), text(1, "né")]);
    assert_eq!(seen.partial_came(&partial(1, "né")), [], "nothing new is nothing to tell");
    assert_eq!(seen.partial_came(&partial(1, "né 🙂 z")), [text(1, " 🙂 z")]);
    let told = kinds(&mut seen, &glance([answer(9, 1, "né 🙂 zoë", End::Complete)]));
    assert_eq!(told, [text(1, "oë")]);
    assert_eq!(seen.partial_came(&partial(1, "né 🙂 zoë")), [], "what an entry said is old");
}

#[test]
fn a_slow_follower_is_told_everything_at_once() {
    let mut seen = Seen::after(EntryId(1));
    let told = kinds(&mut seen, &glance([answer(9, 1, "all of it", End::Complete)]));
    assert_eq!(told, [started(1), text(1, "all of it")]);
}

#[test]
fn what_a_cut_attempt_has_shown_is_withdrawn_before_the_next_one_begins() {
    let mut seen = Seen::after(EntryId(1));
    seen.partial_came(&partial(1, "half"));
    let told = kinds(&mut seen, &glance([answer(9, 1, "half of", End::Aborted)]));
    assert_eq!(told, [text(1, " of"), EventKind::AttemptDiscarded { step: 1, attempt: 1 }]);
    assert_eq!(seen.partial_came(&partial(1, "half of it")), [], "the attempt has ended");
    assert_eq!(seen.partial_came(&partial(2, "whole")), [started(2), text(2, "whole")]);
}

#[test]
fn what_a_power_cut_took_is_withdrawn() {
    let mut seen = Seen::after(EntryId(1));
    seen.partial_came(&partial(1, "two words"));
    let told = seen.partial_came(&partial(1, "two"));
    assert_eq!(told, [EventKind::AttemptDiscarded { step: 1, attempt: 1 }, started(1), text(1, "two")]);
}

#[test]
fn a_partial_response_stands_at_its_place_among_the_entries() {
    let notice = |id| record(id, Entry::new(kind::NOTICE));
    let told = words(&mut Seen::after(EntryId(1)), &glance([notice(3)]).with_partial(partial(1, "a"), 4));
    assert_eq!(told, ["entry", "request_started", "text a"]);
    let told = words(&mut Seen::after(EntryId(1)), &glance([notice(5)]).with_partial(partial(1, "a"), 4));
    assert_eq!(told, ["entry"], "what came behind it makes it old");
}

#[test]
fn a_wait_before_another_attempt_is_told_once() {
    let mut seen = Seen::after(EntryId(1));
    let waiting = Partial { until: Some(Timestamp(7)), ..partial(2, "") };
    let retry = EventKind::Retry { step: 1, attempt: 2, until: Timestamp(7) };
    assert_eq!(seen.partial_came(&waiting), [retry]);
    assert_eq!(seen.partial_came(&waiting), []);
    assert_eq!(seen.partial_came(&partial(2, "a")), [started(2), text(2, "a")]);

    let held = |until| Partial { is_held: true, until, ..partial(3, "") };
    let waiting = |until| EventKind::Waiting { step: 1, attempt: 3, until };
    for until in [None, Some(Timestamp(8)), Some(Timestamp(9)), None] {
        assert_eq!(seen.partial_came(&held(until)), [waiting(until)], "each for itself");
        assert_eq!(seen.partial_came(&held(until)), []);
    }
    assert_eq!(seen.partial_came(&partial(3, "a")), [started(3), text(3, "a")]);
}

#[test]
fn the_first_input_of_a_turn_begins_it_and_the_others_do_not() {
    let user = |id| record(id, Entry::new(kind::USER).message(Message::user("a")));
    let steered = Entry::new(kind::USER).data(Steered { steer: SubmissionId(8) }).expect("a number");
    let told = kinds(&mut Seen::after(EntryId(1)), &glance([user(2), user(3), record(9, steered)]));
    assert_eq!(
        told,
        [
            EventKind::TurnStarted { turn: TURN },
            EventKind::Entry { entry: EntryId(3), kind: kind::USER.into() },
            EventKind::Steered { submission: SubmissionId(8), entry: EntryId(9) },
        ]
    );
}

#[test]
fn every_entry_is_told_of() {
    let epoch = |reason| {
        let epoch = Epoch { reason, family: "f".into(), prompt: Prompt::default() };
        Entry::of(&epoch).expect("words have a JSON form")
    };
    let entries = [
        record(2, epoch(EpochReason::Start)),
        record(3, epoch(EpochReason::Tools)),
        record(4, Entry::new(kind::COMPACTION)),
        record(5, Entry::new("app.note")),
        // Purged, or written by someone else.
        record(6, Entry::new(kind::ASSISTANT)),
        record(7, Entry::new(kind::RESULT)),
        record(8, Entry::new(kind::TURN)),
    ];
    let told = words(&mut Seen::after(EntryId(1)), &glance(entries));
    assert_eq!(told, ["entry", "epoch", "compaction", "entry", "entry", "entry", "entry"]);
}

#[test]
fn a_call_that_may_run_starts_with_its_response_whenever_one_looks() {
    let late = glance([calls(10, &["c8", "c9"]), result(12, "c8", Outcome::Ok)]);
    let late = late.with_call("c8", planned()).with_call("c9", planned());
    let told = words(&mut Seen::after(EntryId(1)), &late);
    let proposed =
        ["request_started", "call_proposed c8", "call_proposed c9", "call_started c8", "call_started c9"];
    assert_eq!(told[..5], proposed);
    assert_eq!(told[5..], ["call_ended c8"]);

    let mut seen = Seen::after(EntryId(1));
    let first = glance([calls(10, &["c8", "c9"])]).with_call("c8", planned()).with_call("c9", planned());
    assert_eq!(words(&mut seen, &first), proposed);
    assert_eq!(words(&mut seen, &glance([result(12, "c8", Outcome::Ok)])), ["call_ended c8"]);
}

#[test]
fn a_call_that_never_ran_never_started() {
    let denied = || Outcome::Denied { rule: "deny".into() };
    for (ended, outcome, has_started) in [
        (10, denied(), false),
        (10, Outcome::Error, false),
        (12, denied(), false),
        (12, Outcome::Declined { by: "a".into(), reason: "b".into() }, false),
        (12, Outcome::Cancelled, false),
        (12, Outcome::Ok, true),
        (12, Outcome::Error, true),
        (12, Outcome::TimedOut, true),
        (12, Outcome::Unknown, true),
    ] {
        let mut result = result(12, "c8", outcome.clone());
        result.seq = Seq(ended);
        let told = words(&mut Seen::after(EntryId(1)), &glance([calls(10, &["c8"]), result]));
        assert_eq!(told.contains(&"call_started c8".to_owned()), has_started, "{outcome:?} at {ended}");
    }
}

#[test]
fn output_is_told_by_its_offset_and_before_the_end_of_its_call() {
    let mut seen = Seen::after(EntryId(1));
    seen.tell(&glance([calls(10, &["c8"])]).with_call("c8", planned()));
    let output =
        |offset, delta: &str| EventKind::Output { call: CallId("c8".into()), offset, delta: delta.into() };
    assert_eq!(kinds(&mut seen, &glance([]).with_call("c8", written("né", 11))), [output(0, "né")]);
    assert_eq!(kinds(&mut seen, &glance([]).with_call("c8", written("né", 11))), []);
    let last = glance([result(14, "c8", Outcome::Ok)]).with_call("c8", written("né\nzoë", 13));
    let told = kinds(&mut seen, &last);
    assert_eq!(told[0], output(3, "\nzoë"), "offsets are in bytes");
    assert!(matches!(told[1], EventKind::CallEnded { .. }));
    assert_eq!(told.len(), 2);
}

// Guards: what a call had written is kept by its result alone, and whoever comes late is told the same.
#[test]
fn output_of_a_call_that_has_ended_is_told_from_its_result() {
    let ended = |shown| {
        let result =
            CallResult { shown, ..CallResult::new(CallId("c8".into()), Outcome::Ok, "né\nzoë\nend") };
        glance([record(14, Entry::new(kind::RESULT).message(Message::Result(result)))])
    };
    let output =
        |offset, delta: &str| EventKind::Output { call: CallId("c8".into()), offset, delta: delta.into() };
    let seen = |output: &str| {
        let mut seen = Seen::after(EntryId(1));
        seen.tell(&glance([calls(10, &["c8"])]).with_call("c8", planned()));
        seen.tell(&glance([]).with_call("c8", written(output, 11)));
        seen
    };
    let told = kinds(&mut seen(""), &ended(9));
    assert_eq!((told.len(), &told[0]), (2, &output(0, "né\nzoë\n")), "all that was shown, and no more");
    assert_eq!(kinds(&mut seen("né\n"), &ended(9))[0], output(4, "zoë\n"), "what was not seen");
    let told = kinds(&mut seen("né\nzoë\n and what was cut"), &ended(9));
    assert!(matches!(told[..], [EventKind::CallEnded { .. }]), "nothing is withdrawn: {told:?}");
}

#[test]
fn questions_stand_where_they_were_asked_and_decided() {
    let asking = GlanceCall::default;
    let late =
        glance([calls(10, &["c8", "c9"]), result(20, "c9", Outcome::Ok), result(30, "c8", Outcome::Ok)]);
    let late =
        late.with_approval(asked(11, 8, Some(15))).with_call("c8", asking()).with_call("c9", planned());
    let all = words(&mut Seen::after(EntryId(1)), &late);
    let told = [
        "call_started c9",
        "approval_asked",
        "approval_decided",
        "call_ended c9",
        "call_started c8",
        "call_ended c8",
    ];
    assert_eq!(all[3..], told);

    let mut seen = Seen::after(EntryId(1));
    let first = glance([calls(10, &["c8", "c9"])]).with_call("c8", asking()).with_call("c9", planned());
    let first = words(&mut seen, &first.with_approval(asked(11, 8, None)));
    assert_eq!(first[3..], told[..2]);
    assert_eq!(words(&mut seen, &glance([]).with_approval(asked(11, 8, None))), [""; 0], "once");
    assert_eq!(seen.asks_from(), ApprovalId(11), "it may still be decided");
    let decided = glance([result(20, "c9", Outcome::Ok)]).with_approval(asked(11, 8, Some(15)));
    assert_eq!(words(&mut seen, &decided), told[2..4]);
    assert_eq!(seen.asks_from(), ApprovalId(12));
    let ready = GlanceCall { is_ready: true, ..asking() };
    assert_eq!(words(&mut seen, &glance([]).with_call("c8", ready.clone())), told[4..5]);
    assert_eq!(words(&mut seen, &glance([]).with_call("c8", ready)), [""; 0], "once");
    assert_eq!(words(&mut seen, &glance([result(30, "c8", Outcome::Ok)])), told[5..]);
}

#[test]
fn what_stands_behind_the_entries_waits_until_all_of_them_were_read() {
    let mut seen = Seen::after(EntryId(1));
    let cut = Glance { is_cut: true, ..glance([calls(10, &["c8"])]).with_call("c8", written("a", 12)) };
    let told = words(&mut seen, &cut.with_approval(asked(13, 8, None)));
    assert_eq!(told, ["request_started", "call_proposed c8", "call_started c8"]);
    let rest = glance([]).with_call("c8", written("a", 12)).with_approval(asked(13, 8, None));
    assert_eq!(words(&mut seen, &rest), ["approval_asked", "output c8"]);
}

#[test]
fn events_never_go_back_to_an_earlier_commit() {
    let mut seen = Seen::after(EntryId(1)).at(Seq(9));
    let asking = glance([calls(10, &["c8"])]).with_approval(asked(11, 8, None));
    let seqs = |told: Vec<(Seq, EventKind)>| -> Vec<u64> { told.into_iter().map(|(seq, _)| seq.0).collect() };
    let head = |glance, head| Glance { head: Seq(head), ..glance };
    assert_eq!(seqs(seen.tell(&head(asking, 10))), [10; 3]);
    let decided = glance([]).with_approval(asked(11, 8, Some(15)));
    assert_eq!(seqs(seen.tell(&head(decided, 14))), [11], "the first that it can be");
    assert_eq!(seqs(seen.tell(&head(glance([result(20, "c8", Outcome::Ok)]), 20))), [20; 2]);
}
