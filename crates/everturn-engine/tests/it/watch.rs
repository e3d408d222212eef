//! Watches: baselines, frames, cursors, resets, and why they end.

use std::sync::Arc;

use everturn_core::{
    CancelToken,
    conversation::Ownership,
    cursor::Cursor,
    document::{Document, ScopeKey},
    entry::{Entry, Head},
    id::{ConversationId, EntryId, Seq},
    message::Message,
    storage::{NewSession, Part, Store},
};
use everturn_engine::{
    NewTask, Opener, Session, SessionReader, SystemClock, World,
    watch::{Changed, Ended, Frame, FrameKind, Start, Watch},
};
use futures_util::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};

use crate::support::{session, store};

const ROOT: ConversationId = ConversationId::ROOT;

#[derive(Document, Serialize, Deserialize, Default, Debug, PartialEq, Clone)]
#[document(kind = "test.count", scope = "conversation", crate = "everturn_core")]
struct Count {
    n: u64,
    text: String,
}

fn count_part() -> Part {
    Part::Document { scope: ScopeKey::Conversation(ROOT), kind: Count::KIND.into() }
}

async fn say(session: &Session, text: &str) -> EntryId {
    let mut tx = session.begin().await.unwrap();
    let id = tx.append(ROOT, Entry::new("note").message(Message::user(text))).unwrap();
    tx.commit().await.unwrap();
    id
}

async fn count(session: &Session, n: u64) -> Seq {
    let mut tx = session.begin().await.unwrap();
    let count = tx.doc::<Count>(ROOT).await.unwrap();
    count.n = n;
    count.text.push('x');
    tx.commit().await.unwrap()
}

fn changed(frame: Frame) -> (Cursor, Changed) {
    match frame.kind {
        FrameKind::Changed(changed) => (frame.cursor, changed),
        other => panic!("not a change: {other:?}"),
    }
}

fn texts(changed: &Changed) -> Vec<String> {
    changed.entries.iter().map(|entry| entry.text()).collect()
}

/// What two watches tell must be the same, but for the values' own history.
fn told(frames: &[Frame]) -> Vec<String> {
    let tell = |frame: &Frame| match &frame.kind {
        FrameKind::Changed(changed) => {
            let entries: Vec<_> = changed.entries.iter().map(|entry| (entry.id, entry.text())).collect();
            let documents: Vec<_> = changed
                .documents
                .iter()
                .map(|one| {
                    (
                        one.record.kind.clone(),
                        one.number,
                        one.value.as_ref().map(|value| value.value().clone()),
                    )
                })
                .collect();
            format!("{} {entries:?} {documents:?}", frame.cursor)
        }
        other => format!("{} {other:?}", frame.cursor),
    };
    frames.iter().map(tell).collect()
}

/// All that a watch has to tell now.
fn drain(watch: &mut Watch) -> Vec<Frame> {
    std::iter::from_fn(|| watch.next().now_or_never().map(Result::unwrap)).collect()
}

async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_watch_begins_with_what_is_there_and_tells_what_comes() {
    let session = session().await;
    say(&session, "before").await;
    let mut watch = session.watch(Part::Conversation(ROOT), Start::Now);
    let baseline = watch.next().await.unwrap();
    let FrameKind::Baseline(found) = &baseline.kind else { panic!("{baseline:?}") };
    assert_eq!(found.entries.iter().map(|entry| entry.text()).collect::<Vec<_>>(), ["before"]);
    assert_eq!((baseline.cursor.seq, found.conversations.len()), (session.head(), 1));
    for text in ["one", "two"] {
        say(&session, text).await;
        let (cursor, changed) = changed(watch.next().await.unwrap());
        assert_eq!((cursor.seq, texts(&changed)), (session.head(), vec![text.to_owned()]));
    }
}

#[tokio::test]
async fn the_baseline_of_a_conversation_is_what_its_context_begins_with() {
    let session = session().await;
    say(&session, "old").await;
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, Entry::new("summary").message(Message::user("all before")).head(Head::Itself)).unwrap();
    tx.commit().await.unwrap();
    say(&session, "new").await;
    let frame = session.watch(Part::Conversation(ROOT), Start::Now).next().await.unwrap();
    let entries = &frame.kind.baseline().unwrap().entries;
    assert_eq!(entries.iter().map(|entry| entry.text()).collect::<Vec<_>>(), ["all before", "new"]);
}

#[tokio::test]
async fn a_watch_of_one_part_hears_nothing_of_others() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let other = tx.create_conversation(Ownership::Ownerless);
    tx.commit().await.unwrap();
    let mut watches =
        [count_part(), Part::Conversation(other), Part::Tasks].map(|part| session.watch(part, Start::Now));
    for watch in &mut watches {
        watch.next().await.unwrap();
    }
    say(&session, "to the root").await;
    let seq = count(&session, 1).await;
    let mut tx = session.begin().await.unwrap();
    tx.append(other, Entry::new("note")).unwrap();
    let noted = tx.commit().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.create_task(NewTask::new(ROOT, "test.work", 1)).unwrap();
    let created = tx.commit().await.unwrap();
    settle().await;
    let seqs = |watch| drain(watch).iter().map(|frame| frame.cursor.seq).collect::<Vec<_>>();
    assert_eq!(watches.each_mut().map(seqs), [vec![seq], vec![noted], vec![created]]);
}

#[tokio::test]
async fn a_document_is_told_by_operations_with_its_value_and_numbers_without_a_gap() {
    let session = session().await;
    for n in 1..=3 {
        count(&session, n).await;
    }
    let mut watch = session.watch(count_part(), Start::Now);
    let baseline = watch.next().await.unwrap();
    assert_eq!(baseline.kind.baseline().unwrap().documents[0].number(), 3);
    for n in 4..=40 {
        count(&session, n).await;
        let (_, changed) = changed(watch.next().await.unwrap());
        let revision = &changed.documents[0];
        assert_eq!((revision.number, revision.value.as_ref().unwrap().read::<Count>().unwrap().n), (n, n));
        assert!(revision.operations.as_ref().is_some_and(|operations| !operations.is_empty()));
    }
}

#[tokio::test]
async fn a_typed_watch_never_creates_and_ends_when_the_document_is_retired() {
    let session = session().await;
    let mut watch = session.watch_doc::<Count>(ROOT, Start::Now);
    assert_eq!(watch.next().await.unwrap().value, None);
    assert!(session.snapshot::<Count>(ROOT).await.unwrap().is_none(), "watching creates nothing");
    count(&session, 7).await;
    let frame = watch.next().await.unwrap();
    assert_eq!((frame.number, frame.value.unwrap().n), (1, 7));
    let mut tx = session.begin().await.unwrap();
    tx.retire::<Count>(ROOT).await.unwrap();
    tx.commit().await.unwrap();
    assert!(matches!(watch.next().await, Err(Ended::Retired)));
    count(&session, 8).await;
    assert!(matches!(watch.next().await, Err(Ended::Retired)), "a new one is another document");
}

#[tokio::test]
async fn a_hundred_frames_wait_and_one_more_makes_them_a_reset() {
    let session = session().await;
    let mut watch = session.watch(count_part(), Start::Now);
    watch.next().await.unwrap();
    for n in 1..=100 {
        count(&session, n).await;
    }
    settle().await;
    let frames = drain(&mut watch);
    assert_eq!(frames.len(), 100, "a hundred wait");
    assert!(frames.iter().zip(1..).all(|(frame, n)| changed(frame.clone()).1.documents[0].number == n));
    for n in 101..=201 {
        count(&session, n).await;
    }
    settle().await;
    let frame = watch.next().await.unwrap();
    let FrameKind::Reset(newest) = &frame.kind else { panic!("{frame:?}") };
    assert_eq!((newest.documents[0].number(), frame.cursor.seq), (201, session.head()));
    let seq = count(&session, 202).await;
    let (cursor, changed) = changed(watch.next().await.unwrap());
    assert_eq!((cursor.seq, changed.documents[0].number), (seq, 202), "and on it goes");
}

#[tokio::test]
async fn from_any_cursor_a_watch_tells_what_a_live_one_told() {
    let store = store();
    let opener = Opener::new(store.clone(), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await.unwrap();
    let mut live = session.watch(Part::Everything, Start::Now);
    let begin = live.next().await.unwrap().cursor;
    for n in 1..=30 {
        say(&session, &format!("entry {n}")).await;
        count(&session, n).await;
    }
    settle().await;
    let frames = drain(&mut live);
    assert_eq!(frames.len(), 60);
    let reader = SessionReader::open(store, session.id()).await.unwrap();
    let cursors = std::iter::once(begin).chain(frames.iter().map(|frame| frame.cursor));
    for (seen, cursor) in cursors.enumerate() {
        let cursor: Cursor = cursor.to_string().parse().unwrap();
        let mut again = reader.watch(Arc::new(SystemClock), Part::Everything, Start::Cursor(cursor));
        let mut owned = session.watch(Part::Everything, Start::Cursor(cursor));
        let (again, owned) = (drain(&mut again), drain(&mut owned));
        assert_eq!(told(&again), told(&owned), "whoever owns the session");
        // Superseded revisions of the document are told no more; what is told is as it was.
        let expected = told(&frames[seen..]);
        let mut place = expected.iter();
        for line in told(&again) {
            assert!(place.any(|told| *told == line), "from {cursor}: {line}");
        }
        let entries = |frames: &[Frame]| {
            frames.iter().map(|frame| changed(frame.clone()).1.entries.len()).sum::<usize>()
        };
        assert_eq!(entries(&again), entries(&frames[seen..]), "entries always");
    }
}

#[tokio::test]
async fn a_watch_from_a_cursor_goes_on_live() {
    let session = session().await;
    let first = session.watch(Part::Everything, Start::Now).next().await.unwrap().cursor;
    for n in 0..250 {
        say(&session, &n.to_string()).await;
    }
    let mut watch = session.watch(Part::Everything, Start::Cursor(first));
    let mut seen = Vec::new();
    for n in 0..300 {
        if n >= 250 {
            say(&session, &n.to_string()).await;
        }
        seen.extend(texts(&changed(watch.next().await.unwrap()).1));
    }
    assert_eq!(seen, (0..300).map(|n: u32| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cursor_survives_the_session_and_its_owner() {
    let store = store();
    let opener = Opener::new(store.clone(), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await.unwrap();
    say(&session, "one").await;
    let cursor = session.watch(Part::Everything, Start::Now).next().await.unwrap().cursor;
    let id = session.id();
    session.close().await.unwrap();
    let session = Session::open(&opener, id).await.unwrap();
    say(&session, "two").await;
    let (place, changed) =
        changed(session.watch(Part::Everything, Start::Cursor(cursor)).next().await.unwrap());
    assert_eq!((texts(&changed), place.epoch), (vec!["two".to_owned()], session.epoch()));
}

#[tokio::test]
async fn a_cursor_of_another_session_is_refused() {
    let (session, other) = (session().await, session().await);
    let cursor = other.watch(Part::Tasks, Start::Now).next().await.unwrap().cursor;
    let ended = session.watch(Part::Tasks, Start::Cursor(cursor)).next().await.unwrap_err();
    assert!(
        matches!(&ended, Ended::Failed(error) if *error.kind() == everturn_core::ErrorKind::Invalid),
        "{ended}"
    );
}

#[tokio::test]
async fn a_cursor_from_before_a_trim_gets_everything_anew() {
    let session = session().await;
    let cursor = session.watch(Part::Everything, Start::Now).next().await.unwrap().cursor;
    say(&session, "one").await;
    say(&session, "two").await;
    let mut tx = session.begin().await.unwrap();
    tx.trim(Seq(2)).unwrap();
    tx.commit().await.unwrap();
    let frame = session.watch(Part::Conversation(ROOT), Start::Cursor(cursor)).next().await.unwrap();
    assert!(matches!(frame.kind, FrameKind::Resync(_)), "{frame:?}");
}

#[tokio::test]
async fn a_watch_says_why_it_ended() {
    let store = store();
    let opener = Opener::new(store.clone(), World::system()).await;
    let start = || async {
        let session = Session::create(&opener, NewSession::default()).await.unwrap();
        let mut watch = session.watch(Part::Everything, Start::Now);
        watch.next().await.unwrap();
        (session, watch)
    };

    let (session, mut watch) = start().await;
    say(&session, "last words").await;
    session.close().await.unwrap();
    assert_eq!(
        texts(&changed(watch.next().await.unwrap()).1),
        ["last words"],
        "what was committed is told first"
    );
    assert!(matches!(watch.next().await, Err(Ended::Closed(_))));

    let (session, mut watch) = start().await;
    session.delete().await.unwrap();
    assert!(matches!(watch.next().await, Err(Ended::Deleted)));

    let (session, mut watch) = start().await;
    drop(session);
    assert!(matches!(watch.next().await, Err(Ended::Closed(_))));

    let (session, watch) = start().await;
    let stop = CancelToken::new();
    let mut watch = watch.stopped_by(stop.clone());
    stop.cancel();
    assert!(matches!(watch.next().await, Err(Ended::Stopped)));
    drop(session);

    let (session, mut watch) = start().await;
    fence(&store, &session).await;
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, Entry::new("late")).unwrap();
    tx.commit().await.unwrap_err();
    assert!(matches!(watch.next().await, Err(Ended::Fenced)));
}

/// Someone else takes the session.
async fn fence(store: &Store, session: &Session) {
    store.release(session.id(), session.owner(), session.epoch()).await.unwrap();
    let other =
        Opener { owner: World::system().owner(), ..Opener::new(store.clone(), World::system()).await };
    Session::open(&other, session.id()).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_reader_follows_whoever_owns_the_session_and_hears_of_its_deletion() {
    let store = store();
    let opener = Opener::new(store.clone(), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await.unwrap();
    let reader = SessionReader::open(store, session.id()).await.unwrap();
    let watch = reader.watch(Arc::new(SystemClock), Part::Conversation(ROOT), Start::Now);
    let mut stream = Box::pin(watch.into_stream());
    stream.next().await.unwrap().unwrap();
    say(&session, "one").await;
    assert_eq!(texts(&changed(stream.next().await.unwrap().unwrap()).1), ["one"]);
    session.delete().await.unwrap();
    assert!(matches!(stream.next().await, Some(Err(Ended::Deleted))));
    assert!(stream.next().await.is_none());
}

// A watcher that was dropped in the middle of a wait lost the reset that it had taken from its queue.
// Guards: waiting can be given up at any time.
#[tokio::test]
async fn waiting_can_be_given_up_and_loses_nothing() {
    let session = session().await;
    let mut watch = session.watch(Part::Everything, Start::Now);
    let mut seen = 0;
    for n in 0..300 {
        say(&session, &n.to_string()).await;
        // Polled once and dropped, however far it came.
        if let Some(frame) = watch.next().now_or_never() {
            seen = frame.unwrap().cursor.seq.0;
        }
    }
    settle().await;
    for frame in drain(&mut watch) {
        assert_eq!(frame.cursor.seq.0, seen + 1);
        seen += 1;
    }
    assert_eq!(seen, session.head().0);
}

#[tokio::test]
async fn a_slow_watcher_delays_nobody() {
    let session = session().await;
    let _idle: Vec<_> = (0..50).map(|_| session.watch(Part::Everything, Start::Now)).collect();
    let mut begun: Vec<_> = (0..50).map(|_| session.watch(Part::Everything, Start::Now)).collect();
    for watch in &mut begun {
        watch.next().await.unwrap();
    }
    for n in 0..250 {
        say(&session, &n.to_string()).await;
    }
    settle().await;
    for watch in &mut begun {
        let frames = drain(watch);
        let last = frames.last().unwrap();
        assert_eq!(last.cursor.seq, session.head());
    }
}

// A watch from a cursor told the next document of the kind as if it were the one that was retired.
// Guards: a watch of a document ends with it, live, told again, and in a newest state.
#[tokio::test]
async fn a_watch_ends_with_its_document_however_it_learns_of_the_end() {
    let session = session().await;
    count(&session, 1).await;
    let begin = session.watch(count_part(), Start::Now).next().await.unwrap().cursor;
    let mut slow = session.watch(count_part(), Start::Now);
    slow.next().await.unwrap();
    count(&session, 2).await;
    retire(&session).await;
    for n in 3..=150 {
        count(&session, n).await;
    }
    let mut again = session.watch(count_part(), Start::Cursor(begin));
    while let Ok(frame) = again.next().await {
        let (_, changed) = changed(frame);
        assert!(changed.documents.iter().all(|one| one.value.is_none()), "of the next one nothing is told");
    }
    assert!(matches!(again.next().await, Err(Ended::Retired)));
    settle().await;
    assert!(matches!(slow.next().await, Err(Ended::Retired)), "another one stands where it was");
}

async fn retire(session: &Session) {
    let mut tx = session.begin().await.unwrap();
    tx.retire::<Count>(ROOT).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_first_reason_stays() {
    let store = store();
    let session =
        Session::create(&Opener::new(store.clone(), World::system()).await, NewSession::default()).await;
    let session = session.unwrap();
    let mut watch = session.watch(Part::Everything, Start::Now);
    watch.next().await.unwrap();
    fence(&store, &session).await;
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, Entry::new("late")).unwrap();
    tx.commit().await.unwrap_err();
    session.close().await.unwrap();
    assert!(matches!(watch.next().await, Err(Ended::Fenced)));
}

#[test]
fn a_watch_goes_on_in_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (session, mut watch) = runtime().block_on(async {
        let session = session().await;
        let mut watch = session.watch(Part::Everything, Start::Now);
        watch.next().await.unwrap();
        say(&session, "one").await;
        watch.next().await.unwrap();
        (session, watch)
    });
    runtime().block_on(async {
        say(&session, "two").await;
        assert_eq!(texts(&changed(watch.next().await.unwrap()).1), ["two"]);
    });
}
