//! A log that ends anywhere, as a power cut may leave it: what opens is a prefix of the commits, and it goes on.

use std::{fs, path::Path, sync::Arc};

use everturn::{
    Cursor, SessionReader, SystemClock, World,
    id::{Epoch, Seq},
    kernel::Opener,
    storage::{ChangeQuery, Part, SessionQuery},
    store::{self, Options, Store},
    watch::FrameKind,
};
use everturn_worlds::{
    kernel::{OWNER, Outcome, READER, REQUEST},
    notebook::{Line, Notebook},
};

use super::{
    check,
    killed::{live_on, undisturbed_on_disk},
};
use crate::killed::run;

/// How much is left of the log, in parts of 24, and how many bytes are missing of that.
const LEFT: [(usize, usize); 12] = [
    (24, 1),
    (24, 4_000),
    (24, 20_000),
    (22, 0),
    (20, 1),
    (16, 7),
    (12, 0),
    (9, 100),
    (6, 0),
    (4, 9),
    (3, 1),
    (2, 0),
];

#[tokio::test]
async fn a_kernel_whose_log_was_torn_goes_on_to_the_same_end() {
    let expected = undisturbed_on_disk();
    let original = tempfile::tempdir().unwrap();
    // Until then nothing was taken away, and the log holds every commit.
    let killed: Option<Outcome> = run("kernel", original.path(), Some(("step", "archive")));
    assert!(killed.is_none(), "it was killed");
    let log = fs::read(original.path().join("store.db-wal")).unwrap();
    let whole = entries(&copy(original.path(), &log).path().join("store.db")).await.unwrap();
    let mut resyncs = 0;
    for (parts, missing) in LEFT {
        let left = &log[..log.len() * parts / 24 - missing];
        let when = format!("{} of {} bytes of the log are left", left.len(), log.len());
        let torn = copy(original.path(), left);
        resyncs += tear(torn.path(), &whole, &expected, &when).await;
    }
    println!("{} tears, {resyncs} watchers were told", LEFT.len());
    assert!(resyncs >= 8, "tears take away what watchers had seen: {resyncs}");
}

/// A copy of the store with so much of its log, and of the notebook. The disk said that more was stored; it lied.
fn copy(from: &Path, log: &[u8]) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    fs::copy(from.join("store.db"), to.path().join("store.db")).unwrap();
    fs::write(to.path().join("store.db-wal"), log).unwrap();
    let notebook = Notebook::open(&to.path().join("notebook")).unwrap();
    for line in Notebook::open(&from.join("notebook")).unwrap().lines() {
        if !matches!(line, Line::Acknowledged(_)) {
            notebook.write(line).unwrap();
        }
    }
    to
}

async fn open(file: &Path) -> Store {
    let url = format!("sqlite:{}", file.display());
    store::open(&url, Options::new(World::system().owner())).await.unwrap()
}

async fn reader(store: &Store) -> Option<SessionReader> {
    let query = SessionQuery { request: Some(REQUEST.into()), ..SessionQuery::default() };
    let row = store.sessions(query).await.unwrap().pop()?;
    Some(SessionReader::open(store.clone(), row.id).await.unwrap())
}

/// What each commit brought that nothing supersedes; none where the session is not there.
async fn entries(file: &Path) -> Option<Vec<String>> {
    let store = open(file).await;
    let session = reader(&store).await?.row().id;
    let all = ChangeQuery { session, epoch: Epoch(u64::MAX), after: Seq(0), limit: usize::MAX };
    let commits = store.changes(all).await.unwrap().commits;
    let told = commits.iter().map(|one| format!("{} {:?} {:?}", one.seq, one.conversations, one.entries));
    Some(told.collect())
}

/// Opens what is left and lets it go on; gives how many watchers were told of the loss.
async fn tear(directory: &Path, whole: &[String], expected: &Outcome, when: &str) -> usize {
    let file = directory.join("store.db");
    let found = entries(&file).await.unwrap_or_else(|| panic!("{when}: the session is there"));
    assert_eq!(found, whole[..found.len()], "{when}: a prefix of the commits");
    let notebook = Notebook::open(&directory.join("notebook")).unwrap();
    let cursors = [OWNER, READER].map(|watcher| notebook.cursor(watcher).unwrap());
    let lost: Vec<Cursor> = cursors.into_iter().filter(|cursor| cursor.seq.0 > found.len() as u64).collect();
    let store = open(&file).await;
    let opener = Opener::new(store.clone(), World::system()).await;
    for row in opener.store.sessions(SessionQuery::default()).await.unwrap() {
        let reader = SessionReader::open(store.clone(), row.id).await.unwrap();
        assert_eq!(reader.verify().await.unwrap(), [], "{when}");
    }
    assert_eq!(store.check().await.unwrap(), [], "{when}");
    is_told(&store, &lost, when).await;
    drop((opener, store));

    let outcome = live_on(directory);
    check(&outcome, expected, when);
    assert_eq!(outcome.resyncs, lost.len(), "{when}: who had seen what is lost is told so");
    // The seqs are taken again, by other commits: they are not those that were seen.
    is_told(&open(&file).await, &lost, when).await;
    lost.len()
}

/// Whoever comes from a commit that was lost is told everything anew.
async fn is_told(store: &Store, lost: &[Cursor], when: &str) {
    let reader = reader(store).await.unwrap();
    for cursor in lost {
        let mut watch = reader.watch(Arc::new(SystemClock), Part::Everything, Some(*cursor));
        let frame = watch.next().await.unwrap();
        assert!(matches!(frame.kind, FrameKind::Resync(_)), "{when}: from {cursor}: {frame:?}");
    }
}
