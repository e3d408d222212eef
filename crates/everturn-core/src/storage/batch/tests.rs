//! What writes weigh, beside the JSON that is stored of them.

use super::*;
use crate::{
    conversation::Conversation,
    entry::Entry,
    id::{ApprovalId, ConversationId, EntryId, SubmissionId},
    json::RawJson,
    policy::{Act, Effect, Layer, Verdict},
    submission::LOCAL,
    task::{Blocked, BlockedBy, Signal, TaskFailure, WaitPolicy},
    usage::RequestEnd,
};

const LONG: usize = 10_000;

fn long() -> String {
    "a".repeat(LONG)
}

fn json() -> RawJson {
    RawJson::of(&long()).expect("text is JSON")
}

fn task(state: TaskState, abort: Option<String>) -> Write {
    Write::Task(TaskRecord { state, abort, ..record_of_task() })
}

fn waiting(checkpoint: RawJson) -> TaskState {
    TaskState::Waiting { checkpoint, on: vec![TaskId(6)], policy: WaitPolicy::AllSettled, joined: false }
}

fn record_of_task() -> TaskRecord {
    TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0))
}

fn submission(state: SubmissionState) -> Write {
    let (id, conversation, request) = (SubmissionId(4), ConversationId::ROOT, Some("r-1".into()));
    let actor = LOCAL.into();
    Write::Submission(SubmissionRecord { id, conversation, request, actor, state, time: Timestamp(0) })
}

fn approval(question: Question, state: ApprovalState) -> Write {
    Write::Approval(ApprovalRecord {
        id: ApprovalId(7),
        conversation: ConversationId::ROOT,
        call: TaskId(6),
        turn: Some(TaskId(5)),
        question,
        state,
        until: None,
        time: Timestamp(0),
    })
}

/// A question of a call whose texts are as given, in their order: tool, directory, act, rule and policy.
fn call([tool, directory, act, rule, policy]: [String; 5], preview: Option<RawJson>) -> Question {
    Question::Call {
        tool,
        arguments: RawJson::empty(),
        directory: Some(directory),
        acts: vec![Act::Write(act)],
        verdict: Verdict { effect: Effect::Allow, layer: Layer::Code, rule },
        policy,
        preview,
    }
}

fn purged() -> Write {
    Write::Purge(EntryRecord {
        id: EntryId(2),
        conversation: ConversationId::ROOT,
        seq: Seq(2),
        time: Timestamp(0),
        task: None,
        entry: Entry::new("et.user").purged(&long()),
    })
}

// Checkpoints, outcomes, submissions and receipts weighed nothing, so a commit of any size kept its limit.
// Guards: whatever text or JSON a write brings, it weighs.
#[test]
fn all_text_and_json_that_a_write_brings_is_weighed() {
    let ready = || TaskState::Ready { checkpoint: None };
    let (until, signal) = (Timestamp(0), || Signal { name: "paid".into(), payload: json() });
    let blocked = Blocked { by: BlockedBy::Missing, needs: 1, message: long() };
    let ended = |outcome| task(TaskState::Ended { outcome }, None);
    let error = || TaskFailure::new("declined", long());
    let queued = |queued| submission(SubmissionState::Queued(queued));
    let settled = |end| submission(SubmissionState::Settled { end, place: None });
    let asked = |question| approval(question, ApprovalState::Open);
    let decided = |decision| {
        let state = ApprovalState::Decided { decision, actor: LOCAL.into(), time: Timestamp(9) };
        approval(call(Default::default(), None), state)
    };
    let refused = Receipt::Refused { kind: "not_found".into(), message: long() };
    for write in [
        task(TaskState::Ready { checkpoint: Some(json()) }, None),
        task(waiting(json()), None),
        task(TaskState::Sleeping { checkpoint: json(), until }, None),
        task(TaskState::Listening { checkpoint: json(), signal: "paid".into(), until: None }, None),
        task(TaskState::Listening { checkpoint: RawJson::empty(), signal: long(), until: None }, None),
        task(TaskState::Completing { outcome: TaskOutcome::Completed { output: json() } }, None),
        Write::Task(TaskRecord { memos: [("bank".into(), json())].into(), ..record_of_task() }),
        Write::Task(TaskRecord { signals: vec![signal()], ..record_of_task() }),
        Write::Task(TaskRecord { woken: Some(Woken::Signal(signal())), ..record_of_task() }),
        Write::Task(TaskRecord { blocked: Some(blocked), ..record_of_task() }),
        task(ready(), Some(long())),
        ended(TaskOutcome::Completed { output: json() }),
        ended(TaskOutcome::Failed { error: error(), output: None }),
        ended(TaskOutcome::Faulted { error: error(), output: None }),
        ended(TaskOutcome::Aborted { reason: long(), output: None }),
        ended(TaskOutcome::Orphaned { reason: long() }),
        queued(Queued { parts: vec![Part::Text(long())], ..Queued::default() }),
        queued(Queued { options: Some(json()), ..Queued::default() }),
        queued(Queued { entry: Some(json()), ..Queued::default() }),
        settled(End::Failed { reason: long() }),
        settled(End::Returned { reason: long() }),
        asked(call([long(), "".into(), "".into(), "".into(), "".into()], None)),
        asked(call(["".into(), long(), "".into(), "".into(), "".into()], None)),
        asked(call(["".into(), "".into(), long(), "".into(), "".into()], None)),
        asked(call(["".into(), "".into(), "".into(), long(), "".into()], None)),
        asked(call(["".into(), "".into(), "".into(), "".into(), long()], None)),
        asked(call(Default::default(), Some(json()))),
        asked(Question::Unknown { tool: "pay".into(), arguments: json() }),
        asked(Question::Person { text: long(), choices: vec![] }),
        asked(Question::Person { text: "which?".into(), choices: vec![long()] }),
        decided(Decision::Deny { reason: long() }),
        decided(Decision::Edit { arguments: json() }),
        decided(Decision::Happened { text: Some(long()) }),
        decided(Decision::Answer { text: long() }),
        approval(call(Default::default(), None), ApprovalState::Void { reason: long(), time: Timestamp(9) }),
        Write::Taken(Taken { key: "abort 5".into(), receipt: refused }),
        purged(),
    ] {
        let (weight, most) = (write.weight(), (LONG + 4 * RECORD) as u64);
        assert!((LONG as u64..most).contains(&weight), "{weight}: {write:?}");
    }
}

#[test]
fn many_small_records_weigh_about_what_they_store() {
    let deep = (0..50).fold(Conversation::new(ConversationId(1), None, Timestamp(0)), |parent, n| {
        parent.fork(ConversationId(1_000 + 2 * n), EntryId(999 + 2 * n), None, Timestamp(0))
    });
    let row = UsageRow {
        conversation: ConversationId::ROOT,
        turn: TaskId(5),
        step: 1,
        attempt: 1,
        model: "chat/qwen".into(),
        end: RequestEnd::Complete,
        usage: Some(crate::message::Usage { input: Some(12_345), ..Default::default() }),
        cost: Some(37_035_000),
        time: Timestamp(1_790_000_000_000),
    };
    let ready = TaskState::Ready { checkpoint: Some(RawJson::empty()) };
    let (small, asked) = (task(ready, None), submission(SubmissionState::Queued(Queued::default())));
    let question = approval(call(["write"; 5].map(str::to_owned), None), ApprovalState::Open);
    for (stored, write) in [
        (serde_json::to_string(&deep), Write::Conversation(deep)),
        (serde_json::to_string(&row), Write::Usage(row)),
        (record(&small), small),
        (record(&asked), asked),
        (record(&question), question),
    ] {
        let stored = stored.expect("it is JSON").len() as u64;
        let weight = write.weight();
        assert!((stored / 2..stored * 2).contains(&weight), "{weight} for {stored}: {write:?}");
    }
}

fn record(write: &Write) -> serde_json::Result<String> {
    match write {
        Write::Task(task) => serde_json::to_string(task),
        Write::Submission(submission) => serde_json::to_string(submission),
        Write::Approval(approval) => serde_json::to_string(approval),
        _ => Ok(String::new()),
    }
}
