//! Upkeep: backups while others write, room given back, and proof that the file is whole.

use std::{fs, os::unix::fs::PermissionsExt};

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{BlobId, ConversationId, Epoch},
    storage::{BlobQuery, Claim, NewSession, Store},
};
use everturn_store::{Options, open};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, other, owner},
};
use futures_util::future::{join, join_all};

use crate::{
    blobs,
    files::{Blocker, Temporary},
};

async fn open_copy(file: &Temporary, name: &str) -> Store {
    open(&format!("sqlite:{}", file.path().with_file_name(name).display()), Options::new(other()))
        .await
        .unwrap()
}

#[test]
fn a_backup_is_the_store_at_one_moment_while_others_commit() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let bytes = blobs::bytes(3_000_000);
        blobs::write(&store, blobs::upload(1), BlobId([1; 32]), &bytes).await;
        scene.say(ConversationId::ROOT, &["before"]).await;
        let mut others = Vec::new();
        for n in 2..=9 {
            others.push(Scene::create(&store, n, NewSession::default()).await);
        }
        let to = file.path().with_file_name("copy.db");
        let commits = others.iter_mut().map(|scene| scene.say(ConversationId::ROOT, &["a", "b", "c"]));
        let (copied, _) = join(store.backup(to.clone()), join_all(commits)).await;
        copied.unwrap();
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
        let names = fs::read_dir(to.parent().unwrap()).unwrap().flatten().map(|found| found.file_name());
        let leftovers: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("copy.db.")).collect();
        assert!(leftovers.is_empty(), "{leftovers:?}");

        let copy = open_copy(&file, "copy.db").await;
        assert_eq!(copy.check().await.unwrap(), []);
        let row = copy.session(scene.id()).await.unwrap().unwrap();
        assert_eq!((row.head, row.owner), (scene.lease.head, None));
        let claim = Claim { session: scene.id(), owner: other(), now: Timestamp(1), until: Timestamp(2) };
        assert_eq!(copy.claim(claim).await.unwrap().epoch, Epoch(2));
        assert_eq!(copy.entries(scene.all()).await.unwrap(), store.entries(scene.all()).await.unwrap());
        let blob = BlobQuery { blob: BlobId([1; 32]), from: 0, limit: usize::MAX };
        assert!(copy.blob(blob).await.unwrap().unwrap().bytes == bytes);
    });
}

#[test]
fn a_backup_overwrites_nothing() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let directory = file.path().parent().unwrap().to_owned();
        fs::write(directory.join("notes.txt"), "mine").unwrap();
        fs::write(directory.join("old.db-wal"), "a log").unwrap();
        for name in ["notes.txt", "old.db", "work.db"] {
            let error = store.backup(directory.join(name)).await.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Conflict, "{name}: {error}");
        }
        assert_eq!(fs::read(directory.join("notes.txt")).unwrap(), b"mine");
        let error = store.backup(directory.join("missing/copy.db")).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    });
}

#[test]
fn a_vacuum_gives_the_room_of_a_deleted_session_back() {
    let file = Temporary::new();
    let size = || fs::metadata(file.path()).unwrap().len();
    block_on(async {
        let store = file.open().await;
        let mut kept = Scene::create(&store, 2, NewSession::default()).await;
        let mut scene = Scene::new(&store).await;
        for _ in 0..20 {
            let entry = scene.entry(&"a".repeat(100_000)).into_write();
            scene.commit(vec![entry]).await.unwrap();
        }
        kept.say(ConversationId::ROOT, &["it stays"]).await;
        store.delete(scene.id(), owner(), scene.lease.epoch).await.unwrap();
        assert!(size() > 2_000_000);
        store.vacuum().await.unwrap();
        assert!(size() < 300_000, "{}", size());
        assert_eq!(fs::metadata(file.path().with_extension("db-wal")).unwrap().len(), 0);
        kept.say(ConversationId::ROOT, &["and goes on"]).await;
        assert_eq!(kept.texts().await, ["and goes on", "it stays"]);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_vacuum_is_put_off_while_others_have_the_file() {
    let file = Temporary::new();
    block_on(async {
        let (ours, theirs) = (file.open().await, file.open_as(other()).await);
        let error = ours.vacuum().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains(&other().to_string()), "{error}");
        drop(theirs);
        ours.vacuum().await.unwrap();
        drop(ours);

        let hasty = Options { patience: std::time::Duration::ZERO, ..Options::new(owner()) };
        let store = open(&file.url(), hasty).await.unwrap();
        let mut scene = Scene::new(&store).await;
        let entry = scene.entry(&"a".repeat(100_000)).into_write();
        scene.commit(vec![entry]).await.unwrap();
        store.delete(scene.id(), owner(), scene.lease.epoch).await.unwrap();
        let blocker = Blocker::new(&file.path());
        let error = store.vacuum().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        drop(blocker);
        store.vacuum().await.unwrap();
    });
}

#[test]
fn a_check_names_what_is_not_whole() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        Scene::new(&store).await.say(ConversationId::ROOT, &["hello"]).await;
        assert_eq!(store.check().await.unwrap(), []);
        let db = rusqlite::Connection::open(file.path()).unwrap();
        db.execute_batch(
            "PRAGMA foreign_keys = OFF; INSERT INTO usage (sid, seq, crc, body) VALUES (77, 1, 1, '')",
        )
        .unwrap();
        let findings = store.check().await.unwrap();
        let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["table usage, row 1: the session that it refers to is not there"]);
    });
}
