//! Ends: what is deleted and purged is gone from the file, too.

use std::fs;

use everturn_core::{
    clock::Timestamp,
    document::{ForkPolicy, History, ScopeKey},
    error::ErrorKind,
    id::{BlobId, ConversationId, DocumentId, Epoch, TaskId},
    json::RawJson,
    storage::{
        Created, DocumentRecord, DocumentWrite, Mail, MailKind, NewSession, Revision, SearchQuery, Store,
        Swept, Write,
    },
    usage::{RequestEnd, UsageRow},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, creation, json, owner},
};

use crate::{blobs, files::Temporary};

const TABLES: [&str; 11] = [
    "entry",
    "task",
    "submission",
    "approval",
    "document",
    "revision",
    "usage",
    "conversation",
    "epoch",
    "mail",
    "blob_use",
];

fn count(file: &Temporary, table: &str) -> i64 {
    let db = rusqlite::Connection::open(file.path()).unwrap();
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Where a file and its log have a text.
fn holds(file: &Temporary, text: &str) -> bool {
    let files = [file.path(), file.path().with_extension("db-wal")];
    let mut files = files.iter().filter_map(|path| fs::read(path).ok());
    files.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

async fn search(store: &Store, words: &str) -> usize {
    store.search(SearchQuery { words: words.into(), ..SearchQuery::default() }).await.unwrap().len()
}

/// A session that has rows in every table, in more slices than one.
async fn filled(store: &Store, n: u16) -> Scene {
    let mut scene =
        Scene::create(store, n, NewSession { title: Some("pumps".into()), ..NewSession::default() }).await;
    let (session, blob) = (scene.id(), BlobId([9; 32]));
    blobs::write(store, blobs::upload(1), blob, b"a drawing").await;
    let key = Mail::submit_key(ConversationId::ROOT, "r-1");
    let (kind, body) = (MailKind::Submit, RawJson::empty());
    let (conversation, request) = (Some(ConversationId::ROOT), Some("r-1".to_owned()));
    let mail =
        Mail { session, key, kind, conversation, request, actor: "local".into(), time: Timestamp(1), body };
    store.post(mail).await.unwrap();
    let record = DocumentRecord {
        id: DocumentId(scene.mint()),
        scope: ScopeKey::Session,
        kind: "app.notes".into(),
        history: History::Rewindable,
        fork: ForkPolicy::Initial,
    };
    let revision = Revision::Base { version: 1, value: json(r#"{"text":"halibut"}"#) };
    let usage = UsageRow {
        conversation: ConversationId::ROOT,
        turn: TaskId(5),
        step: 1,
        attempt: 1,
        model: "chat/qwen".into(),
        end: RequestEnd::Complete,
        usage: None,
        cost: None,
        time: Timestamp(7),
    };
    let call = scene.task();
    let mut writes = vec![
        scene.approval(&call).into_write(),
        call.into_write(),
        scene.submission(None).into_write(),
        Write::Document(DocumentWrite { record, number: 1, revision }),
        Write::Usage(usage),
        Write::Blob(blob),
    ];
    writes.extend((0..300).map(|n| scene.entry(&format!("halibut number {n}")).into_write()));
    writes.push(scene.entry(&"halibut ".repeat(200_000)).into_write());
    writes.push(scene.entry("the last of them").into_write());
    scene.commit(writes).await.unwrap();
    scene
}

#[test]
fn a_deleted_session_leaves_its_id_and_no_word() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut other = Scene::create(&store, 2, NewSession::default()).await;
        other.say(ConversationId::ROOT, &["the pump is repaired"]).await;
        let scene = filled(&store, 1).await;
        assert_eq!(search(&store, "halibut").await, 20, "as many as a search gives");

        store.delete(scene.id(), owner(), scene.lease.epoch).await.unwrap();
        assert_eq!(search(&store, "halibut").await, 0);
        assert_eq!(search(&store, "pump").await, 1);
        let rows: Vec<_> = TABLES.iter().map(|table| count(&file, table)).collect();
        assert_eq!(rows, [1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0], "what is left is the other session's");
        assert_eq!(store.sweep(Timestamp(0)).await.unwrap(), Swept::default(), "nothing is left to do");
        assert_eq!(store.check().await.unwrap(), []);
        other.say(ConversationId::ROOT, &["a newer entry"]).await;
        assert_eq!(search(&store, "newer").await, 1, "it got the key of an entry that is gone");
    });
    assert!(!holds(&file, "halibut") && !holds(&file, "pumps") && holds(&file, "the pump is"));
}

#[test]
fn a_deletion_that_was_cut_off_is_finished_by_a_sweep() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        filled(&store, 1).await;
        let db = rusqlite::Connection::open(file.path()).unwrap();
        db.execute_batch("UPDATE session SET deleted = 0, owner = NULL, until = NULL, due = NULL").unwrap();
        assert_eq!(search(&store, "halibut").await, 0, "it has ended, and nobody finds it");

        assert_eq!(store.sweep(Timestamp(2)).await.unwrap(), Swept { blobs: 1, sessions: 1 });
        assert!(TABLES.iter().all(|table| count(&file, table) == 0));
        assert_eq!(count(&file, "session"), 1, "its id is not used again");
        assert_eq!(store.sweep(Timestamp(2)).await.unwrap(), Swept::default());
    });
}

#[test]
fn only_who_owns_a_session_deletes_it() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let scene = Scene::new(&store).await;
        let by = everturn_testkit::store::scene::other();
        let error = store.delete(scene.id(), by, scene.lease.epoch).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
        assert!(store.session(scene.id()).await.unwrap().is_some());
    });
}

/// A session with an entry that was purged while a reader, given too, still sees it.
async fn purged_under_a_reader(file: &Temporary) -> (Scene, rusqlite::Connection) {
    let mut scene = Scene::new(&file.open().await).await;
    let mut secret = scene.entry("the key is hunter2hunter2");
    scene.commit(vec![secret.clone().into_write()]).await.unwrap();
    let reader = rusqlite::Connection::open(file.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM entry").unwrap();

    secret.entry = secret.entry.purged("its hash");
    scene.commit(vec![Write::Purge(secret)]).await.unwrap();
    (scene, reader)
}

#[test]
fn a_reader_keeps_what_was_purged_in_the_log_no_longer_than_it_reads() {
    let file = Temporary::new();
    block_on(async {
        let (mut scene, reader) = purged_under_a_reader(&file).await;
        assert!(holds(&file, "hunter2hunter2"), "it reads the store as it was");
        reader.execute_batch("COMMIT").unwrap();
        scene.commit(vec![]).await.unwrap();
        assert!(!holds(&file, "hunter2hunter2"));
    });
}

#[test]
fn a_purged_entry_leaves_no_byte_in_the_file_and_its_log() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        scene.say(ConversationId::ROOT, &["before it"]).await;
        let short = scene.entry("the key is hunter2hunter2");
        let long = scene.entry(&format!("{} swordfish7 {}", "filler ".repeat(5_000), "more ".repeat(5_000)));
        scene.commit(vec![short.clone().into_write(), long.clone().into_write()]).await.unwrap();
        scene.say(ConversationId::ROOT, &["behind it"]).await;
        assert_eq!(search(&store, "hunter2hunter2").await, 1);
        assert_eq!(search(&store, "SWORDFISH7 filler").await, 1);
        assert!(holds(&file, "hunter2hunter2") && holds(&file, "swordfish7"));

        let purge = [short, long].map(|mut record| {
            record.entry = record.entry.purged("its hash");
            Write::Purge(record)
        });
        scene.commit(purge.to_vec()).await.unwrap();
        assert!(!holds(&file, "hunter2hunter2") && !holds(&file, "swordfish7"), "while the store is open");
        assert_eq!(search(&store, "hunter2hunter2").await, 0);
        assert_eq!(scene.texts().await, ["behind it", "", "", "before it"]);
        assert_eq!(store.check().await.unwrap(), []);
    });
    assert!(!holds(&file, "hunter2hunter2") && !holds(&file, "swordfish7"));
}

// A creation that took the id of a deletion cut off on the way removed its contents at once, and left their bytes.
// Guards: what the tombstone stood for is removed as a deletion removes it, before the id is used again.
#[test]
fn a_creation_in_the_place_of_a_tombstone_leaves_no_byte_of_what_was() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        filled(&store, 1).await;
        let db = rusqlite::Connection::open(file.path()).unwrap();
        db.execute_batch("UPDATE session SET deleted = 0, owner = NULL, until = NULL").unwrap();
        assert!(holds(&file, "halibut"));

        let mut again = creation(1, NewSession::default());
        again.first.epoch = Epoch(2);
        assert!(matches!(store.create(again).await.unwrap(), Created::New(_)));
        assert!(!holds(&file, "halibut"), "while the store is open");
        assert_eq!(store.sweep(Timestamp(0)).await.unwrap(), Swept::default(), "nothing is left to do");
        assert_eq!(store.check().await.unwrap(), []);
    });
}

// A process that died between a purge and the cutting of the log left the secret in the log, for good.
// Guards: who opens a store that nobody closed cuts the log.
#[test]
fn who_opens_a_store_after_a_crash_leaves_no_byte_of_what_was_purged() {
    let (file, crashed) = (Temporary::new(), Temporary::new());
    let log = |file: &Temporary| file.path().with_extension("db-wal");
    block_on(async {
        // With a reader the cut waits, as it does for whoever dies before it.
        let (scene, _reader) = purged_under_a_reader(&file).await;
        fs::copy(file.path(), crashed.path()).unwrap();
        fs::copy(log(&file), log(&crashed)).unwrap();
        assert!(holds(&crashed, "hunter2hunter2"));

        let store = crashed.open().await;
        assert!(!holds(&crashed, "hunter2hunter2"));
        assert_eq!(store.entries(scene.all()).await.unwrap()[0].messages, []);
    });
    block_on(async {
        // What was closed cleanly keeps its log, which is cheaper to overwrite than to grow.
        let kept = fs::metadata(log(&crashed)).unwrap().len();
        drop(crashed.open().await);
        assert!(kept > 0 && fs::metadata(log(&crashed)).unwrap().len() >= kept);
    });
}
