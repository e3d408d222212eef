//! The file as people and other programs find it.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path};

use everturn_core::{
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    id::{ApprovalId, ConversationId, EntryId, SubmissionId, TaskId},
    json::RawJson,
    policy::{Effect, Layer, Verdict},
    submission::{Delivery, End, Late, Place, Queued, SubmissionRecord, SubmissionState},
    task::{Blocked, BlockedBy, Signal, TaskFailure, TaskOutcome, TaskRecord, TaskState, WaitPolicy, Woken},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, owner},
};
use rusqlite::Connection;
use serde::Serialize;

use crate::files::Temporary;

const FORMAT: &str = include_str!("../../../../docs/format.md");

fn names(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

#[test]
fn every_table_and_column_is_described() {
    let file = Temporary::new();
    drop(block_on(file.open()));
    let db = Connection::open(file.path()).unwrap();
    // The tables behind the full-text index are SQLite's own.
    let tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')
        AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";
    for table in names(&db, tables) {
        let (_, chapter) = FORMAT.split_once(&format!("\n## {table}\n")).unwrap_or_else(|| panic!("{table}"));
        let chapter = chapter.split("\n## ").next().unwrap_or(chapter);
        for column in names(&db, &format!("SELECT name FROM pragma_table_info('{table}')")) {
            assert!(chapter.contains(&format!("\n| `{column}` | ")), "{table}.{column}");
        }
    }
    let indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
    for index in names(&db, indexes) {
        assert!(FORMAT.contains(&format!("`{index}`")), "index {index}");
    }
}

/// A task whose every field has something to say, in a state.
fn talkative(state: TaskState) -> TaskRecord {
    let signal = Signal { name: "paid".into(), payload: RawJson::empty() };
    TaskRecord {
        background: true,
        abandon_on_restart: true,
        state,
        memos: [("bank".into(), RawJson::empty())].into(),
        signals: vec![signal.clone()],
        woken: Some(Woken::Signal(signal)),
        attempts: 1,
        blocked: Some(Blocked { by: BlockedBy::Missing, needs: 1, message: "none".into() }),
        ..TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0))
    }
}

/// The names of all fields of JSON, at any depth.
fn fields(value: &serde_json::Value, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            found.extend(object.keys().cloned());
            object.values().for_each(|value| fields(value, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_a_task_is_described() {
    let json = RawJson::empty;
    let error = TaskFailure { detail: Some(json()), ..TaskFailure::new("declined", "no") };
    let [reason, signal] = ["enough", "paid"].map(str::to_owned);
    let outcomes = [
        TaskOutcome::Completed { output: json() },
        TaskOutcome::Failed { error: error.clone(), output: Some(json()) },
        TaskOutcome::Aborted { reason: reason.clone(), output: Some(json()) },
        TaskOutcome::Orphaned { reason },
        TaskOutcome::Faulted { error, output: Some(json()) },
    ];
    let (until, on, policy) = (Timestamp(9), vec![TaskId(6)], WaitPolicy::FailFast);
    let states = [
        TaskState::Ready { checkpoint: Some(json()) },
        TaskState::Sleeping { checkpoint: json(), until },
        TaskState::Waiting { checkpoint: json(), on, policy, joined: true },
        TaskState::Listening { checkpoint: json(), signal, until: Some(until) },
        TaskState::Completing { outcome: TaskOutcome::Completed { output: json() } },
    ];
    let ends = outcomes.map(|outcome| TaskState::Ended { outcome });
    let (_, chapter) = FORMAT.split_once("\n## task\n").unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    for state in states.into_iter().chain(ends) {
        let record = serde_json::to_value(talkative(state)).unwrap();
        for field in record.as_object().unwrap().keys().chain(record["state"].as_object().unwrap().keys()) {
            assert!(chapter.contains(&format!("\n| `{field}` | ")), "{field} has no row");
        }
        let mut inner = BTreeSet::new();
        fields(&record["state"], &mut inner);
        fields(&record["signals"], &mut inner);
        fields(&record["blocked"], &mut inner);
        for field in inner {
            assert!(chapter.contains(&format!("`{field}`")), "{field} is not mentioned");
        }
    }
}

/// What stands in a chapter: a row for each of the fields, and a mention of each at any depth of some of them.
fn check_described(chapter: &str, record: &impl Serialize, inner: &[&str]) {
    let (_, chapter) = FORMAT.split_once(&format!("\n## {chapter}\n")).unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    let record = serde_json::to_value(record).unwrap();
    for field in record.as_object().unwrap().keys() {
        assert!(chapter.contains(&format!("\n| `{field}` | ")), "{field} has no row");
    }
    for value in inner.iter().map(|field| &record[field]) {
        let mut found = BTreeSet::new();
        fields(value, &mut found);
        let words = value.as_object().into_iter().flat_map(|one| one.keys()).cloned();
        for word in words.chain(value.as_str().map(str::to_owned)) {
            assert!(chapter.contains(&format!("\n| `{word}` | ")), "{word} has no row");
        }
        for field in found {
            let is_mentioned =
                ["`", "\"", "`{\""].iter().any(|quote| chapter.contains(&format!("{quote}{field}")));
            assert!(is_mentioned, "{field} is not mentioned");
        }
    }
}

#[test]
fn every_field_of_a_submission_is_described() {
    let place = Place { turn: TaskId(5), entry: EntryId(6), step: 2 };
    let reason = || "auth".to_owned();
    let (options, entry) = (Some(RawJson::empty()), Some(RawJson::empty()));
    let delivery = Delivery::Steer { late: Late::Return, declining: true };
    let queued = Queued { parts: vec![], delivery, keep: true, options, entry };
    let settled = |end| SubmissionState::Settled { end, place: Some(place) };
    for state in [
        SubmissionState::Queued(queued),
        SubmissionState::Placed(place),
        settled(End::Answered),
        settled(End::Failed { reason: reason() }),
        settled(End::Returned { reason: reason() }),
        settled(End::Written { entry: EntryId(6) }),
    ] {
        let record = SubmissionRecord {
            id: SubmissionId(4),
            conversation: ConversationId::ROOT,
            request: Some("r-1".into()),
            actor: "ada".into(),
            state,
            time: Timestamp(0),
        };
        check_described("submission", &record, &["state"]);
    }
}

#[test]
fn every_field_of_an_approval_is_described() {
    let (tool, text, json) = (|| "pay".to_owned(), || "why".to_owned(), RawJson::empty);
    let verdict = Verdict { effect: Effect::Deny, layer: Layer::Code, rule: text() };
    let (directory, acts, preview) = (Some("src".to_owned()), vec![], Some(json()));
    let call =
        Question::Call { tool: tool(), arguments: json(), directory, acts, verdict, policy: text(), preview };
    let unknown = Question::Unknown { tool: tool(), arguments: json() };
    let person = Question::Person { text: text(), choices: vec![text()] };
    let decided = |decision| ApprovalState::Decided { decision, actor: text(), time: Timestamp(9) };
    for (question, state) in [
        (&call, ApprovalState::Open),
        (&call, ApprovalState::Void { reason: text(), time: Timestamp(9) }),
        (&call, decided(Decision::Deny { reason: text() })),
        (&call, decided(Decision::Edit { arguments: json() })),
        (&unknown, decided(Decision::Happened { text: Some(text()) })),
        (&person, decided(Decision::Answer { text: text() })),
    ] {
        let record = ApprovalRecord {
            id: ApprovalId(7),
            conversation: ConversationId::ROOT,
            call: TaskId(6),
            turn: Some(TaskId(5)),
            question: question.clone(),
            state,
            until: Some(Timestamp(9)),
            time: Timestamp(0),
        };
        check_described("approval", &record, &["question", "state"]);
    }
}

#[test]
fn the_transcript_view_reads_well() {
    let file = Temporary::new();
    block_on(async {
        let mut scene = Scene::new(&file.open().await).await;
        let writes = vec![scene.entry("hello").into_write(), scene.entry("and goodbye").into_write()];
        scene.commit(writes).await.unwrap();
    });
    let db = Connection::open(file.path()).unwrap();
    let lines = names(&db, "SELECT entry || ' ' || kind || ' ' || time || ' ' || text FROM transcript");
    assert_eq!(
        lines,
        ["2 et.user 1970-01-01 00:00:00.007 hello", "3 et.user 1970-01-01 00:00:00.007 and goodbye"]
    );
}

#[test]
fn the_files_are_their_owner_s_alone_and_the_log_stays() {
    let file = Temporary::new();
    let (db, wal, shm) =
        (file.path(), file.path().with_extension("db-wal"), file.path().with_extension("db-shm"));
    let owners = file.path().with_extension("db.owners");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    block_on(async {
        let store = file.open().await;
        Scene::new(&store).await;
        for path in [&db, &wal, &shm, &owners.join(owner().to_string())] {
            assert_eq!(mode(path), 0o600, "{}", path.display());
        }
        assert_eq!(mode(&owners), 0o700);
    });
    assert!(fs::metadata(wal).unwrap().len() > 0);
}

/// What was written before a clean close is not read again by the next open, however much it was.
#[test]
fn a_closed_store_s_log_starts_over() {
    let file = Temporary::new();
    block_on(async {
        let mut scene = Scene::new(&file.open().await).await;
        for _ in 0..20 {
            let entry = scene.entry(&"a".repeat(20_000)).into_write();
            scene.commit(vec![entry]).await.unwrap();
        }
    });
    let log = fs::read(file.path().with_extension("db-wal")).unwrap();
    // Source: SQLite, "WAL-mode File Format": a header of 32 bytes, then frames of 24 bytes and a page; a frame whose
    // salt (bytes 8 to 16) is not the header's (bytes 16 to 24) is not of this log.
    let frames = log[32..].chunks(24 + 4096);
    let valid = frames.take_while(|frame| frame[8..16] == log[16..24]).count();
    assert!(log.len() > 400_000 && valid <= 2, "{valid} frames of {} bytes", log.len());
}

#[test]
fn the_file_says_what_it_is() {
    let file = Temporary::new();
    drop(block_on(file.open()));
    let header = fs::read(file.path()).unwrap();
    assert_eq!(header[16..18], 4096u16.to_be_bytes(), "the page size");
    assert_eq!(header[60..64], 4u32.to_be_bytes(), "the schema");
    assert_eq!(header[68..72], *b"Evtn", "the application");
}
