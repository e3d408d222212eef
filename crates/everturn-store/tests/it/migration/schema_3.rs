//! `fixtures/schema-3.db` was written by the last version that knew no newer schema than 3: two sessions. In the first one a
//! turn that waits for a call, as a kill left it, with submissions in each state, and mail. In the second one tasks that listen,
//! sleep, were woken and are blocked, and a conversation of one of them.

use everturn_core::{
    clock::Timestamp,
    id::{ConversationId, EntryId, Seq, SubmissionId, TaskId},
    message::Part,
    storage::{
        ApprovalQuery, Claim, MailFilter, SessionQuery, Store, SubmissionFilter, SubmissionQuery, TaskQuery,
    },
    submission::{End, LOCAL, Place, Queued, SubmissionRecord, SubmissionState},
    task::{Blocked, BlockedBy, Signal, TaskRecord, TaskState, Woken},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, json, other, owner, session_id},
};

use super::OLD;

/// All that the fixture holds, read through the port.
pub(super) async fn check_contents(store: &Store) {
    let rows = store.sessions(SessionQuery::default()).await.unwrap();
    let heads: Vec<_> = rows.iter().map(|row| (row.id, row.head, row.owner.map(|(by, _)| by))).collect();
    assert_eq!(heads, [(session_id(2), Seq(3), None), (session_id(1), Seq(5), Some(owner()))]);
    check_submissions(store).await;
    check_tasks(store).await;
    let waiting = store.mail(session_id(1), MailFilter::Waiting).await.unwrap();
    assert_eq!(waiting.iter().map(|row| row.mail.key.as_str()).collect::<Vec<_>>(), ["signal 4"]);
    assert_eq!(store.approvals(ApprovalQuery::open()).await.unwrap(), []);
}

/// What said nothing of itself but its parts is a follow-up of the person at this machine.
async fn check_submissions(store: &Store) {
    let submission = |id, request: Option<&str>, state| SubmissionRecord {
        id: SubmissionId(id),
        conversation: ConversationId::ROOT,
        request: request.map(str::to_owned),
        actor: LOCAL.into(),
        state,
        time: Timestamp(7),
    };
    let place = |turn, entry| Place { turn: TaskId(turn), entry: EntryId(entry), step: 1 };
    let queued = Queued { parts: vec![Part::Text("and then?".into())], ..Queued::default() };
    let settled = |end, place| SubmissionState::Settled { end, place };
    let expected = [
        submission(5, Some("s-1"), SubmissionState::Placed(place(3, 2))),
        submission(6, Some("s-2"), SubmissionState::Queued(queued)),
        submission(7, Some("s-3"), settled(End::Withdrawn, None)),
        submission(8, None, settled(End::Returned { reason: "auth".into() }, None)),
        submission(11, Some("s-4"), settled(End::Answered, Some(place(9, 10)))),
    ];
    let query = |session, only| SubmissionQuery { session, only };
    assert_eq!(store.submissions(query(session_id(1), SubmissionFilter::All)).await.unwrap(), expected);
    let by_request = SubmissionFilter::Request(ConversationId::ROOT, "s-4".into());
    assert_eq!(store.submissions(query(session_id(1), by_request)).await.unwrap(), expected[4..]);
    let waits = submission(7, None, SubmissionState::Queued(Queued::default()));
    assert_eq!(store.submissions(query(session_id(2), SubmissionFilter::Live)).await.unwrap(), [waits]);
}

async fn check_tasks(store: &Store) {
    let task = |id| TaskRecord::new(TaskId(id), ConversationId::ROOT, "app.pay", Timestamp(7));
    let signal = || Signal { name: "paid".into(), payload: json("12") };
    let (checkpoint, until) = (json("1"), Some(Timestamp(99)));
    let message = "no code of kind app.pay is installed".into();
    let expected = [
        TaskRecord {
            state: TaskState::Listening { checkpoint, signal: "seen".into(), until },
            memos: [("bank".to_owned(), json(r#"{"k": 1.0}"#))].into(),
            signals: vec![signal()],
            moves: 3,
            ..task(2)
        },
        TaskRecord {
            conversation: ConversationId(3),
            abandon_on_restart: true,
            state: TaskState::Sleeping { checkpoint: json("null"), until: Timestamp(50) },
            attempts: 2,
            ..task(4)
        },
        TaskRecord {
            woken: Some(Woken::Signal(signal())),
            state: TaskState::Ready { checkpoint: Some(json("{}")) },
            ..task(5)
        },
        TaskRecord { blocked: Some(Blocked { by: BlockedBy::Missing, needs: 4, message }), ..task(6) },
    ];
    assert_eq!(store.tasks(TaskQuery::live(session_id(2))).await.unwrap(), expected);
    let left = store.tasks(TaskQuery::live(session_id(1))).await.unwrap();
    assert_eq!(
        left.iter().map(|task| (task.id.0, task.kind.as_str())).collect::<Vec<_>>(),
        [(3, "et.turn"), (4, "et.call")]
    );
}

#[test]
fn a_store_of_schema_3_opens_and_keeps_what_it_held() {
    let file = OLD[2].file();
    block_on(OLD[2].check(&file));
    // And again, as it is now.
    block_on(OLD[2].check(&file));
}

#[test]
fn a_call_of_schema_3_can_ask_and_its_question_is_found() {
    let file = OLD[2].file();
    block_on(async {
        let store = file.open_as(other()).await;
        let claim = Claim { session: session_id(2), owner: other(), now: Timestamp(1), until: Timestamp(2) };
        let mut scene = Scene::of(&store, store.claim(claim).await.unwrap());
        let call = store.tasks(TaskQuery::one(scene.id(), TaskId(2))).await.unwrap().remove(0);
        let approval = scene.approval(&call);
        scene.commit(vec![approval.clone().into_write()]).await.unwrap();
        let found = store.approvals(ApprovalQuery::open()).await.unwrap();
        assert_eq!(found.into_iter().map(|row| row.record).collect::<Vec<_>>(), [approval]);
    });
}
