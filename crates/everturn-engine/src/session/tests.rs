//! Approvals in an open session: staged, adopted, found again, told to watchers, and void when nobody waits.

use everturn_core::{
    ErrorKind, Result,
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    conversation::Ownership,
    id::{ApprovalId, ConversationId, SubmissionId, TaskId},
    json::RawJson,
    memory::Memory,
    storage::{NewSession, Part, Store},
    submission::{LOCAL, Queued, SubmissionRecord, SubmissionState},
    task::TaskOutcome,
};

use super::{NewTask, Opener, Session, SessionReader, Transaction, watch::Start};
use crate::World;

const ROOT: ConversationId = ConversationId::ROOT;

async fn opener() -> Opener {
    Opener::new(Store::new(Memory::new()), World::system()).await
}

async fn session() -> Session {
    Session::create(&opener().await, NewSession::default()).await.expect("a session")
}

/// A question of a call that is not staged yet.
fn asked(tx: &mut Transaction, call: TaskId) -> ApprovalRecord {
    ApprovalRecord {
        id: ApprovalId(tx.mint()),
        conversation: ROOT,
        call,
        turn: None,
        question: Question::Unknown { tool: "pay".into(), arguments: RawJson::empty() },
        state: ApprovalState::Open,
        until: None,
        time: tx.time(),
    }
}

fn decided(approval: &ApprovalRecord, decision: Decision) -> ApprovalRecord {
    let state = ApprovalState::Decided { decision, actor: LOCAL.into(), time: Timestamp(9) };
    ApprovalRecord { state, ..approval.clone() }
}

/// A call that waits with a question, and the question.
async fn waiting(session: &Session) -> Result<(TaskId, ApprovalRecord)> {
    let mut tx = session.begin().await?;
    let call = tx.create_task(NewTask::new(ROOT, "test.call", 1))?;
    let approval = asked(&mut tx, call);
    tx.put_approval(approval.clone());
    tx.commit().await?;
    Ok((call, approval))
}

fn open(session: &Session) -> Vec<ApprovalId> {
    session.open_approvals().iter().map(|one| one.id).collect()
}

fn ids(tx: &Transaction, call: Option<TaskId>) -> Vec<ApprovalId> {
    tx.open_approvals(call).iter().map(|one| one.id).collect()
}

#[tokio::test]
async fn a_transaction_sees_the_questions_that_it_opens_and_decides() {
    let session = session().await;
    let (call, first) = waiting(&session).await.expect("it is stored");
    let mut tx = session.begin().await.expect("it begins");
    let other = tx.create_task(NewTask::new(ROOT, "test.call", 1)).expect("it can be created");
    let second = asked(&mut tx, other);
    tx.put_approval(second.clone());
    assert_eq!(ids(&tx, None), [first.id, second.id]);
    assert_eq!((ids(&tx, Some(call)), ids(&tx, Some(other))), (vec![first.id], vec![second.id]));
    assert_eq!(open(&session), [first.id], "it is not committed");

    let first = decided(&first, Decision::DidNotHappen);
    tx.put_approval(first.clone());
    assert_eq!((ids(&tx, None), ids(&tx, Some(call))), (vec![second.id], vec![]));
    assert_eq!(tx.approval(first.id).as_deref(), Some(&first));
    tx.commit().await.expect("it is stored");
    assert_eq!(open(&session), [second.id]);
    let tx = session.begin().await.expect("it begins");
    assert_eq!((tx.approval(first.id), ids(&tx, None)), (None, vec![second.id]));
}

#[tokio::test]
async fn a_question_is_found_by_whoever_opens_the_session_next() {
    let opener = opener().await;
    let session = Session::create(&opener, NewSession::default()).await.expect("a session");
    let (call, approval) = waiting(&session).await.expect("it is stored");
    let id = session.id();
    drop(session);
    let reader = SessionReader::open(opener.store.clone(), id).await.expect("it is there");
    let found = reader.open_approvals().await.expect("they can be read");
    assert_eq!(found.as_slice(), std::slice::from_ref(&approval));

    let session = Session::open(&opener, id).await.expect("nobody has it");
    assert_eq!(open(&session), [approval.id]);
    let mut tx = session.begin().await.expect("it begins");
    assert_eq!(ids(&tx, Some(call)), [approval.id]);
    let decided = decided(&approval, Decision::Stop);
    tx.put_approval(decided.clone());
    tx.commit().await.expect("it is stored");
    assert_eq!(session.approval(approval.id).await.expect("it is there"), decided);
    for unknown in [approval.id.0 - 1, approval.id.0 + 1] {
        let error = session.approval(ApprovalId(unknown)).await.expect_err("there is none");
        assert_eq!(*error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_eq!(reader.open_approvals().await.expect("they can be read"), []);
}

#[tokio::test]
async fn what_a_call_asked_is_void_when_its_end_is_settled() {
    let session = session().await;
    let (call, approval) = waiting(&session).await.expect("it is stored");
    let mut tx = session.begin().await.expect("it begins");
    // One that is opened in the same commit too, and one of another call not.
    let other = tx.create_task(NewTask::new(ROOT, "test.call", 1)).expect("it can be created");
    let [late, left] = [call, other].map(|call| asked(&mut tx, call));
    tx.put_approval(late.clone());
    tx.put_approval(left.clone());
    // Work below it lives: it has not ended, and yet nobody waits for the answer.
    tx.create_task(NewTask { owner: Some(call), ..NewTask::new(ROOT, "test.work", 1) }).expect("it is new");
    tx.end_task(call, TaskOutcome::Aborted { reason: "enough".into(), output: None });
    let time = tx.time();
    tx.commit().await.expect("it is stored");
    assert_eq!(open(&session), [left.id]);
    for id in [approval.id, late.id] {
        let found = session.approval(id).await.expect("it is there");
        assert_eq!(found.state, ApprovalState::Void { reason: "its call has aborted".into(), time });
    }
    let reader = SessionReader::open(session.store().clone(), session.id()).await.expect("it is there");
    assert_eq!(reader.verify().await.expect("it can be read"), []);
}

#[tokio::test]
async fn an_approval_that_fits_nothing_is_refused_before_storage_is_asked() {
    let session = session().await;
    let (call, approval) = waiting(&session).await.expect("it is stored");
    let (invalid, too_large) = (ErrorKind::Invalid, ErrorKind::TooLarge);
    let deep = RawJson::parse("[".repeat(200) + &"]".repeat(200)).expect("it is JSON");
    let unknown = |tool: &str, arguments| Question::Unknown { tool: tool.into(), arguments };
    let long = || "a".repeat(2 << 20);
    let person = Question::Person { text: long(), choices: vec![] };
    let by_nobody =
        ApprovalState::Decided { decision: Decision::DidNotHappen, actor: String::new(), time: Timestamp(9) };
    let with = |question| ApprovalRecord { question, ..approval.clone() };
    for (kind, what, record) in [
        (&invalid, "task 77, its call, is not live", ApprovalRecord { call: TaskId(77), ..approval.clone() }),
        (
            &invalid,
            "there is no conversation 77",
            ApprovalRecord { conversation: ConversationId(77), ..approval.clone() },
        ),
        (&invalid, "does not fit what is asked", decided(&approval, Decision::Allow)),
        (&invalid, "it is empty", with(unknown("", RawJson::empty()))),
        (&invalid, "it is empty", ApprovalRecord { state: by_nobody, ..approval.clone() }),
        (&too_large, "it nests 200 levels", with(unknown("pay", deep))),
        (&too_large, "at most 1048576 are allowed", with(person)),
    ] {
        let head = session.head();
        let mut tx = session.begin().await.expect("it begins");
        tx.put_approval(record);
        let error = tx.commit().await.expect_err("it does not fit");
        assert_eq!((error.kind(), session.head()), (kind, head), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let mut tx = session.begin().await.expect("it begins");
    tx.end_task(call, TaskOutcome::Completed { output: RawJson::empty() });
    tx.commit().await.expect("it is stored");
    let mut tx = session.begin().await.expect("it begins");
    tx.put_approval(approval);
    let error = tx.commit().await.expect_err("its call has ended");
    assert!(error.to_string().contains(&format!("task {call}, its call, is not live")), "{error}");
}

#[tokio::test]
async fn what_waits_in_a_queue_keeps_the_limits() {
    let session = session().await;
    let deep = || RawJson::parse("[".repeat(200) + &"]".repeat(200)).expect("it is JSON");
    let long = || RawJson::of(&"a".repeat(2 << 20)).expect("text is JSON");
    for queued in [
        Queued { options: Some(deep()), ..Queued::default() },
        Queued { entry: Some(deep()), ..Queued::default() },
        Queued { options: Some(long()), ..Queued::default() },
        Queued { entry: Some(long()), ..Queued::default() },
    ] {
        let mut tx = session.begin().await.expect("it begins");
        let (id, time) = (SubmissionId(tx.mint()), tx.time());
        let (state, actor) = (SubmissionState::Queued(queued), LOCAL.to_owned());
        tx.put_submission(SubmissionRecord { id, conversation: ROOT, request: None, actor, state, time });
        let error = tx.commit().await.expect_err("it is too much");
        assert_eq!(*error.kind(), ErrorKind::TooLarge, "{error}");
    }
}

#[tokio::test]
async fn a_watch_tells_what_is_asked_and_what_was_decided() {
    let session = session().await;
    let mut tx = session.begin().await.expect("it begins");
    let elsewhere = tx.create_conversation(Ownership::Ownerless);
    tx.commit().await.expect("it is stored");
    let (call, first) = waiting(&session).await.expect("it is stored");
    let parts = [Part::Conversation(ROOT), Part::Everything, Part::Conversation(elsewhere), Part::Tasks];
    let mut watches = parts.clone().map(|part| session.watch(part, Start::Now));
    let mut cursors = Vec::new();
    for (at, watch) in watches.iter_mut().enumerate() {
        let frame = watch.next().await.expect("it tells");
        let asked = &frame.kind.baseline().expect("it begins with a baseline").approvals;
        assert_eq!(
            asked.as_slice(),
            if at < 2 { std::slice::from_ref(&first) } else { &[] },
            "{:?}",
            parts[at]
        );
        cursors.push(frame.cursor);
    }
    let mut tx = session.begin().await.expect("it begins");
    let second = asked(&mut tx, call);
    tx.put_approval(second.clone());
    tx.commit().await.expect("it is stored");
    let mut tx = session.begin().await.expect("it begins");
    let first = decided(&first, Decision::DidNotHappen);
    tx.put_approval(first.clone());
    tx.commit().await.expect("it is stored");

    for (at, mut live) in watches.into_iter().enumerate() {
        let again = session.watch(parts[at].clone(), Start::Cursor(cursors[at]));
        for watch in [&mut live, &mut { again }] {
            let expected: &[&ApprovalRecord] = if at < 2 { &[&second, &first] } else { &[] };
            for approval in expected {
                let frame = watch.next().await.expect("it tells");
                let super::watch::FrameKind::Changed(changed) = frame.kind else { panic!("a change") };
                let told: Vec<_> = changed.approvals.iter().map(|one| &**one).collect();
                assert_eq!(told, [*approval], "{:?}", parts[at]);
            }
            let rest = futures_util::FutureExt::now_or_never(watch.next());
            assert!(rest.is_none(), "{:?}: {rest:?}", parts[at]);
        }
    }
}

#[tokio::test]
async fn an_archive_brings_back_what_was_asked_and_decided() {
    let (from, to) = (opener().await, opener().await);
    let session = Session::create(&from, NewSession::default()).await.expect("a session");
    let (_, answered) = waiting(&session).await.expect("it is stored");
    let (_, asked) = waiting(&session).await.expect("it is stored");
    let answered = decided(&answered, Decision::Happened { text: None });
    let mut tx = session.begin().await.expect("it begins");
    tx.put_approval(answered.clone());
    tx.commit().await.expect("it is stored");
    let mut archive = Vec::new();
    session.archive(&mut archive).await.expect("there is room");

    let restored = Session::restore(&to, archive.as_slice()).await.expect("it is whole");
    assert_eq!(open(&restored), [asked.id]);
    for approval in [answered, asked] {
        assert_eq!(restored.approval(approval.id).await.expect("it is there"), approval);
    }
}
