//! `fixtures/schema-1.db` was written by the last version that knew schema 1 alone: two sessions; in the first one
//! entries, a fork, tasks, submissions and the ledger, and documents that were superseded, extended and retired.

use everturn_core::{
    clock::Timestamp,
    document::ScopeKey,
    id::{ConversationId, Epoch, Seq, TaskId},
    storage::{
        ChangeQuery, Changes, Claim, DocumentQuery, DocumentState, Part, Revision, SessionQuery, Store,
        SubmissionFilter, SubmissionQuery, TaskQuery, ViewQuery,
    },
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, other, owner, session_id, texts},
};
use rusqlite::Connection;

use super::OLD;

async fn documents(store: &Store, scope: ScopeKey, at: Option<Seq>) -> Vec<DocumentState> {
    let query = DocumentQuery { session: session_id(1), scope, kind: None, at };
    store.documents(query).await.unwrap()
}

/// A document as base, deltas, seq and number.
fn shape(state: &DocumentState) -> (&str, Vec<&str>, u64, u64) {
    let deltas = state.deltas.iter().map(|delta| delta.get()).collect();
    (state.base.get(), deltas, state.seq.0, state.number)
}

/// All that the fixture holds, read through the port.
pub(super) async fn check_contents(store: &Store) {
    let session = session_id(1);
    let rows = store.sessions(SessionQuery::default()).await.unwrap();
    let heads: Vec<_> = rows.iter().map(|row| (row.id, row.head, row.owner.map(|(by, _)| by))).collect();
    assert_eq!(heads, [(session_id(2), Seq(2), None), (session, Seq(14), Some(owner()))]);
    let row = &rows[1];
    assert_eq!((row.new.request.as_deref(), row.new.title.as_deref()), (Some("r-1"), Some("renamed")));
    assert_eq!(
        (row.new.labels["team"].as_str(), row.epoch, row.minted, row.bytes),
        ("blue", Epoch(1), 12, 0)
    );

    let conversations = store.conversations(session).await.unwrap();
    assert_eq!(conversations.iter().map(|one| one.id.0).collect::<Vec<_>>(), [1, 9]);
    let fork = ViewQuery { session, part: Part::Conversation(ConversationId(9)) };
    let view = store.view(fork).await.unwrap();
    assert_eq!(texts(&view.entries), ["hello", "goodbye"]);
    let everything = store.view(ViewQuery { session, part: Part::Everything }).await.unwrap();
    assert_eq!((everything.documents.len(), everything.tasks.len(), everything.submissions.len()), (2, 1, 1));

    let tasks = TaskQuery { session, live: false, ids: None, owner: None };
    assert_eq!(store.tasks(tasks).await.unwrap().len(), 2);
    let only = SubmissionFilter::Request(ConversationId::ROOT, "s-2".into());
    assert_eq!(store.submissions(SubmissionQuery { session, only }).await.unwrap()[0].id.0, 8);
    assert_eq!(store.usage(session).await.unwrap().len(), 1);

    let root = ScopeKey::Conversation(ConversationId::ROOT);
    let notes = documents(store, root, None).await;
    assert_eq!(notes.iter().map(shape).collect::<Vec<_>>(), [("2", vec!["[3]", "[4]"], 6, 5)]);
    let notes = documents(store, root, Some(Seq(4))).await;
    assert_eq!(notes.iter().map(shape).collect::<Vec<_>>(), [("0", vec!["[1]"], 4, 2)]);
    let ended = documents(store, ScopeKey::Session, Some(Seq(9))).await;
    assert_eq!(ended.iter().map(shape).collect::<Vec<_>>(), [("0", vec!["[1]"], 9, 2)]);
    let latest = documents(store, ScopeKey::Task(TaskId(3)), None).await;
    assert_eq!(latest.iter().map(shape).collect::<Vec<_>>(), [("8", vec!["[9]"], 13, 2)]);
    check_changes(store).await;
}

async fn check_changes(store: &Store) {
    let query = ChangeQuery { session: session_id(1), epoch: Epoch(1), after: Seq(0), limit: usize::MAX };
    let Changes { until, commits, before, .. } = store.changes(query).await.unwrap();
    assert_eq!((until, before.len()), (Seq(14), 0));
    // The title left no row of its own.
    let seqs: Vec<_> = commits.iter().map(|change| change.seq.0).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]);
    let documents = commits.iter().flat_map(|change| &change.documents);
    let numbers: Vec<_> = documents.map(|one| (one.record.id.0, one.number)).collect();
    let notes = [(5, 1), (5, 2), (5, 3), (5, 4), (5, 5)];
    let others = [(6, 1), (10, 1), (10, 2), (10, 3), (11, 1), (11, 2)];
    assert_eq!(numbers, [&notes[..], &others].concat());
    let retired = commits.iter().flat_map(|change| &change.documents);
    let retired: Vec<_> = retired.filter(|one| one.revision == Revision::Retired).collect();
    assert_eq!(retired.iter().map(|one| one.record.id.0).collect::<Vec<_>>(), [6, 10]);
}

#[test]
fn a_store_of_schema_1_opens_and_keeps_what_it_held() {
    let file = OLD[0].file();
    block_on(async {
        check_contents(&file.open().await).await;
        // And again, as it is now; what comes is told.
        let store = file.open_as(other()).await;
        check_contents(&store).await;
        let claim = Claim { session: session_id(2), owner: other(), now: Timestamp(1), until: Timestamp(2) };
        let mut scene = Scene::of(&store, store.claim(claim).await.unwrap());
        let entry = scene.entry("more");
        scene.commit(vec![entry.clone().into_write()]).await.unwrap();
        let query = ChangeQuery { session: scene.id(), epoch: Epoch(2), after: Seq(2), limit: 9 };
        assert_eq!(store.changes(query).await.unwrap().commits[0].entries, [entry]);
    });
}

// Conversations of schema 1 had no commit and were never told as new, so archives of their sessions lost them.
// Guards: who reads changes from the beginning is told of every conversation, before the first entry of its own.
#[test]
fn every_conversation_of_schema_1_is_told_before_its_entries() {
    // Forks without entries of their own: of an entry of the fork, of one that the fork inherits, and of nothing.
    let file = OLD[0].file_with(
        r#"INSERT INTO conversation (sid, id, crc, body) SELECT 1, id, 0, body FROM (
        SELECT 15 AS id, '{"id":15,"parent":{"conversation":9,"at":12},"time":7,"lineage":[
            {"conversation":15,"until":99},{"conversation":9,"until":12},{"conversation":1,"until":2}]}' AS body
        UNION ALL SELECT 16, '{"id":16,"parent":{"conversation":9,"at":2},"time":7,"lineage":[
            {"conversation":16,"until":99},{"conversation":1,"until":2}]}'
        UNION ALL SELECT 17, '{"id":17,"time":7,"lineage":[{"conversation":17,"until":99}]}')"#,
    );
    block_on(async { drop(file.open().await) });
    let db = Connection::open(file.path()).unwrap();
    let mut places = db.prepare("SELECT id, seq FROM conversation WHERE sid = 1 ORDER BY id").unwrap();
    let places = places.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let places: Vec<(u64, u64)> = places.map(Result::unwrap).collect();
    assert_eq!(places, [(1, 1), (9, 14), (15, 14), (16, 2), (17, 1)]);

    let file = OLD[0].file();
    block_on(async {
        let store = file.open().await;
        for (session, expected) in [(session_id(1), &[1, 9][..]), (session_id(2), &[1])] {
            let query = ChangeQuery { session, epoch: Epoch(1), after: Seq(0), limit: usize::MAX };
            let mut told = Vec::new();
            for change in store.changes(query).await.unwrap().commits {
                told.extend(change.conversations.iter().map(|one| one.id.0));
                assert!(change.entries.iter().all(|entry| told.contains(&entry.conversation.0)));
            }
            assert_eq!(told, expected);
        }
    });
}
