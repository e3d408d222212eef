//! Crashes: a process that is killed, a log that was cut, a disk that fails at COMMIT.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use everturn_core::{
    clock::Timestamp,
    conversation::Lineage,
    error::ErrorKind,
    id::{ConversationId, Epoch, Seq},
    storage::{Claim, Committed, Created, EntryQuery, NewSession, Store, Write},
};
use everturn_store::{Options, open};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, creation, other, owner, session_id},
};

use crate::files::Temporary;

/// A log that ends anywhere, as a power cut may leave it, holds each commit that was whole by then.
#[test]
fn a_torn_log_keeps_every_commit_up_to_the_tear() {
    let file = Temporary::new();
    let (wal, mut ends) = (file.path().with_extension("db-wal"), Vec::new());
    let (db, log) = block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        for n in 0..12 {
            ends.push(fs::metadata(&wal).unwrap().len());
            let entry = scene.entry(&format!("entry {n} ").repeat(300 * n)).into_write();
            scene.commit(vec![entry]).await.unwrap();
        }
        (fs::read(file.path()).unwrap(), fs::read(&wal).unwrap())
    });
    for (commits, end) in (1..).zip(&ends) {
        for (cut, head) in
            [(*end, commits), (end + 1, commits), (end + 4_000, commits), (end - 1, commits - 1)]
        {
            assert_eq!(head_after_cut(&db, &log, cut), head, "cut at {cut}");
        }
    }
}

/// Opens copies of a file and of its log up to a cut, and tells the session's head.
fn head_after_cut(db: &[u8], log: &[u8], cut: u64) -> u64 {
    let copy = Temporary::new();
    fs::write(copy.path(), db).unwrap();
    fs::write(copy.path().with_extension("db-wal"), &log[..usize::try_from(cut).unwrap()]).unwrap();
    block_on(async {
        let store = copy.open().await;
        let Some(row) = store.session(session_id(1)).await.unwrap() else {
            return 0;
        };
        let scene_sees = EntryQuery::of(row.id, Lineage::new(ConversationId::ROOT));
        let entries = store.entries(scene_sees).await.unwrap();
        assert_eq!(entries.len() as u64, row.head.0 - 1, "an entry per commit after the first");
        row.head.0
    })
}

/// What was acknowledged survives the process, and what a dead process owned is free at once.
#[test]
fn a_killed_owner_s_session_is_claimable_at_once_and_whole() {
    let file = Temporary::new();
    block_on(async {
        let mut child = spawn("crash::child_that_commits_until_it_is_killed", &file.path(), None);
        let mut lines = acknowledged(&mut child);
        let mut last = Seq(0);
        while last < Seq(20) {
            last = lines.next().expect("the child goes on until it is killed");
        }
        let store = file.open().await;
        let claim = Claim { session: session_id(1), owner: owner(), now: Timestamp(1), until: Timestamp(2) };
        let error = store.claim(claim).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Owned { by, .. } if *by == other()), "{error}");

        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.last().unwrap_or(last);
        let lease = store.claim(claim).await.expect("a dead owner owns nothing");
        assert_eq!(lease.epoch, Epoch(2));
        assert!(lease.head >= last, "{} was acknowledged, the head is {}", last, lease.head);
        let left = fs::read_dir(file.path().with_extension("db.owners")).unwrap().count();
        assert_eq!(left, 1, "the dead owner's lock is gone");
    });
}

/// The child of the test above. As a test of its own it has nothing to do.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(url) = child_url() else { return };
    block_on(async {
        let store = open(&url, Options::new(other())).await.unwrap();
        let mut create = creation(1, NewSession::default());
        create.first.owner = other();
        let Created::New(lease) = store.create(create).await.unwrap() else { panic!("the file was new") };
        let mut scene = Scene::of(&store, lease);
        loop {
            let entry = scene.entry("hello").into_write();
            scene.commit(vec![entry]).await.unwrap();
            println!("acknowledged {}", scene.lease.head);
        }
    });
}

/// Runs a child that may write only so much, and proves that what is stored is what it says was acknowledged.
fn check_on_a_failing_disk(child: &str) {
    let file = Temporary::new();
    block_on(async {
        Scene::new(&file.open().await).await;
        // The child may write no file beyond this many blocks of 512 bytes: the log will grow past it.
        let mut child = spawn(child, &file.path(), Some(1_200));
        let last = acknowledged(&mut child).last().expect("the child commits at first");
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
        let row = file.open().await.session(session_id(1)).await.unwrap().unwrap();
        assert_eq!(row.head, last);
    });
}

/// A write that fails inside COMMIT leaves nobody in doubt: what is said to be stored is, what is refused is not.
#[test]
fn a_disk_that_fails_at_commit_loses_nothing_and_invents_nothing() {
    check_on_a_failing_disk("crash::child_on_a_failing_disk");
}

/// The child of the test above. As a test of its own it has nothing to do.
#[test]
fn child_on_a_failing_disk() {
    let Some(url) = child_url() else { return };
    block_on(async {
        let store = open(&url, Options::new(owner())).await.unwrap();
        let mut scene = claimed(&store).await;
        let mut refused = 0;
        for n in 0..40 {
            let entry = scene.entry(&"a".repeat(50_000)).into_write();
            // After a few entries only the log grows.
            let batch = scene.batch(if n < 5 { vec![entry] } else { vec![long_title(n)] });
            match scene.send(batch.clone()).await {
                Ok(committed) => assert_eq!(committed, Committed::Stored),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
                    refused += 1;
                    assert_eq!(
                        scene.send(batch).await.unwrap(),
                        Committed::Stored,
                        "the log was cut meanwhile"
                    );
                }
            }
            println!("acknowledged {}", scene.lease.head);
        }
        assert!(refused > 0, "the limit was never met");
    });
}

// A log that could not be cut after a COMMIT failed was answered as a closed store, which ended every session.
// Guards: a batch is told that nobody knows, and nothing is written or answered until the log can be cut.
#[test]
fn a_commit_whose_outcome_cannot_be_looked_up_is_unknown_and_sent_again() {
    check_on_a_failing_disk("crash::child_on_a_failing_disk_with_a_reader");
}

async fn claimed(store: &Store) -> Scene {
    let now = Timestamp(i64::MAX - 1);
    let claim = Claim { session: session_id(1), owner: owner(), now, until: Timestamp(i64::MAX) };
    Scene::of(store, store.claim(claim).await.unwrap())
}

/// The child of the test above. As a test of its own it has nothing to do.
#[test]
fn child_on_a_failing_disk_with_a_reader() {
    let Some(url) = child_url() else { return };
    block_on(async {
        let hasty = Options { patience: Duration::ZERO, ..Options::new(owner()) };
        let store = open(&url, hasty).await.unwrap();
        let mut scene = claimed(&store).await;
        let reader = rusqlite::Connection::open(child_path().unwrap()).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
        let unknown = loop {
            let batch = scene.batch(vec![long_title(scene.lease.head.0)]);
            if scene.store.commit(batch.clone()).await.unwrap() == Committed::Unknown {
                break batch;
            }
            scene.lease.head = batch.seq;
        };
        for _ in 0..2 {
            let error = store.commit(unknown.clone()).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
            let renewal = Claim { until: Timestamp(i64::MAX), ..scene.claim(owner(), Timestamp(1)) };
            let error = store.renew(renewal, scene.lease.epoch).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        }
        reader.execute_batch("COMMIT").unwrap();
        let committed = scene.send(unknown).await.unwrap();
        assert!(matches!(committed, Committed::Stored | Committed::Already), "{committed:?}");
        assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored);
        println!("acknowledged {}", scene.lease.head);
    });
}

// What has no proof in the session's row was said to have been looked up after a COMMIT failed, and was not.
// Guards: what does no harm when it is done twice is done again, and answered by that.
#[test]
fn what_is_no_commit_survives_a_disk_that_fails_at_commit() {
    let file = Temporary::new();
    block_on(async {
        Scene::new(&file.open().await).await;
        let mut child = spawn("crash::child_that_renews_on_a_failing_disk", &file.path(), Some(1_200));
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
    });
}

/// The child of the test above. As a test of its own it has nothing to do.
#[test]
fn child_that_renews_on_a_failing_disk() {
    let Some(url) = child_url() else { return };
    block_on(async {
        let store = open(&url, Options::new(owner())).await.unwrap();
        let scene = claimed(&store).await;
        let log = child_path().unwrap().with_extension("db-wal");
        let size = || fs::metadata(&log).unwrap().len();
        let (mut cuts, mut before) = (0, size());
        for until in 0..400 {
            let renewal = Claim { until: Timestamp(until), ..scene.claim(owner(), Timestamp(1)) };
            assert_eq!(store.renew(renewal, scene.lease.epoch).await.unwrap().until, Timestamp(until));
            cuts += u32::from(size() < before);
            before = size();
        }
        assert!(cuts > 0, "the limit was never met");
    });
}

/// A write of 50 KB that takes the place of the one before, and differs from it in every page.
fn long_title(n: u64) -> Write {
    Write::Title(n.to_string().repeat(50_000 / n.to_string().len()))
}

/// Runs one test of this program in a process of its own, which is told the path as one more name to filter by.
pub(crate) fn spawn(test: &str, path: &Path, blocks_max: Option<u32>) -> Child {
    let limit = blocks_max.map_or_else(String::new, |blocks| format!("trap '' XFSZ; ulimit -f {blocks}; "));
    let program = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{limit}exec \"$0\" \"$@\"")])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The path that [`spawn`] told; none in a test that was not spawned.
pub(crate) fn child_path() -> Option<PathBuf> {
    std::env::args().map(PathBuf::from).find(|path| path.extension().is_some_and(|end| end == "db"))
}

fn child_url() -> Option<String> {
    child_path().map(|path| format!("sqlite:{}", path.display()))
}

/// The seqs that a child says were acknowledged.
fn acknowledged(child: &mut Child) -> impl Iterator<Item = Seq> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| {
        let (_, seq) = line.split_once("acknowledged ")?;
        Some(Seq(seq.parse().ok()?))
    })
}
