//! Submissions, their request ids, and the ledger.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{ConversationId, EntryId, TaskId},
    message::Part,
    storage::{Store, SubmissionFilter, SubmissionQuery, Write},
    submission::{Delivery, End, Late, Place, Queued, SubmissionRecord, SubmissionState},
    usage::{RequestEnd, UsageRow},
};

use super::scene::{IntoWrite, Scene, json};

fn query(scene: &Scene, only: SubmissionFilter) -> SubmissionQuery {
    SubmissionQuery { session: scene.id(), only }
}

fn request(id: &str) -> SubmissionFilter {
    SubmissionFilter::Request(ConversationId::ROOT, id.into())
}

/// A submission has one row: where it stands.
pub async fn a_submission_is_replaced_as_it_moves(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut submission = scene.submission(Some("r-1"));
    let place = Place { turn: TaskId(3), entry: EntryId(4), step: 1 };
    for state in [
        submission.state.clone(),
        SubmissionState::Placed(place),
        SubmissionState::Settled { end: End::Answered, place: Some(place) },
    ] {
        submission.state = state;
        scene.commit(vec![submission.clone().into_write()]).await.unwrap();
        let found = query(&scene, SubmissionFilter::Id(submission.id));
        assert_eq!(store.submissions(found).await.unwrap(), [submission.clone()]);
    }
}

/// How it wants to be delivered, by whom, and what its turn goes by, comes back as it was, JSON byte for byte.
pub async fn a_submission_keeps_how_it_wants_to_be_delivered(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (options, entry) = (json(r#"{ "steps":1.0 }"#), json(r#"{"kind":"app.note","body":{ "n":1 }}"#));
    let steer = |late, declining| Delivery::Steer { late, declining };
    let mut submissions = Vec::new();
    for delivery in [
        Delivery::FollowUp,
        steer(Late::FollowUp, false),
        steer(Late::FollowUp, true),
        steer(Late::Return, false),
        steer(Late::Return, true),
        Delivery::Write,
    ] {
        let keep = delivery == Delivery::FollowUp;
        let entry = (delivery == Delivery::Write).then(|| entry.clone());
        let parts = vec![Part::Text("go on".into())];
        let queued = Queued { parts, delivery, keep, options: Some(options.clone()), entry };
        let state = SubmissionState::Queued(queued);
        submissions.push(SubmissionRecord { actor: "ada".into(), state, ..scene.submission(None) });
    }
    let end = End::Written { entry: EntryId(4) };
    let state = SubmissionState::Settled { end, place: None };
    submissions.push(SubmissionRecord { state, ..scene.submission(None) });
    let place = Place { turn: TaskId(3), entry: EntryId(4), step: 7 };
    submissions.push(SubmissionRecord { state: SubmissionState::Placed(place), ..scene.submission(None) });
    scene.commit(submissions.iter().cloned().map(IntoWrite::into_write).collect()).await.unwrap();
    assert_eq!(store.submissions(query(&scene, SubmissionFilter::All)).await.unwrap(), submissions);
}

/// Repeating a request id finds what it had started, settled or not.
pub async fn a_request_id_finds_its_submission(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut submission = scene.submission(Some("r-1"));
    let other = scene.submission(None);
    scene.commit(vec![submission.clone().into_write(), other.into_write()]).await.unwrap();
    let found = query(&scene, request("r-1"));
    assert_eq!(store.submissions(found.clone()).await.unwrap(), [submission.clone()]);
    submission.state = SubmissionState::Settled { end: End::Withdrawn, place: None };
    scene.commit(vec![submission.clone().into_write()]).await.unwrap();
    assert_eq!(store.submissions(found).await.unwrap(), [submission]);
    assert_eq!(store.submissions(query(&scene, request("r-2"))).await.unwrap(), []);
}

/// All submissions, settled ones included, come in the order of their ids.
pub async fn all_submissions_are_listed(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (mut first, second) = (scene.submission(Some("r-1")), scene.submission(None));
    first.state = SubmissionState::Settled { end: End::Withdrawn, place: None };
    scene.commit(vec![second.clone().into_write(), first.clone().into_write()]).await.unwrap();
    assert_eq!(store.submissions(query(&scene, SubmissionFilter::All)).await.unwrap(), [first, second]);
}

/// Two conversations may use the same request id.
pub async fn a_request_id_belongs_to_one_conversation(store: &Store) {
    let mut scene = Scene::new(store).await;
    let here = scene.submission(Some("r-1"));
    let mut there = scene.submission(Some("r-1"));
    there.conversation = ConversationId(9);
    scene.commit(vec![here.clone().into_write(), there.clone().into_write()]).await.unwrap();
    let found = query(&scene, request("r-1"));
    assert_eq!(store.submissions(found).await.unwrap(), [here]);
    let elsewhere = SubmissionFilter::Request(ConversationId(9), "r-1".into());
    assert_eq!(store.submissions(query(&scene, elsewhere)).await.unwrap(), [there]);
}

/// A request id that is taken stays with the submission that has it.
pub async fn a_request_id_is_not_given_to_a_second_submission(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (first, second) = (scene.submission(Some("r-1")), scene.submission(Some("r-1")));
    scene.commit(vec![first.clone().into_write()]).await.unwrap();
    let error = scene.commit(vec![second.into_write()]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    let found = query(&scene, request("r-1"));
    assert_eq!(store.submissions(found).await.unwrap(), [first]);
}

/// One batch gives a request id to one submission, which it may move on.
pub async fn a_request_id_is_not_given_twice_by_one_batch(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (first, second) = (scene.submission(Some("r-1")), scene.submission(Some("r-1")));
    let error = scene.commit(vec![first.clone().into_write(), second.into_write()]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(store.submissions(query(&scene, SubmissionFilter::All)).await.unwrap(), []);
    let settled = Scene::settled(first.clone());
    scene.commit(vec![first.into_write(), settled.clone().into_write()]).await.unwrap();
    assert_eq!(store.submissions(query(&scene, SubmissionFilter::All)).await.unwrap(), [settled]);
}

/// Opening a session asks for its live submissions, and gets no others.
pub async fn live_submissions_are_those_that_have_not_ended(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (mut ended, live) = (scene.submission(Some("r-1")), scene.submission(None));
    scene.commit(vec![live.clone().into_write(), ended.clone().into_write()]).await.unwrap();
    let all = query(&scene, SubmissionFilter::Live);
    assert_eq!(store.submissions(all.clone()).await.unwrap(), [ended.clone(), live.clone()]);
    ended.state = SubmissionState::Settled { end: End::Answered, place: None };
    scene.commit(vec![ended.into_write()]).await.unwrap();
    assert_eq!(store.submissions(all).await.unwrap(), [live]);
}

/// Rows of the ledger come in the order in which they were written.
pub async fn the_ledger_keeps_its_order(store: &Store) {
    let mut scene = Scene::new(store).await;
    let row = |step| UsageRow {
        conversation: ConversationId::ROOT,
        turn: TaskId(5),
        step,
        attempt: 1,
        model: "chat/qwen".into(),
        end: RequestEnd::Complete,
        usage: None,
        cost: None,
        time: Timestamp(7),
    };
    scene.commit(vec![Write::Usage(row(2)), Write::Usage(row(1))]).await.unwrap();
    scene.commit(vec![Write::Usage(row(3))]).await.unwrap();
    assert_eq!(store.usage(scene.id()).await.unwrap(), [row(2), row(1), row(3)]);
}
