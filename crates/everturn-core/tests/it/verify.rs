//! Verification of sessions that were trimmed.

use everturn_core::{
    clock::Timestamp,
    conversation::Conversation,
    entry::{Entry, EntryRecord},
    id::{ConversationId, EntryId, Epoch, Seq, TaskId},
    json::RawJson,
    storage::{NewSession, SessionRow},
    task::{TaskOutcome, TaskRecord, TaskState, WaitPolicy},
    verify::Stored,
};

const ROOT: ConversationId = ConversationId::ROOT;

/// A session at commit 9 that gave out ids up to 20, with entries in commits 2 and 8.
fn stored(floor: u64) -> Stored {
    let row = SessionRow {
        id: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
        new: NewSession::default(),
        created: Timestamp(0),
        used: Timestamp(0),
        head: Seq(9),
        epoch: Epoch(1),
        minted: 20,
        bytes: 0,
        owner: None,
    };
    let entry = |id, seq| EntryRecord {
        id: EntryId(id),
        conversation: ROOT,
        seq: Seq(seq),
        time: Timestamp(0),
        task: None,
        entry: Entry::new("et.user"),
    };
    let conversations = vec![Conversation::new(ROOT, None, Timestamp(0))];
    Stored { floor: Seq(floor), conversations, entries: vec![entry(2, 2), entry(12, 8)], ..Stored::new(row) }
}

/// Task 6 has ended and was task 5's, as conversation 7 was; task 8 still waits for it. Task 5 is gone.
fn awaited() -> Vec<TaskRecord> {
    let task = |id| TaskRecord::new(TaskId(id), ROOT, "app.pay", Timestamp(0));
    let mut member = TaskRecord { owner: Some(TaskId(5)), ..task(6) };
    member.end(TaskOutcome::Completed { output: RawJson::empty() }, Timestamp(1));
    let (checkpoint, on, policy) = (RawJson::empty(), vec![member.id], WaitPolicy::AllSettled);
    let state = TaskState::Waiting { checkpoint, on, policy, joined: false };
    vec![member, TaskRecord { state, ..task(8) }]
}

// Only what was older than an entry up to the floor counted as trimmed: of work behind the last of them, what a trim kept for who
// waits for it was said to hang on nothing. Guards that such a session agrees with itself, and that what no trim took is missed.
#[test]
fn what_a_kept_task_refers_to_may_have_been_trimmed() {
    let gone = ["conversation 7: its owner, task 5, is not there", "task 6: its owner, task 5, is not there"];
    for (what, floor, last, expected) in [
        ("nothing was trimmed", 0, 12, &gone[..]),
        ("it was given out before the first entry behind the floor", 4, 12, &[]),
        ("no entry came behind the floor", 8, 12, &[]),
        ("it was given out behind an entry behind the floor", 4, 4, &gone[..]),
    ] {
        let mut stored = stored(floor);
        stored.entries[1].id = EntryId(last);
        stored.conversations.push(Conversation::new(ConversationId(7), Some(TaskId(5)), Timestamp(0)));
        stored.tasks = awaited();
        let found: Vec<String> = stored.verify().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{what}");
    }
}
