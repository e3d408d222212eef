//! Archives that are made while others work, are restored while others look, or were written by someone else.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};
use std::time::Duration;

use everturn_core::{
    BoxFuture, Error, Result,
    clock::{Clock, Timestamp},
    id::Seq,
    storage::{Batch, BlobPart, BlobQuery, Claim, Committed, Due, Durability, RunnableQuery, Write},
};
use everturn_engine::SystemEntropy;
use sha2::{Digest, Sha256};

use super::*;

async fn archive(session: &Session) -> String {
    let mut archive = Vec::new();
    session.archive(&mut archive).await.unwrap();
    String::from_utf8(archive).unwrap()
}

/// Commits to a session behind the back of whoever has it open.
async fn commit_behind(store: &Store, session: SessionId, write: Write) {
    let row = store.session(session).await.unwrap().unwrap();
    let batch = Batch {
        session,
        owner: row.owner.unwrap().0,
        epoch: row.epoch,
        seq: row.head.next(),
        time: row.used,
        durability: Durability::Durable,
        minted: row.minted,
        due: Due::None,
        writes: [write].into(),
    };
    assert_eq!(store.commit(batch).await.unwrap(), Committed::Stored);
}

/// Around a store: something happens before its first operation of a name.
struct Before(Store, &'static str, Mutex<Option<BoxFuture<'static, ()>>>);

impl Before {
    fn around(
        store: &Store,
        operation: &'static str,
        act: impl Future<Output = ()> + Send + 'static,
    ) -> Store {
        Store::new(Layered(Self(store.clone(), operation, Mutex::new(Some(Box::pin(act))))))
    }
}

impl Layer for Before {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn around<T: Send>(&self, operation: &'static str, call: impl Future<Output = T> + Send) -> T {
        let act = if operation == self.1 { self.2.lock().unwrap().take() } else { None };
        if let Some(act) = act {
            act.await;
        }
        call.await
    }
}

// Those who waited for ten seconds committed while an archive was written: it was of no one moment, and was refused when it came
// back. Guards that such an archive is never ended.
#[tokio::test]
async fn an_archive_of_a_session_that_moves_on_meanwhile_is_refused() {
    let store = store();
    let id = rich(&opener(store.clone()).await).await.id();
    for operation in ["changes", "blobs", "usage", "mail"] {
        let inner = store.clone();
        let moves = async move { commit_behind(&inner, id, Write::Title("on".into())).await };
        let moving = opener(Before::around(&store, operation, moves)).await;
        let session = Session::open(&moving, id).await.unwrap();
        let mut archive = Vec::new();
        let error = session.archive(&mut archive).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Conflict, "{operation}: {error}");
        assert!(!String::from_utf8(archive).unwrap().contains(r#"{"end""#), "{operation}");
        session.archive(&mut Vec::new()).await.unwrap();
    }
}

/// A clock that a test turns; waiting ends when it was turned far enough.
#[derive(Clone, Default)]
struct Turned(Arc<AtomicI64>, Arc<tokio::sync::Notify>);

impl Clock for Turned {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (clock, end) = (self.clone(), self.now() + duration);
        Box::pin(async move {
            while clock.now() < end {
                clock.1.notified().await;
            }
        })
    }
}

/// Around a store whose commits take half a term each, with a stranger who looks whether there is something to do.
struct Looking(Store, Turned, Arc<AtomicUsize>);

impl Layer for Looking {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let (Self(store, clock, looked), session) = (self, batch.session);
        clock.0.fetch_add(15_000, Ordering::SeqCst);
        clock.1.notify_waiters();
        tokio::task::yield_now().await;
        let (now, owner) = (clock.now(), World::system().owner());
        let claimed = store.claim(Claim { session, owner, now, until: now }).await.unwrap_err();
        assert!(matches!(claimed.kind(), ErrorKind::Owned { .. }), "{claimed}");
        assert_eq!(store.runnable(RunnableQuery::at(now)).await.unwrap(), []);
        assert_eq!(store.next_due().await.unwrap(), Due::None, "nothing is due before it is whole");
        let new = store.session(session).await.unwrap().unwrap().new;
        assert_eq!(new.title, None);
        assert_eq!(new.labels.into_keys().collect::<Vec<_>>(), ["et.restoring"]);
        looked.fetch_add(1, Ordering::SeqCst);
        store.commit(batch).await
    }
}

// A session on its way back was due at once, under its own title, with a lease that was never renewed: a restoration longer than
// a term was claimed half done. Guards that nobody takes it for a session before its last commit.
#[tokio::test]
async fn a_restoration_that_takes_long_stays_with_who_does_it() {
    let text = archive(&rich(&opener(store()).await).await).await;
    let (memory, clock, looked) = (store(), Turned::default(), Arc::new(AtomicUsize::new(0)));
    let slow = Store::new(Layered(Looking(memory.clone(), clock.clone(), looked.clone())));
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let restored = Session::restore(&Opener::new(slow, world).await, text.as_bytes()).await.unwrap();
    assert!(looked.load(Ordering::SeqCst) > 6);
    let id = restored.id();
    drop(restored);
    assert_eq!(memory.next_due().await.unwrap(), Due::Now, "its task is ready");
    assert_eq!(memory.runnable(RunnableQuery::at(clock.now())).await.unwrap(), [id]);
}

/// The same archive, with a change that its last line knows of.
fn forged(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is there to be changed");
    let changed = text.replacen(from, to, 1);
    let mut lines: Vec<_> = changed.lines().filter(|line| !line.is_empty()).collect();
    lines.pop();
    let before: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let hash: String = Sha256::digest(&before).iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#"{before}{{"end":{{"lines":{},"sha256":"{hash}"}}}}"#, lines.len())
}

async fn refusal(archive: &str) -> Error {
    let to = opener(store()).await;
    let error = Session::restore(&to, archive.as_bytes()).await.unwrap_err();
    assert!(to.store.sessions(SessionQuery::default()).await.unwrap().is_empty(), "{error}");
    error
}

// An archive that someone had written posted mail to other sessions, named bytes after a blob that others refer to, and brought
// records that contradict each other. Guards that nothing of an archive is believed that can be proven.
#[tokio::test]
async fn an_archive_reaches_nothing_outside_of_its_session_and_agrees_with_itself() {
    let from = opener(store()).await;
    let session = rich(&from).await;
    let (text, id) = (archive(&session).await, session.id());
    assert!(
        Session::restore(&opener(store()).await, forged(&text, "pumps", "valves").as_bytes()).await.is_ok()
    );
    let other = from.world.owner();
    let root = text.lines().nth(1).unwrap();
    for (from, to, expected) in [
        (
            &*format!(r#"mail":{{"session":"{id}"#),
            &*format!(r#"mail":{{"session":"{other}"#),
            "for another session",
        ),
        (r#""base64":"BwcH"#, r#""base64":"CAgI"#, "are those of blob"),
        (r#""size":600000"#, r#""size":600001"#, "of 600000"),
        (r#""minted":8"#, r#""minted":3"#, "beyond the greatest that was given out, 3"),
        (
            r#""tasks":[{"id":6,"conversation":1"#,
            r#""tasks":[{"id":6,"conversation":8"#,
            "task 6: its conversation",
        ),
        (r#""scope":{"conversation":1}"#, r#""scope":{"conversation":8}"#, "conversation 8, whose document"),
        (root, "", "not the one that created the session"),
        (r#""floor":0"#, r#""floor":8"#, "trimmed up to seq 8"),
        (r#""team":"#, r#""et.restoring":"#, "was not whole"),
    ] {
        let error = refusal(&forged(&text, from, to)).await;
        assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
}

// A line without an end was read until memory was, and a head far beyond the last commit asked for an empty commit for each seq
// between. Guards that a small archive makes little work.
#[tokio::test]
async fn an_archive_that_asks_for_too_much_is_refused() {
    let text = archive(&rich(&opener(store()).await).await).await;
    let far = refusal(&forged(&text, r#""head":7"#, r#""head":100000000"#)).await;
    let long = refusal(&text.replacen("\n", &format!("\n{}", " ".repeat(33 << 20)), 1)).await;
    for (error, expected) in [(far, "nothing to tell"), (long, "line 2 is longer than 33554432 bytes")] {
        assert_eq!(*error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

// What a restoration had left was deleted although another had come to its end since. Guards that only what is still half there
// is begun anew.
#[tokio::test]
async fn a_restoration_that_comes_to_its_end_is_not_begun_anew_by_another() {
    let text = archive(&rich(&opener(store()).await).await).await;
    let (memory, first) = (store(), opener(store()).await);
    let restored = Session::restore(&opener(memory.clone()).await, text.as_bytes()).await.unwrap();
    let id = restored.id();
    let labels = [("et.restoring".to_owned(), String::new())].into();
    commit_behind(&memory, id, Write::Labels(labels)).await;
    let inner = memory.clone();
    let ends = async move {
        commit_behind(&inner, id, Write::Labels(Default::default())).await;
        drop(restored);
    };
    let another = Opener { store: Before::around(&memory, "claim", ends), ..first };
    let error = Session::restore(&another, text.as_bytes()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    Session::open(&opener(memory).await, id).await.unwrap();
}

// A session was listed, judged by its row, used by someone else, and then deleted. Guards that a rule lets go only what it
// judged.
#[tokio::test]
async fn a_session_that_is_used_after_it_was_judged_stays() {
    let store = store();
    let user = opener(store.clone()).await;
    let id = Session::create(&user, NewSession::default()).await.unwrap().id();
    let uses = async move { note(&Session::open(&user, id).await.unwrap(), "used").await };
    let keeper = opener(Before::around(&store, "claim", uses)).await;
    let rules = [Rule { count_max: Some(0), ..Rule::default() }];
    assert_eq!(keeper.retain(&rules).await.unwrap(), []);
    drop(Session::open(&opener(store).await, id).await.expect("nobody has it"));
    assert_eq!(keeper.retain(&rules).await.unwrap(), [id], "judged again, as it is now");
}

// An archive did not say up to where its session was trimmed: brought back, it was full of references to nowhere. Guards that it
// comes back as trimmed as it was.
#[tokio::test]
async fn a_session_that_was_trimmed_comes_back_and_agrees_with_itself() {
    let (live, _model) = scripted([Reply::text("one"), Reply::text("two")]).await;
    for question in ["a", "b"] {
        live.root().submit(Input::text(question)).await.unwrap().answer().await.unwrap();
    }
    let mut tx = live.begin().await.unwrap();
    let floor = live.head();
    tx.trim(floor).unwrap();
    tx.commit().await.unwrap();
    let restored = Session::restore(&opener(store()).await, archive(&live).await.as_bytes()).await.unwrap();
    let reader = SessionReader::open(restored.store().clone(), live.id()).await.unwrap();
    assert_eq!(reader.verify().await.unwrap(), []);
    let query = ChangeQuery { session: live.id(), epoch: restored.epoch(), after: Seq(0), limit: 0 };
    assert_eq!(restored.store().changes(query).await.unwrap().floor, floor);
}

/// Around a store that has lost its blobs.
struct Lost(Store);

impl Layer for Lost {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn blob(&self, _: BlobQuery) -> Result<Option<BlobPart>> {
        Ok(None)
    }
}

// A blob that read as none was left out of the archive without a word. Guards that an archive is whole, or is not made.
#[tokio::test]
async fn a_blob_that_is_not_there_is_no_archive() {
    let session = rich(&opener(Store::new(Layered(Lost(store())))).await).await;
    let error = session.archive(&mut Vec::new()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
}
