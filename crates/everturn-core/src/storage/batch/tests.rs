//! What writes weigh, beside the JSON that is stored of them.

use super::*;
use crate::{
    conversation::Conversation,
    entry::Entry,
    id::{ConversationId, EntryId, SubmissionId},
    json::RawJson,
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
        time: Timestamp(1_790_000_000_000),
    };
    let ready = TaskState::Ready { checkpoint: Some(RawJson::empty()) };
    let (small, asked) = (task(ready, None), submission(SubmissionState::Queued(Queued::default())));
    for (stored, write) in [
        (serde_json::to_string(&deep), Write::Conversation(deep)),
        (serde_json::to_string(&row), Write::Usage(row)),
        (record(&small), small),
        (record(&asked), asked),
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
        _ => Ok(String::new()),
    }
}
