//! Approvals: questions that stay with their session until they are decided, and are found from everywhere.

use everturn_core::{
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    error::ErrorKind,
    id::{ApprovalId, TaskId},
    policy::{Act, Effect, Layer, Verdict},
    storage::{ApprovalQuery, ApprovalRow, NewSession, Store},
};

use super::scene::{IntoWrite, Scene, json, owner, session_id};

pub(super) async fn found(store: &Store, query: ApprovalQuery) -> Vec<ApprovalRecord> {
    store.approvals(query).await.unwrap().into_iter().map(|row| row.record).collect()
}

/// An approval has one row: where it stands.
pub async fn an_approval_is_replaced_as_it_is_decided(store: &Store) {
    let mut scene = Scene::new(store).await;
    let call = scene.task();
    let mut approval = scene.approval(&call);
    scene.commit(vec![call.into_write(), approval.clone().into_write()]).await.unwrap();
    assert_eq!(found(store, ApprovalQuery::of(scene.id())).await, [approval.clone()]);
    approval = Scene::decided(approval, Decision::Allow);
    scene.commit(vec![approval.clone().into_write()]).await.unwrap();
    assert_eq!(found(store, ApprovalQuery::of(scene.id())).await, [approval]);
}

/// Questions and decisions of each kind come back as they were, JSON byte for byte.
pub async fn an_approval_keeps_every_field_of_its_record(store: &Store) {
    let mut scene = Scene::new(store).await;
    let call = scene.task();
    let [tool, text, policy] = ["write", "Which branch?", "sha256:00"].map(str::to_owned);
    let arguments = json(r#"{ "path":"a", "n":1.0 }"#);
    let acts = vec![Act::Write("a".into()), Act::Exec(vec!["ls".into(), "-l".into()])];
    let verdict = Verdict { effect: Effect::Deny, layer: Layer::Code, rule: "no rule".into() };
    let (directory, preview) = (Some("src".into()), Some(json(r#"{"diff":"+a"}"#)));
    let whole = Question::Call {
        tool: tool.clone(),
        arguments: arguments.clone(),
        directory,
        acts,
        verdict: verdict.clone(),
        policy: policy.clone(),
        preview,
    };
    let (acts, directory, preview) = (vec![], None, None);
    let bare = Question::Call {
        tool: tool.clone(),
        arguments: json("{}"),
        directory,
        acts,
        verdict,
        policy,
        preview,
    };
    let unknown = Question::Unknown { tool, arguments: arguments.clone() };
    let person = Question::Person { text, choices: vec!["main".into()] };
    let decided = |decision| ApprovalState::Decided { decision, actor: "ada".into(), time: Timestamp(9) };
    let [reason, answer] = ["no", "main"].map(str::to_owned);
    let mut approvals = Vec::new();
    for (question, state) in [
        (whole.clone(), ApprovalState::Open),
        (bare, decided(Decision::Allow)),
        (whole.clone(), decided(Decision::AllowForSession)),
        (whole.clone(), decided(Decision::Deny { reason: reason.clone() })),
        (whole.clone(), decided(Decision::Edit { arguments })),
        (whole, ApprovalState::Void { reason, time: Timestamp(8) }),
        (unknown.clone(), ApprovalState::Open),
        (unknown.clone(), decided(Decision::Happened { text: Some("paid".into()) })),
        (unknown.clone(), decided(Decision::Happened { text: None })),
        (unknown.clone(), decided(Decision::DidNotHappen)),
        (unknown, decided(Decision::Stop)),
        (person.clone(), ApprovalState::Open),
        (person, decided(Decision::Answer { text: answer })),
    ] {
        let until = state.eq(&ApprovalState::Open).then_some(Timestamp(99));
        approvals.push(ApprovalRecord { question, state, until, ..scene.approval(&call) });
    }
    approvals[0].turn = Some(TaskId(5));
    scene.commit(approvals.iter().cloned().map(IntoWrite::into_write).collect()).await.unwrap();
    assert_eq!(found(store, ApprovalQuery::of(scene.id())).await, approvals);
}

/// Approvals are part of the batch: one that is refused leaves none.
pub async fn a_refused_batch_asks_nothing(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (call, root) = (scene.task(), scene.root().await);
    let approval = scene.approval(&call);
    let refused = scene.batch(vec![call.into_write(), approval.into_write(), root.into_write()]);
    assert_eq!(scene.send(refused).await.unwrap_err().kind(), &ErrorKind::Invalid);
    assert_eq!(store.approvals(ApprovalQuery::open()).await.unwrap(), []);
}

/// Whoever answers questions finds those of all sessions: in the order of the sessions' ids, a page at a time, behind any
/// place.
pub async fn approvals_are_found_across_sessions(store: &Store) {
    let mut rows = Vec::new();
    for n in [3, 1, 2] {
        let mut scene = Scene::create(store, n, NewSession::default()).await;
        let call = scene.task();
        let [first, decided, last] = [(); 3].map(|()| scene.approval(&call));
        let decided = Scene::decided(decided, Decision::Allow);
        // The same ids in each session.
        let writes = [&first, &decided, &last].map(|one| one.clone().into_write());
        scene.commit(std::iter::once(call.into_write()).chain(writes).collect()).await.unwrap();
        let row = |record| ApprovalRow { session: scene.id(), record };
        rows.extend([first, decided, last].map(row));
    }
    rows.sort_by_key(|row| (row.session, row.record.id));
    let all = ApprovalQuery { open: false, ..ApprovalQuery::open() };
    assert_eq!(store.approvals(all.clone()).await.unwrap(), rows);
    let open: Vec<_> = rows.iter().filter(|row| row.record.is_open()).cloned().collect();
    for (all, rows) in [(all, rows), (ApprovalQuery::open(), open)] {
        for (at, row) in rows.iter().enumerate() {
            let after = Some((row.session, row.record.id));
            let behind = ApprovalQuery { after, ..all.clone() };
            assert_eq!(store.approvals(behind.clone()).await.unwrap(), rows[at + 1..], "behind {after:?}");
            let page = ApprovalQuery { limit: 2, ..behind.clone() };
            let expected = rows[at + 1..].iter().take(2).cloned().collect::<Vec<_>>();
            assert_eq!(store.approvals(page).await.unwrap(), expected, "behind {after:?}");
            for n in 1..=3 {
                let session = Some(session_id(n));
                let of_one = ApprovalQuery { session, ..behind.clone() };
                let its = rows[at + 1..].iter().filter(|row| Some(row.session) == session);
                assert_eq!(store.approvals(of_one).await.unwrap(), its.cloned().collect::<Vec<_>>());
            }
        }
    }
}

/// What was decided, or is void, is open no more.
pub async fn open_approvals_are_those_that_wait(store: &Store) {
    let mut scene = Scene::new(store).await;
    let call = scene.task();
    let approvals = [(); 3].map(|()| scene.approval(&call));
    let writes = approvals.clone().map(IntoWrite::into_write);
    scene.commit(std::iter::once(call.into_write()).chain(writes).collect()).await.unwrap();
    assert_eq!(found(store, ApprovalQuery::open_in(scene.id())).await, approvals);
    let [decided, void, open] = approvals;
    let decided = Scene::decided(decided, Decision::Deny { reason: "no".into() });
    let state = ApprovalState::Void { reason: "it expired".into(), time: Timestamp(9) };
    let void = ApprovalRecord { state, ..void };
    scene.commit(vec![decided.clone().into_write(), void.clone().into_write()]).await.unwrap();
    for query in [ApprovalQuery::open_in(scene.id()), ApprovalQuery::open()] {
        assert_eq!(found(store, query).await.as_slice(), std::slice::from_ref(&open));
    }
    let from = |id| ApprovalQuery { limit: 1, ..ApprovalQuery::of(scene.id()).from(id) };
    assert_eq!(found(store, from(void.id)).await, [void]);
    assert_eq!(found(store, from(ApprovalId(u64::MAX))).await, []);
    assert_eq!(found(store, ApprovalQuery::of(scene.id())).await.len(), 3);
}

/// Waiting for a person is no reason to run.
pub async fn an_open_approval_makes_no_session_due(store: &Store) {
    let mut scene = Scene::new(store).await;
    let call = scene.task();
    let approval = ApprovalRecord { until: Some(Timestamp(1)), ..scene.approval(&call) };
    scene.commit(vec![call.into_write(), approval.into_write()]).await.unwrap();
    store.release(scene.id(), owner(), scene.lease.epoch).await.unwrap();
    let query = everturn_core::storage::RunnableQuery::at(Timestamp(1_000_000));
    assert_eq!(store.runnable(query).await.unwrap(), []);
}

/// Approvals go with their session, and nobody is asked any more.
pub async fn nothing_is_asked_of_a_deleted_session(store: &Store) {
    let mut gone = Scene::new(store).await;
    let mut left = Scene::create(store, 2, NewSession::default()).await;
    for scene in [&mut gone, &mut left] {
        let call = scene.task();
        let approval = scene.approval(&call);
        scene.commit(vec![call.into_write(), approval.into_write()]).await.unwrap();
    }
    store.delete(gone.id(), owner(), gone.lease.epoch).await.unwrap();
    let rows = store.approvals(ApprovalQuery::open()).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.session).collect::<Vec<_>>(), [left.id()]);
    for session in [gone.id(), session_id(9)] {
        for query in [ApprovalQuery::of(session), ApprovalQuery::open_in(session)] {
            let error = store.approvals(query).await.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
        }
    }
}
