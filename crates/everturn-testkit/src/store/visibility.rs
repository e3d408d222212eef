//! What of the transcript is visible, and in which order.

use everturn_core::{
    conversation::Lineage,
    document::ScopeKey,
    entry::{Entry, Head},
    error::ErrorKind,
    id::{ApprovalId, ConversationId, EntryId, Seq, SubmissionId, TaskId},
    storage::{
        ApprovalQuery, DocumentQuery, EntryQuery, Only, Order, Part, Store, SubmissionFilter,
        SubmissionQuery, TaskQuery, ViewQuery,
    },
};

use super::scene::{IntoWrite, Scene, session_id, texts};

const ROOT: ConversationId = ConversationId::ROOT;

/// Both orders give the same entries.
pub async fn entries_come_newest_first_and_oldest_first(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ROOT, &["a", "b", "c"]).await;
    assert_eq!(scene.texts().await, ["c", "b", "a"]);
    let oldest = EntryQuery { order: Order::OldestFirst, limit: 2, ..scene.all() };
    assert_eq!(scene.texts_of(oldest).await, ["a", "b"]);
}

/// What the parent appended later is not visible, nor is the fork's to the parent.
pub async fn a_fork_sees_its_parent_up_to_the_fork_point(store: &Store) {
    let mut scene = Scene::new(store).await;
    let at = scene.say(ROOT, &["a", "b"]).await;
    let root = scene.root().await;
    let fork = scene.fork(&root, at).await;
    scene.say(ROOT, &["later"]).await;
    scene.say(fork.id, &["in the fork"]).await;
    let seen = EntryQuery::of(scene.id(), fork.lineage);
    assert_eq!(scene.texts_of(seen).await, ["in the fork", "b", "a"]);
    assert_eq!(scene.texts().await, ["later", "b", "a"]);
}

/// The cap of each fork point holds for everything behind it.
pub async fn a_fork_of_a_fork_sees_through_both(store: &Store) {
    let mut scene = Scene::new(store).await;
    let early = scene.say(ROOT, &["a"]).await;
    let at = scene.say(ROOT, &["b"]).await;
    let root = scene.root().await;
    let child = scene.fork(&root, at).await;
    let inner = scene.say(child.id, &["c"]).await;
    scene.say(child.id, &["d"]).await;
    let grandchild = scene.fork(&child, inner).await;
    scene.say(grandchild.id, &["e"]).await;
    let behind_both = scene.fork(&child, early).await;

    let seen = EntryQuery::of(scene.id(), grandchild.lineage.clone());
    assert_eq!(scene.texts_of(seen).await, ["e", "c", "b", "a"]);
    let oldest = EntryQuery { order: Order::OldestFirst, ..EntryQuery::of(scene.id(), grandchild.lineage) };
    assert_eq!(scene.texts_of(oldest).await, ["a", "b", "c", "e"]);
    let seen = EntryQuery::of(scene.id(), behind_both.lineage);
    assert_eq!(scene.texts_of(seen).await, ["a"], "the older fork point is the cap");
}

/// The page behind a cursor is the same whatever arrives meanwhile.
pub async fn a_cursor_keeps_its_place_while_entries_arrive(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ROOT, &["a", "b", "c", "d"]).await;
    let page = |before| EntryQuery { before, limit: 2, ..EntryQuery::of(session_id(1), Lineage::new(ROOT)) };
    let first = store.entries(page(None)).await.unwrap();
    assert_eq!(texts(&first), ["d", "c"]);
    scene.say(ROOT, &["e", "f"]).await;
    let second = store.entries(page(Some(first[1].id))).await.unwrap();
    assert_eq!(texts(&second), ["b", "a"]);
    assert_eq!(store.entries(page(Some(second[1].id))).await.unwrap(), []);
    let newer = EntryQuery { after: Some(first[0].id), order: Order::OldestFirst, ..scene.all() };
    assert_eq!(scene.texts_of(newer).await, ["e", "f"]);
}

/// A page may begin in a fork and end in its parent, in both orders.
pub async fn pages_cross_the_fork_point(store: &Store) {
    let mut scene = Scene::new(store).await;
    let at = scene.say(ROOT, &["a", "b", "c"]).await;
    let root = scene.root().await;
    let fork = scene.fork(&root, at).await;
    scene.say(fork.id, &["d", "e"]).await;
    for (order, limit, expected) in [
        (Order::NewestFirst, 3, ["e", "d", "c"].as_slice()),
        (Order::NewestFirst, 1, &["e"]),
        (Order::OldestFirst, 4, &["a", "b", "c", "d"]),
        (Order::NewestFirst, 0, &[]),
    ] {
        let query = EntryQuery { order, limit, ..EntryQuery::of(scene.id(), fork.lineage.clone()) };
        assert_eq!(scene.texts_of(query).await, expected, "{limit} {order:?}");
    }
}

/// The newest head and the ends of turns are found among any number of other entries.
pub async fn heads_and_turns_are_found_without_the_rest(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ROOT, &["a"]).await;
    let mut head = scene.entry("summary");
    head.entry = head.entry.head(Head::Itself);
    scene.commit(vec![head.clone().into_write()]).await.unwrap();
    let mut turn = scene.entry("");
    turn.entry = Entry::new("et.turn");
    scene.commit(vec![turn.clone().into_write()]).await.unwrap();
    scene.say(ROOT, &["b"]).await;
    let query = |only, order| EntryQuery { only, order, ..EntryQuery::of(session_id(1), Lineage::new(ROOT)) };
    for order in [Order::NewestFirst, Order::OldestFirst] {
        assert_eq!(store.entries(query(Only::Heads, order)).await.unwrap(), [head.clone()]);
        assert_eq!(store.entries(query(Only::Turns, order)).await.unwrap(), [turn.clone()]);
    }
}

/// Cursors at the ends of the number space find nothing, and do no harm.
pub async fn a_range_without_entries_is_empty(store: &Store) {
    let mut scene = Scene::new(store).await;
    let last = scene.say(ROOT, &["a", "b"]).await;
    for (after, before) in [
        (Some(last), None),
        (Some(EntryId(u64::MAX)), None),
        (None, Some(EntryId(0))),
        (Some(last), Some(last)),
        (Some(last), Some(EntryId(1))),
    ] {
        let query = EntryQuery { after, before, ..scene.all() };
        assert_eq!(store.entries(query).await.unwrap(), [], "{after:?} {before:?}");
    }
    let elsewhere = EntryQuery::of(scene.id(), Lineage::new(ConversationId(77)));
    assert_eq!(store.entries(elsewhere).await.unwrap(), []);
}

/// Reading of a session that is not there is not the same as finding nothing in one.
pub async fn an_unknown_session_is_not_found(store: &Store) {
    let nowhere = session_id(9);
    let query = EntryQuery::of(nowhere, Lineage::new(ROOT));
    for error in [
        store.entries(query).await.unwrap_err(),
        store.conversations(nowhere).await.unwrap_err(),
        store.conversation(nowhere, ROOT).await.unwrap_err(),
        store.usage(nowhere).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), &ErrorKind::NotFound);
        assert!(error.to_string().contains(&nowhere.to_string()), "{error}");
    }
}

/// All conversations of a session, each as it was stored.
pub async fn conversations_come_oldest_first(store: &Store) {
    let mut scene = Scene::new(store).await;
    let at = scene.say(ROOT, &["a"]).await;
    let root = scene.root().await;
    let fork = scene.fork(&root, at).await;
    let all = store.conversations(scene.id()).await.unwrap();
    assert_eq!(all, [root, fork.clone()]);
    assert_eq!(store.conversation(scene.id(), fork.id).await.unwrap(), Some(fork));
    assert_eq!(store.conversation(scene.id(), ConversationId(99)).await.unwrap(), None);
}

/// A number that no id has reached, and that some databases cannot hold, is nobody's.
pub async fn an_id_beyond_all_others_is_not_found(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ROOT, &["a"]).await;
    let (task, submission) = (scene.task(), scene.submission(Some("r-1")));
    let approval = scene.approval(&task);
    let writes = vec![task.into_write(), submission.into_write(), approval.into_write()];
    scene.commit(writes).await.unwrap();
    for beyond in [u64::MAX, i64::MAX as u64 + 1, i64::MAX as u64 + 2] {
        no_id_is(store, &scene, beyond).await;
    }
}

async fn no_id_is(store: &Store, scene: &Scene, id: u64) {
    let (session, nowhere) = (scene.id(), ConversationId(id));
    for only in [SubmissionFilter::Id(SubmissionId(id)), SubmissionFilter::Request(nowhere, "r-1".into())] {
        assert_eq!(store.submissions(SubmissionQuery { session, only }).await.unwrap(), []);
    }
    for live in [false, true] {
        let owned = TaskQuery { session, live, ids: None, owner: Some(TaskId(id)) };
        assert_eq!(store.tasks(owned).await.unwrap(), []);
    }
    assert_eq!(store.tasks(TaskQuery::one(session, TaskId(id))).await.unwrap(), []);
    let behind = ApprovalQuery::of(session).from(ApprovalId(id));
    assert_eq!(store.approvals(behind).await.unwrap(), []);
    assert_eq!(store.conversation(session, nowhere).await.unwrap(), None);
    let lineage = Lineage::new(ROOT);
    assert_eq!(store.entries(EntryQuery::one(session, &lineage, EntryId(id))).await.unwrap(), []);
    assert_eq!(store.entries(EntryQuery::of(session, Lineage::new(nowhere))).await.unwrap(), []);
    for scope in [ScopeKey::Conversation(nowhere), ScopeKey::Task(TaskId(id))] {
        for at in [None, Some(Seq(id))] {
            let query = DocumentQuery { session, scope, kind: None, at };
            assert_eq!(store.documents(query).await.unwrap(), []);
        }
    }
    let part = Part::Conversation(nowhere);
    let error = store.view(ViewQuery { session, part }).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound);
}
