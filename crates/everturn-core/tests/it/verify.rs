//! Verification of sessions: of those that were trimmed, and of what their questions refer to.

use everturn_core::{
    approval::{ApprovalRecord, ApprovalState, Question},
    clock::Timestamp,
    conversation::Conversation,
    entry::{Entry, EntryRecord},
    id::{ApprovalId, ConversationId, EntryId, Epoch, Seq, SubmissionId, TaskId},
    json::RawJson,
    storage::{NewSession, SessionRow},
    submission::{End, LOCAL, SubmissionRecord, SubmissionState},
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

/// What an approval refers to, and where it stands.
fn approval(id: u64, [conversation, call, turn]: [u64; 3], state: ApprovalState) -> ApprovalRecord {
    ApprovalRecord {
        id: ApprovalId(id),
        conversation: ConversationId(conversation),
        call: TaskId(call),
        turn: Some(TaskId(turn)),
        question: Question::Person { text: "which?".into(), choices: vec![] },
        state,
        until: None,
        time: Timestamp(0),
    }
}

#[test]
fn an_approval_is_open_while_its_call_lives() {
    let over = || ApprovalState::Void { reason: "it expired".into(), time: Timestamp(1) };
    for (what, floor, approval, expected) in [
        ("its call waits", 0, approval(9, [1, 8, 8], ApprovalState::Open), &[][..]),
        ("its call has ended", 0, approval(9, [1, 6, 8], over()), &[]),
        (
            "its call has ended",
            0,
            approval(9, [1, 6, 8], ApprovalState::Open),
            &["approval 9: it is open, and its call, task 6, is not live"],
        ),
        (
            "nothing was trimmed",
            0,
            approval(9, [1, 5, 5], over()),
            &["approval 9: its call, task 5, is not there", "approval 9: its turn, task 5, is not there"],
        ),
        ("they were trimmed", 4, approval(9, [1, 5, 5], over()), &[]),
        (
            "they were trimmed",
            4,
            approval(9, [1, 5, 5], ApprovalState::Open),
            &["approval 9: it is open, and its call, task 5, is not live"],
        ),
        (
            "it is nowhere",
            0,
            approval(9, [7, 8, 8], ApprovalState::Open),
            &["approval 9: its conversation, 7, is not there"],
        ),
        (
            "it has another's id",
            0,
            approval(8, [1, 8, 8], ApprovalState::Open),
            &["approval 8: its id is that of a task too"],
        ),
        (
            "it has an id that nobody gave out",
            0,
            approval(21, [1, 8, 8], ApprovalState::Open),
            &["approval 21: its id is beyond the greatest that was given out, 20"],
        ),
    ] {
        let mut stored = stored(floor);
        stored.tasks = awaited();
        // Whose task it was is no matter here.
        stored.tasks[0].owner = None;
        stored.approvals.push(approval);
        let found: Vec<String> = stored.verify().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn what_was_written_is_in_the_transcript() {
    for (entry, expected) in
        [(2, &[][..]), (3, &["submission 9: entry 3, as which it was written, is not there"])]
    {
        let mut stored = stored(0);
        stored.submissions.push(SubmissionRecord {
            id: SubmissionId(9),
            conversation: ROOT,
            request: None,
            actor: LOCAL.into(),
            state: SubmissionState::Settled { end: End::Written { entry: EntryId(entry) }, place: None },
            time: Timestamp(0),
        });
        let found: Vec<String> = stored.verify().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }
}
