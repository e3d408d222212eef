//! How things end: sessions that are deleted, entries that are purged, history that is trimmed.

use everturn_core::{
    approval::Decision,
    clock::Timestamp,
    document::History,
    entry::Head,
    error::ErrorKind,
    id::{ConversationId, Epoch, Seq, SessionId},
    storage::{
        ApprovalQuery, ChangeQuery, Code, Create, Created, EntryQuery, EpochStart, MailFilter, MailRow,
        NewSession, Only, Part, Posted, Receipt, RunnableQuery, SessionQuery, Store, SubmissionFilter,
        SubmissionQuery, Taken, TaskQuery, ViewQuery, Write,
    },
    task::{TaskRecord, TaskState, WaitPolicy},
};

use super::{
    approvals::found,
    notes::Notes,
    scene::{IntoWrite, Scene, UNTIL, creation, json, other, owner, session_id},
};

async fn delete(scene: &Scene) {
    scene.store.delete(scene.id(), scene.lease.owner, scene.lease.epoch).await.unwrap();
}

fn changes(session: SessionId) -> ChangeQuery {
    ChangeQuery { session, epoch: Epoch(1), after: Seq(1), limit: 10 }
}

/// Nobody finds a deleted session, and whoever asks for it is told that it was deleted.
pub async fn a_deleted_session_is_not_found(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ConversationId::ROOT, &["a"]).await;
    let blocked = Scene::blocked(scene.task(), 1);
    scene.commit(vec![blocked.into_write()]).await.unwrap();
    store.post(scene.mail("signal 5")).await.unwrap();
    delete(&scene).await;
    let (id, now) = (scene.id(), Timestamp(UNTIL.0 * 9));
    assert_eq!(store.session(id).await.unwrap(), None);
    assert_eq!(store.sessions(SessionQuery::default()).await.unwrap(), []);
    let code = vec![Code { kind: "app.pay".into(), version: 1 }];
    assert_eq!(store.runnable(RunnableQuery { code, ..RunnableQuery::at(now) }).await.unwrap(), []);
    for error in [
        store.entries(scene.all()).await.unwrap_err(),
        store.conversations(id).await.unwrap_err(),
        store.conversation(id, ConversationId::ROOT).await.unwrap_err(),
        store.usage(id).await.unwrap_err(),
        store.view(ViewQuery { session: id, part: Part::Everything }).await.unwrap_err(),
        store.changes(changes(id)).await.unwrap_err(),
        store.mail(id, MailFilter::Waiting).await.unwrap_err(),
        store.post(scene.mail("signal 6")).await.unwrap_err(),
        store.commit(scene.batch(vec![])).await.unwrap_err(),
        store.claim(scene.claim(other(), now)).await.unwrap_err(),
        store.renew(scene.claim(owner(), now), Epoch(1)).await.unwrap_err(),
        store.delete(id, owner(), Epoch(1)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
        assert!(error.is_deleted() && error.to_string().contains(&id.to_string()), "{error}");
    }
}

/// The end of a session is its owner's to decide.
pub async fn only_the_owner_may_delete(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.claim_again().await;
    let before = store.session(scene.id()).await.unwrap();
    for (by, epoch) in [(owner(), 1), (other(), 2), (owner(), 3)] {
        let error = store.delete(scene.id(), by, Epoch(epoch)).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
    }
    assert_eq!(store.session(scene.id()).await.unwrap(), before);
    let error = store.delete(session_id(9), owner(), Epoch(1)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
}

/// Deleting one session is nothing to the others, though their ids are the same numbers.
pub async fn a_deletion_touches_no_other_session(store: &Store) {
    let mut gone = Scene::new(store).await;
    let mut kept = Scene::create(store, 2, NewSession::default()).await;
    for scene in [&mut gone, &mut kept] {
        let (entry, task, notes) = (scene.entry("a"), scene.task(), Notes::new(scene, History::Rewindable));
        let writes = vec![entry.into_write(), task.into_write(), notes.base("0"), notes.delta("[1]")];
        scene.commit(writes).await.unwrap();
        store.post(scene.mail("signal 5")).await.unwrap();
    }
    let everything = ViewQuery { session: kept.id(), part: Part::Everything };
    let before = (
        store.session(kept.id()).await.unwrap(),
        store.view(everything.clone()).await.unwrap(),
        store.changes(changes(kept.id())).await.unwrap(),
        store.mail(kept.id(), MailFilter::Waiting).await.unwrap(),
    );
    delete(&gone).await;
    store.sweep(Timestamp(i64::MAX)).await.unwrap();
    let after = (
        store.session(kept.id()).await.unwrap(),
        store.view(everything).await.unwrap(),
        store.changes(changes(kept.id())).await.unwrap(),
        store.mail(kept.id(), MailFilter::Waiting).await.unwrap(),
    );
    assert_eq!(after, before);
    kept.commit(vec![]).await.expect("its owner goes on");
}

/// The id of a deleted session is not used again in an epoch that it has had, so that no late writer of it fits.
pub async fn a_deleted_id_comes_back_in_a_greater_epoch_only(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ConversationId::ROOT, &["as it was"]).await;
    scene.claim_again().await;
    let late = scene.batch(vec![]);
    delete(&scene).await;
    for epoch in [1, 2] {
        let error = store.create(in_epoch(epoch)).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
    }
    let Created::New(lease) = store.create(in_epoch(3)).await.unwrap() else { panic!("it had been deleted") };
    assert_eq!((lease.epoch, lease.head), (Epoch(3), Seq(1)));
    let error = store.commit(late).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
    let told = store.changes(changes(scene.id())).await.unwrap();
    assert_eq!(
        told.epochs,
        [EpochStart { epoch: Epoch(3), head: Seq(0) }],
        "an old place is told that all began anew"
    );
    let mut scene = Scene::of(store, lease);
    assert_eq!(scene.texts().await, [""; 0]);
    scene.say(ConversationId::ROOT, &["as it is"]).await;
    assert_eq!(scene.texts().await, ["as it is"]);
    delete(&scene).await;
    let error = store.create(in_epoch(3)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
}

fn in_epoch(epoch: u64) -> Create {
    let mut create = creation(1, NewSession::default());
    create.first.epoch = Epoch(epoch);
    create
}

/// What created a session that is deleted may create another.
pub async fn a_deletion_frees_the_request_id(store: &Store) {
    let new = NewSession { request: Some("c-1".into()), ..NewSession::default() };
    let scene = Scene::create(store, 1, new.clone()).await;
    delete(&scene).await;
    let by = SessionQuery { request: Some("c-1".into()), ..SessionQuery::default() };
    assert_eq!(store.sessions(by).await.unwrap(), []);
    let created = store.create(creation(2, new)).await.unwrap();
    assert!(matches!(created, Created::New(lease) if lease.session == session_id(2)), "{created:?}");
}

/// A purged entry keeps id, place, kind and head, and a hash of what it said; what it said is gone from every read.
pub async fn a_purged_entry_keeps_its_place(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entry = scene.entry("the secret");
    entry.entry = entry.entry.head(Head::Itself);
    scene.commit(vec![entry.clone().into_write()]).await.unwrap();
    let after = scene.entry("b");
    scene.commit(vec![after.clone().into_write()]).await.unwrap();
    entry.entry = entry.entry.purged("abc");
    scene.commit(vec![Write::Purge(entry.clone())]).await.unwrap();
    assert_eq!(store.entries(scene.all()).await.unwrap(), [after.clone(), entry.clone()]);
    let heads = EntryQuery { only: Only::Heads, ..scene.all() };
    assert_eq!(store.entries(heads).await.unwrap().as_slice(), std::slice::from_ref(&entry));
    let told = store.changes(changes(scene.id())).await.unwrap();
    let entries: Vec<_> = told.commits.into_iter().flat_map(|change| change.entries).collect();
    assert_eq!(entries, [entry.clone(), after.clone()]);
    let root = ViewQuery { session: scene.id(), part: Part::Conversation(ConversationId::ROOT) };
    assert_eq!(store.view(root).await.unwrap().entries, [entry, after]);
}

/// There is nothing to purge where there is no entry.
pub async fn an_unknown_entry_cannot_be_purged(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("never stored");
    let error = scene.commit(vec![Write::Title("a title".into()), Write::Purge(entry)]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(store.session(scene.id()).await.unwrap().unwrap().new.title, None);
}

/// A trim drops work that ended up to a commit; what lives, and what ended later, stays.
pub async fn a_trim_drops_ended_work(store: &Store) {
    let mut scene = Scene::new(store).await;
    let tasks = [Scene::ended(scene.task()), scene.task(), scene.task()];
    let submissions = ["r-1", "r-2", "r-3"].map(|request| scene.submission(Some(request)));
    let [settled, queued, later] = submissions;
    let settled = Scene::settled(settled);
    let mut writes: Vec<_> = tasks.clone().map(IntoWrite::into_write).into();
    writes.extend([&settled, &queued, &later].map(|submission| submission.clone().into_write()));
    scene.commit(writes).await.unwrap();
    let [_, live, last] = tasks;
    let (last, later) = (Scene::ended(last), Scene::settled(later));
    scene.commit(vec![last.clone().into_write(), later.clone().into_write()]).await.unwrap();
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();

    assert_eq!(tasks_left(&scene).await, [live, last]);
    let query = |only| SubmissionQuery { session: session_id(1), only };
    assert_eq!(store.submissions(query(SubmissionFilter::All)).await.unwrap(), [queued, later.clone()]);
    let by_request = |request: &str| query(SubmissionFilter::Request(ConversationId::ROOT, request.into()));
    assert_eq!(store.submissions(by_request("r-1")).await.unwrap(), []);
    assert_eq!(store.submissions(by_request("r-3")).await.unwrap(), [later]);
    let again = scene.submission(Some("r-1"));
    scene.commit(vec![again.into_write()]).await.expect("its request id is free again");
}

/// A trim drops what was decided up to a commit. A call can ask what was decided for as long as it lives.
pub async fn a_trim_drops_approvals_that_are_over(store: &Store) {
    let mut scene = Scene::new(store).await;
    let [live, ended] = [scene.task(), Scene::ended(scene.task())];
    let decided = |approval| Scene::decided(approval, Decision::DidNotHappen);
    let (kept, open) = (decided(scene.approval(&live)), scene.approval(&live));
    let [dropped, later] = [decided(scene.approval(&ended)), scene.approval(&ended)];
    let mut writes = vec![live.clone().into_write(), ended.into_write()];
    writes.extend([&kept, &open, &dropped, &later].map(|one| one.clone().into_write()));
    scene.commit(writes).await.unwrap();
    let later = decided(later);
    scene.commit(vec![later.clone().into_write()]).await.unwrap();
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(found(store, ApprovalQuery::of(scene.id())).await, [kept, open.clone(), later.clone()]);

    scene.commit(vec![Scene::ended(live).into_write(), Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(found(store, ApprovalQuery::of(scene.id())).await, [open, later], "nobody can ask any more");
}

/// All tasks that the scene's session still has.
async fn tasks_left(scene: &Scene) -> Vec<TaskRecord> {
    let all = TaskQuery { session: scene.id(), live: false, ids: None, owner: None };
    scene.store.tasks(all).await.unwrap()
}

fn owned(task: TaskRecord, owner: &TaskRecord) -> TaskRecord {
    TaskRecord { owner: Some(owner.id), ..task }
}

fn waiting(mut task: TaskRecord, on: &[&TaskRecord]) -> TaskRecord {
    let on = on.iter().map(|task| task.id).collect();
    task.go(TaskState::Waiting { checkpoint: json("1"), on, policy: WaitPolicy::AllSettled, joined: false });
    task
}

async fn store_all(scene: &mut Scene, tasks: &[&TaskRecord]) {
    let writes = tasks.iter().map(|task| (*task).clone().into_write()).collect();
    scene.commit(writes).await.unwrap();
}

/// An owner can ask how what it owns has ended for as long as it lives; then a later trim takes that.
pub async fn a_trim_keeps_what_a_live_task_owns(store: &Store) {
    let mut scene = Scene::new(store).await;
    let owner = scene.task();
    let child = Scene::ended(owned(scene.task(), &owner));
    let grandchild = Scene::ended(owned(scene.task(), &child));
    store_all(&mut scene, &[&owner, &child, &grandchild]).await;
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(tasks_left(&scene).await, [owner.clone(), child.clone()], "whose owner has ended is gone");
    let by_owner = TaskQuery { session: scene.id(), live: false, ids: None, owner: Some(owner.id) };
    assert_eq!(store.tasks(by_owner).await.unwrap().as_slice(), std::slice::from_ref(&child));

    let owner = Scene::ended(owner);
    store_all(&mut scene, &[&owner]).await;
    assert_eq!(tasks_left(&scene).await, [owner.clone(), child], "nothing goes by itself");
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(tasks_left(&scene).await, [owner], "its own end came later");
}

/// Who waits can ask how each task that it waits for has ended, whoever owns that, until it waits no longer.
pub async fn a_trim_keeps_what_a_live_task_waits_for(store: &Store) {
    let mut scene = Scene::new(store).await;
    let [first, second, third] = [scene.task(), scene.task(), scene.task()].map(Scene::ended);
    let running = scene.task();
    let (one, both) = (waiting(scene.task(), &[&first]), waiting(scene.task(), &[&second, &running, &first]));
    store_all(&mut scene, &[&first, &second, &third, &running, &one, &both]).await;
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    let left = [&first, &second, &running, &one, &both].map(TaskRecord::clone);
    assert_eq!(tasks_left(&scene).await, left, "nobody waits for the third");

    let mut both = both;
    both.go(TaskState::Ready { checkpoint: Some(json("2")) });
    store_all(&mut scene, &[&both]).await;
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    let left = [&first, &running, &one, &both].map(TaskRecord::clone);
    assert_eq!(tasks_left(&scene).await, left, "one still waits for the first");

    let one = Scene::ended(one);
    store_all(&mut scene, &[&one]).await;
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(tasks_left(&scene).await, [running, one, both]);
}

/// What lives in another session keeps nothing here, though its ids are the same numbers.
pub async fn a_trim_asks_no_other_session(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut other = Scene::create(store, 2, NewSession::default()).await;
    let owner = Scene::ended(scene.task());
    let child = Scene::ended(owned(scene.task(), &owner));
    store_all(&mut scene, &[&owner, &child]).await;
    let (lives, waits) = (other.task(), waiting(other.task(), &[&owner, &child]));
    assert_eq!([lives.id, waits.id], [owner.id, child.id]);
    store_all(&mut other, &[&lives, &waits]).await;
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(tasks_left(&scene).await, []);
    assert_eq!(tasks_left(&other).await, [lives, waits]);
}

/// Who needs what ended is who does when the commit is stored, wherever the trim stands in it.
pub async fn a_trim_comes_behind_what_its_commit_writes(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (owner, awaited, waiter) = (scene.task(), Scene::ended(scene.task()), scene.task());
    let child = Scene::ended(owned(scene.task(), &owner));
    store_all(&mut scene, &[&owner, &awaited, &waiter, &child]).await;
    let (owner, waiter) = (Scene::ended(owner), waiting(waiter, &[&awaited]));
    let tasks = [&waiter, &owner].map(|task| task.clone().into_write());
    scene.commit([Write::Trim(Seq(2))].into_iter().chain(tasks).collect()).await.unwrap();
    assert_eq!(tasks_left(&scene).await, [owner, awaited, waiter]);
}

/// Receipts go with the commits that gave them; mail that waits stays, however old it is.
pub async fn a_trim_drops_receipts(store: &Store) {
    let mut scene = Scene::new(store).await;
    let [early, late, waits] = ["signal 5", "signal 6", "signal 7"].map(|key| scene.mail(key));
    for mail in [&early, &late, &waits] {
        store.post(mail.clone()).await.unwrap();
    }
    let receipt = Receipt::Accepted { id: None };
    for mail in [&early, &late] {
        let taken = Taken { key: mail.key.clone(), receipt: receipt.clone() };
        scene.commit(vec![Write::Taken(taken)]).await.unwrap();
    }
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(store.post(late).await.unwrap(), Posted::Ended(receipt));
    assert_eq!(store.post(waits.clone()).await.unwrap(), Posted::Waiting);
    assert_eq!(store.post(early.clone()).await.unwrap(), Posted::New, "its receipt is gone");
    let waiting = [waits, early].map(|mail| MailRow { mail, receipt: None });
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), waiting);
}

/// A trim drops revisions that were superseded; from its commit on, documents can be read as they were.
pub async fn a_trim_keeps_what_documents_were_since(store: &Store) {
    let mut scene = Scene::new(store).await;
    let [notes, gone] = ["app.notes", "app.gone"].map(|kind| {
        let mut notes = Notes::new(&mut scene, History::Rewindable);
        notes.record.kind = kind.into();
        notes
    });
    scene.commit(vec![notes.base("0"), gone.base("0")]).await.unwrap();
    scene.commit(vec![notes.base("1"), gone.retired()]).await.unwrap();
    scene.commit(vec![notes.delta("[2]")]).await.unwrap();
    scene.commit(vec![notes.delta("[3]")]).await.unwrap();
    scene.commit(vec![Write::Trim(Seq(4))]).await.unwrap();
    let as_of = [
        (2, vec![]),
        (4, vec![notes.state("1", &["[2]"], [4, 3])]),
        (5, vec![notes.state("1", &["[2]", "[3]"], [5, 4])]),
    ];
    for (seq, expected) in as_of {
        assert_eq!(notes.read(&scene, Some(seq)).await, expected, "as of {seq}");
    }
    assert_eq!(notes.read(&scene, None).await, [notes.state("1", &["[2]", "[3]"], [5, 4])]);
    assert_eq!(gone.read(&scene, Some(2)).await, []);
    scene.commit(vec![notes.delta("[4]")]).await.unwrap();
    let now = notes.state("1", &["[2]", "[3]", "[4]"], [7, 5]);
    assert_eq!(notes.read(&scene, None).await, [now]);
}

/// The transcript is no history that a trim takes.
pub async fn a_trim_keeps_the_transcript(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ConversationId::ROOT, &["a", "b"]).await;
    scene.commit(vec![Write::Trim(Seq(3))]).await.unwrap();
    assert_eq!(scene.texts().await, ["b", "a"]);
    let told = store.changes(changes(scene.id())).await.unwrap();
    assert_eq!((told.floor, told.commits.len()), (Seq(3), 2));
}
