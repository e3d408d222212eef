//! The classes of failure: what each means for the session afterwards, and commits without an answer.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{
    BoxFuture, Error, ErrorKind, Result,
    clock::{Clock, Timestamp},
    cursor::Cursor,
    entry::Entry,
    id::{ConversationId, Epoch, OwnerId, Seq},
    memory::Memory,
    storage::{Batch, Claim, Committed, Layer, Layered, NewSession, Part, Store},
};
use everturn_engine::{
    Opener, Session, SessionReader, SystemEntropy, World,
    watch::{Ended, FrameKind, Start},
};
use futures_util::FutureExt;

const ROOT: ConversationId = ConversationId::ROOT;

/// What becomes of a commit on its way.
#[derive(Clone)]
enum Way {
    /// Refused with this error; nothing is stored.
    Refused(Error),
    /// Stored; the answer is lost.
    AnswerLost,
    /// Not stored; the answer is lost.
    Lost,
    /// The answer is lost, and the batch arrives only when it is let go.
    Delayed,
    /// Answered as stored, and taken away by the power.
    Gone,
    /// As it should be.
    Through,
}

/// A road into a store on which things happen.
struct Road {
    store: Store,
    ways: Arc<Mutex<VecDeque<Way>>>,
    delayed: Arc<Mutex<Vec<Batch>>>,
    sent: Arc<Mutex<Vec<(Epoch, Seq)>>>,
}

impl Layer for Road {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        self.sent.lock().unwrap().push((batch.epoch, batch.seq));
        let way = self.ways.lock().unwrap().pop_front();
        match way.unwrap_or(Way::Through) {
            Way::Through => self.store.commit(batch).await,
            Way::Refused(error) => Err(error),
            Way::Lost => Ok(Committed::Unknown),
            Way::Gone => Ok(Committed::Stored),
            Way::AnswerLost => self.store.commit(batch).await.map(|_| Committed::Unknown),
            Way::Delayed => {
                self.delayed.lock().unwrap().push(batch);
                Ok(Committed::Unknown)
            }
        }
    }
}

/// A clock that jumps over short waits. Long ones, such as a lease's, never end.
struct Jumping(Mutex<i64>);

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        Timestamp(*self.0.lock().unwrap())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_secs(5) {
            return Box::pin(std::future::pending());
        }
        *self.0.lock().unwrap() += i64::try_from(duration.as_millis()).unwrap();
        Box::pin(tokio::task::yield_now())
    }
}

/// A session at the end of a road.
struct Scene {
    session: Session,
    memory: Store,
    ways: Arc<Mutex<VecDeque<Way>>>,
    delayed: Arc<Mutex<Vec<Batch>>>,
    sent: Arc<Mutex<Vec<(Epoch, Seq)>>>,
}

impl Scene {
    async fn new() -> Self {
        let memory = Store::new(Memory::new());
        let (ways, delayed, sent) = Default::default();
        let road = Road {
            store: memory.clone(),
            ways: Arc::clone(&ways),
            delayed: Arc::clone(&delayed),
            sent: Arc::clone(&sent),
        };
        let world = World { clock: Arc::new(Jumping(Mutex::new(1_000))), entropy: Arc::new(SystemEntropy) };
        let opener = Opener::new(Store::new(Layered(road)), world).await;
        let session = Session::create(&opener, NewSession::default()).await.unwrap();
        Self { session, memory, ways, delayed, sent }
    }

    fn ways(&self, ways: impl IntoIterator<Item = Way>) {
        self.ways.lock().unwrap().extend(ways);
    }

    async fn note(&self, text: &str) -> Result<Seq> {
        let mut tx = self.session.begin().await?;
        tx.append(ROOT, Entry::new("note").data(text))?;
        tx.commit().await
    }

    /// What is stored, oldest first.
    async fn notes(&self) -> Vec<String> {
        let reader = SessionReader::open(self.memory.clone(), self.session.id()).await.unwrap();
        let page = reader.entries(ROOT, None, 100).await.unwrap();
        page.iter().rev().map(|entry| entry.data.as_ref().unwrap().read().unwrap()).collect()
    }
}

fn some_owner() -> OwnerId {
    "0198c0de-0000-7000-8000-0000000000bb".parse().unwrap()
}

#[tokio::test]
async fn each_kind_of_refusal_leaves_the_session_as_its_meaning_says() {
    let (by, until) = (some_owner(), Timestamp(9));
    let kinds = [
        (ErrorKind::Invalid, true),
        (ErrorKind::TooLarge, true),
        (ErrorKind::NotFound, true),
        (ErrorKind::Conflict, true),
        (ErrorKind::Unavailable { retry_after: None }, true),
        (ErrorKind::Owned { by, until }, true),
        (ErrorKind::Fenced, false),
        (ErrorKind::Corrupt { what: "a checksum".into(), where_: "table entry, rid 7".into() }, false),
        (ErrorKind::Closed { why: "the store has ended".into() }, false),
        (ErrorKind::Newer { found: 9, known: 1 }, false),
    ];
    for (kind, is_usable) in kinds {
        let scene = Scene::new().await;
        let mut watch = scene.session.watch(Part::Everything, Start::Now);
        watch.next().await.unwrap();
        scene.ways([Way::Refused(Error::new(kind.clone(), "the test says so"))]);
        let error = scene.note("refused").await.unwrap_err();
        assert_eq!(*error.kind(), kind, "no error is told as another");
        assert_eq!(scene.notes().await, Vec::<String>::new(), "{kind:?}: nothing is stored");
        let next = scene.note("next").await;
        assert_eq!(next.is_ok(), is_usable, "{kind:?}: {next:?}");
        match (is_usable, watch.next().await) {
            (true, Ok(frame)) => assert_eq!(frame.cursor.seq, next.unwrap()),
            (false, Err(Ended::Fenced)) => assert_eq!(kind, ErrorKind::Fenced),
            (false, Err(Ended::Closed(why))) => assert_eq!(*why.kind(), kind),
            other => panic!("{kind:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_is_sent_again_until_it_is_told() {
    let busy = || Way::Refused(Error::unavailable("busy"));
    let ways = [
        vec![Way::AnswerLost],
        vec![Way::Lost],
        vec![Way::Lost, Way::Lost, Way::AnswerLost, Way::Lost],
        // A refusal of the second copy says nothing of the first.
        vec![Way::AnswerLost, busy(), busy()],
    ];
    for ways in ways {
        let scene = Scene::new().await;
        let copies = ways.len() + 1;
        scene.ways(ways);
        let seq = scene.note("once").await.unwrap();
        assert_eq!(*scene.sent.lock().unwrap(), vec![(Epoch(1), seq); copies], "the same batch, again");
        scene.note("after").await.unwrap();
        assert_eq!(scene.notes().await, ["once", "after"]);
    }
}

// The first copy of a commit is still on its way when the second is answered, and arrives after that.
// Guards: what arrives late changes nothing, however much later.
#[tokio::test]
async fn a_copy_that_arrives_after_the_answer_changes_nothing() {
    let scene = Scene::new().await;
    scene.ways([Way::Delayed]);
    scene.note("once").await.unwrap();
    let first = scene.delayed.lock().unwrap().pop().unwrap();
    assert_eq!(scene.memory.commit(first.clone()).await.unwrap(), Committed::Already);
    scene.note("after").await.unwrap();
    let error = scene.memory.commit(first).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(scene.notes().await, ["once", "after"]);
}

#[tokio::test]
async fn a_failure_is_told_only_when_no_copy_can_land_any_more() {
    let scene = Scene::new().await;
    scene.ways(std::iter::once(Way::Delayed).chain(vec![Way::Lost; 80]));
    let error = scene.note("never").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable { retry_after: None }, "{error}");
    let late = scene.delayed.lock().unwrap().pop().unwrap();
    assert_eq!(scene.session.epoch(), Epoch(late.epoch.0 + 1), "it was claimed anew");
    let fenced = scene.memory.commit(late).await.unwrap_err();
    assert_eq!(*fenced.kind(), ErrorKind::Fenced);
    scene.ways.lock().unwrap().clear();
    scene.note("the session goes on").await.unwrap();
    assert_eq!(scene.notes().await, ["the session goes on"]);
}

#[tokio::test]
async fn a_commit_that_had_landed_all_along_is_no_failure() {
    let scene = Scene::new().await;
    scene.ways(std::iter::once(Way::AnswerLost).chain(vec![Way::Lost; 80]));
    scene.note("once").await.unwrap();
    scene.ways.lock().unwrap().clear();
    scene.note("after").await.unwrap();
    assert_eq!(scene.notes().await, ["once", "after"]);
}

#[tokio::test]
async fn where_the_session_cannot_be_claimed_anew_it_closes_and_says_why() {
    let scene = Scene::new().await;
    scene.memory.release(scene.session.id(), scene.session.owner(), Epoch(1)).await.unwrap();
    let claim = Claim {
        session: scene.session.id(),
        owner: some_owner(),
        now: Timestamp(0),
        until: Timestamp(i64::MAX),
    };
    scene.memory.claim(claim).await.unwrap();
    scene.ways(vec![Way::Lost; 90]);
    let error = scene.note("never").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(*scene.note("next").await.unwrap_err().kind(), ErrorKind::Fenced);
}

// A power cut takes relaxed commits away while their owner lives on (a database server that restarts).
// Guards: the owner lets its memory go, claims anew, and its watchers get everything anew, also when other commits took
// the lost seqs.
#[tokio::test]
async fn commits_that_the_power_took_away_are_let_go_of() {
    let scene = Scene::new().await;
    scene.note("kept").await.unwrap();
    let mut watch = scene.session.watch(Part::Conversation(ROOT), Start::Now);
    let kept = watch.next().await.unwrap().cursor;
    scene.ways([Way::Gone, Way::Gone]);
    let mut lost = kept;
    for text in ["lost", "lost too"] {
        scene.note(text).await.unwrap();
        lost = watch.next().await.unwrap().cursor;
    }
    let error = scene.note("on top of what is lost").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("lost"), "{error}");
    let resync = watch.next().await.unwrap();
    assert!(matches!(resync.kind, FrameKind::Resync(_)), "{resync:?}");
    assert_eq!((resync.cursor.seq, resync.cursor.epoch), (kept.seq, Epoch(2)));
    for text in ["new", "newer", "newest"] {
        scene.note(text).await.unwrap();
    }
    assert_eq!(scene.notes().await, ["kept", "new", "newer", "newest"]);
    // Whoever comes back with a place among the lost learns that it is none, though the seqs are taken again.
    let mut back = scene.session.watch(Part::Conversation(ROOT), Start::Cursor(lost));
    assert!(matches!(back.next().await.unwrap().kind, FrameKind::Resync(_)));
    let mut back = scene.session.watch(Part::Conversation(ROOT), Start::Cursor(kept));
    let frame = back.next().await.unwrap();
    assert!(matches!(frame.kind, FrameKind::Changed(_)), "{frame:?}");
    assert_eq!(frame.cursor, Cursor { epoch: Epoch(2), seq: kept.seq.next(), ..kept });
}

// Someone else claimed, committed and released while the owner had no answer; the owner took that commit for its own.
// Guards: only a claim that follows on our own epoch says what became of our commit.
#[tokio::test]
async fn a_commit_of_someone_else_is_not_taken_for_the_one_without_an_answer() {
    let scene = Scene::new().await;
    let (id, owner) = (scene.session.id(), scene.session.owner());
    scene.memory.release(id, owner, Epoch(1)).await.unwrap();
    let world = World { clock: Arc::new(Jumping(Mutex::new(1_000))), entropy: Arc::new(SystemEntropy) };
    let other = Opener { owner: some_owner(), ..Opener::new(scene.memory.clone(), world).await };
    let theirs = Session::open(&other, id).await.unwrap();
    let mut tx = theirs.begin().await.unwrap();
    tx.append(ROOT, Entry::new("note").data("theirs")).unwrap();
    tx.commit().await.unwrap();
    theirs.close().await.unwrap();
    scene.ways(vec![Way::Lost; 90]);
    let error = scene.note("ours").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(scene.notes().await, ["theirs"]);
    Session::open(&other, id).await.expect("nobody is left with the lease");
}

/// A store whose commits arrive and are never answered.
struct Silent(Store, Arc<tokio::sync::Notify>);

impl Layer for Silent {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        drop(batch);
        self.1.notify_one();
        std::future::pending().await
    }
}

// A runtime ended while a commit was on its way; the next commit had the same seq, was told "already", and was gone.
// Guards: nobody commits on top of a commit whose end is unknown.
#[test]
fn a_commit_that_the_runtime_cut_off_closes_the_session() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let arrived = Arc::new(tokio::sync::Notify::new());
    let store = Store::new(Layered(Silent(Store::new(Memory::new()), arrived.clone())));
    let first = runtime();
    let session = first.block_on(async {
        let session =
            Session::create(&Opener::new(store, World::system()).await, NewSession::default()).await.unwrap();
        let committing = session.clone();
        tokio::spawn(async move {
            let mut tx = committing.begin().await.unwrap();
            tx.append(ROOT, Entry::new("note")).unwrap();
            tx.commit().await
        });
        arrived.notified().await;
        session
    });
    drop(first);
    runtime().block_on(async {
        let error = session.begin().await.expect_err("the session is closed");
        assert!(matches!(error.kind(), ErrorKind::Closed { .. }), "{error}");
    });
}

// A caller that stopped waiting for `open` left a lease that nobody held, for a whole term.
// Guards: a lease has a holder, or is given up.
#[tokio::test]
async fn an_opening_that_is_given_up_leaves_no_lease() {
    let memory = Store::new(Memory::new());
    let opener = Opener::new(memory.clone(), World::system()).await;
    let id = Session::create(&opener, NewSession::default()).await.unwrap().id();
    for polls in 0..8 {
        let mut open = Box::pin(Session::open(&opener, id));
        for _ in 0..polls {
            if (&mut open).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(open);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        let row = memory.session(id).await.unwrap().unwrap();
        assert_eq!(row.owner, None, "given up after {polls} polls");
    }
}
