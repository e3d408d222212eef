//! `fixtures/schema-2.db` was written by the last version that knew no newer schema than 2: two sessions. In the first
//! one a turn that waits for two calls, as a kill left it, a question behind it, and mail. In the second one tasks that are
//! ready, wait and were told to stop, or ended in each way; conversations of theirs and of nobody's; documents, submissions
//! and mail.

use everturn_core::{
    clock::Timestamp,
    document::ScopeKey,
    error::ErrorKind,
    id::{ConversationId, Seq, SessionId, TaskId},
    storage::{
        Claim, Code, DocumentQuery, MailFilter, Part, Receipt, RunnableQuery, SessionQuery, Store,
        SubmissionFilter, SubmissionQuery, Taken, TaskQuery, View, ViewQuery, Write,
    },
    task::{Blocked, BlockedBy, TaskFailure, TaskOutcome, TaskRecord, TaskState, WaitPolicy},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, json, other, owner, session_id},
};
use rusqlite::Connection;

use super::OLD;

/// The session with a turn.
fn asked() -> SessionId {
    "00000000-03e8-7101-8101-010101010101".parse().unwrap()
}

/// The session with work of all kinds.
fn worked() -> SessionId {
    session_id(2)
}

async fn view(store: &Store, session: SessionId, part: Part) -> View {
    store.view(ViewQuery { session, part }).await.unwrap()
}

/// All that the fixture holds, read through the port.
pub(super) async fn check_contents(store: &Store) {
    let rows = store.sessions(SessionQuery::default()).await.unwrap();
    let heads: Vec<_> = rows.iter().map(|row| (row.id, row.head, row.owner.map(|(by, _)| by))).collect();
    assert_eq!(heads, [(worked(), Seq(10), None), (asked(), Seq(7), Some(owner()))]);
    check_turn(store).await;
    check_tasks(store).await;
    check_conversations(store).await;

    let view = view(store, worked(), Part::Everything).await;
    assert_eq!((view.documents.len(), view.submissions.len()), (2, 1));
    let scope = ScopeKey::Task(TaskId(3));
    let query = DocumentQuery { session: worked(), scope, kind: None, at: None };
    let latest = &store.documents(query).await.unwrap()[0];
    assert_eq!((latest.base.get(), latest.deltas[0].get()), ("8", r#"[{"replace":9}]"#));
    for (session, key) in [(worked(), "signal 5"), (asked(), "signal 6")] {
        let waiting = store.mail(session, MailFilter::Waiting).await.unwrap();
        assert_eq!(waiting.iter().map(|row| row.mail.key.as_str()).collect::<Vec<_>>(), [key]);
    }
    let taken = store.mail(worked(), MailFilter::Key("signal 4".into())).await.unwrap();
    assert_eq!(taken[0].receipt, Some(Receipt::Accepted { id: None }));
}

async fn check_turn(store: &Store) {
    let View { tasks, conversations, .. } = view(store, asked(), Part::Tasks).await;
    let owners: Vec<_> =
        tasks.iter().map(|task| (task.id.0, task.kind.as_str(), task.owner.map(|owner| owner.0))).collect();
    assert_eq!(owners, [(9, "et.turn", None), (12, "et.call", Some(9)), (13, "et.call", Some(9))]);
    assert_eq!(conversations, [], "the root is nobody's");
    let TaskState::Waiting { on, policy, joined, .. } = &tasks[0].state else { panic!("{:?}", tasks[0]) };
    assert_eq!((&on[..], *policy, *joined), (&[TaskId(12), TaskId(13)][..], WaitPolicy::AllSettled, false));
    let only = SubmissionFilter::Live;
    let live = store.submissions(SubmissionQuery { session: asked(), only }).await.unwrap();
    assert_eq!(live.iter().map(|one| one.id.0).collect::<Vec<_>>(), [8, 15]);
}

fn task(id: u64) -> TaskRecord {
    let input = json(r#"{ "amount":1.50 }"#);
    TaskRecord { input, ..TaskRecord::new(TaskId(id), ConversationId::ROOT, "app.pay", Timestamp(7)) }
}

fn ended(id: u64, outcome: TaskOutcome) -> TaskRecord {
    let mut task = task(id);
    task.end(outcome, Timestamp(9));
    // What wrote it did not count.
    task.moves = 0;
    task
}

async fn check_tasks(store: &Store) {
    let checkpoint = |text: &str| TaskState::Ready { checkpoint: Some(json(text)) };
    let (on, policy) = (vec![TaskId(5)], WaitPolicy::AllSettled);
    let failure = || TaskFailure::new("declined", "the card was declined");
    let live = [
        TaskRecord { version: 3, state: checkpoint(r#"{"phase":"charge","key":"k-1"}"#), ..task(3) },
        TaskRecord {
            state: TaskState::Waiting { checkpoint: json("[1,2]"), on, policy, joined: false },
            ..task(4)
        },
        TaskRecord { owner: Some(TaskId(4)), state: checkpoint("{}"), ..task(5) },
        TaskRecord { background: true, abort: Some("enough".into()), state: checkpoint("{}"), ..task(6) },
    ];
    let over = [
        ended(7, TaskOutcome::Completed { output: json("1") }),
        ended(8, TaskOutcome::Failed { error: failure(), output: None }),
        ended(9, TaskOutcome::Aborted { reason: "enough".into(), output: Some(json("{}")) }),
        ended(10, TaskOutcome::Faulted { error: failure(), output: None }),
    ];
    let all = TaskQuery { session: worked(), live: false, ids: None, owner: None };
    assert_eq!(store.tasks(all.clone()).await.unwrap(), [live.clone(), over].concat());
    assert_eq!(store.tasks(TaskQuery { live: true, ..all }).await.unwrap(), live);
}

/// Of six conversations three are a task's work, and two of these tasks live.
async fn check_conversations(store: &Store) {
    let all = store.conversations(worked()).await.unwrap();
    let owners: Vec<_> = all.iter().map(|one| (one.id.0, one.owner.map(|owner| owner.0))).collect();
    assert_eq!(owners, [(1, None), (11, Some(3)), (12, Some(7)), (13, None), (14, Some(4))]);
    let seen = view(store, worked(), Part::Tasks).await.conversations;
    assert_eq!(seen, [all[1].clone(), all[4].clone()]);
}

#[test]
fn a_store_of_schema_2_opens_and_keeps_what_it_held() {
    let file = OLD[1].file();
    block_on(OLD[1].check(&file));
    // And again, as it is now.
    block_on(OLD[1].check(&file));
}

#[test]
fn a_task_of_schema_2_can_be_blocked_and_found_by_who_has_its_code() {
    let file = OLD[1].file();
    block_on(async {
        let store = file.open_as(other()).await;
        let claim = Claim { session: worked(), owner: other(), now: Timestamp(1), until: Timestamp(2) };
        let mut scene = Scene::of(&store, store.claim(claim).await.unwrap());
        let query = TaskQuery { session: worked(), live: true, ids: Some(vec![TaskId(3)]), owner: None };
        let task = store.tasks(query).await.unwrap().remove(0);
        let message = "no code of kind app.pay is installed".into();
        let blocked = Some(Blocked { by: BlockedBy::Missing, needs: 3, message });
        let receipt = Receipt::Accepted { id: None };
        let taken = Write::Taken(Taken { key: "signal 5".into(), receipt });
        scene.commit(vec![TaskRecord { blocked, ..task }.into_write(), taken]).await.unwrap();
        store.release(worked(), other(), scene.lease.epoch).await.unwrap();
        // The other session has mail, and its owner is dead.
        for (version, expected) in [(2, &[asked()][..]), (3, &[asked(), worked()])] {
            let code = vec![Code { kind: "app.pay".into(), version }];
            let found = store.runnable(RunnableQuery { code, ..RunnableQuery::at(Timestamp(1)) }).await;
            assert_eq!(found.unwrap(), expected, "with version {version}");
        }
    });
}

// The owners of conversations were read from the bodies, and a body that was damaged kept the whole store from opening.
// Guards: what is damaged is told when it is read, and nothing else suffers.
#[test]
fn a_damaged_conversation_does_not_keep_the_store_from_opening() {
    let file = OLD[1].file_with(
        "UPDATE conversation SET body = '{\"id\":11,' WHERE sid = 2 AND id = 11;
        UPDATE conversation SET body = '{\"owner\":\"me\"}' WHERE sid = 2 AND id = 14",
    );
    block_on(async {
        let store = file.open().await;
        check_turn(&store).await;
        check_tasks(&store).await;
        for id in [11, 14] {
            let error = store.conversation(worked(), ConversationId(id)).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
        }
    });
    let db = Connection::open(file.path()).unwrap();
    let sql = "SELECT id FROM conversation WHERE owner IS NOT NULL";
    let owned: u64 = db.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(owned, 12);
}
