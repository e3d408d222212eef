//! Keeping a store: retention, archives and what brings them back, deletion.

mod archive;

use everturn_core::{
    ErrorKind,
    clock::Timestamp,
    document::{Document, ScopeKey},
    entry::Entry,
    id::{ConversationId, SessionId},
    json::RawJson,
    message::Message,
    retention::Rule,
    storage::{ChangeQuery, Layer, Layered, Mail, MailKind, NewSession, SessionQuery, Store, TaskQuery},
};
use everturn_engine::{Input, NewTask, Opener, Session, SessionReader, World};
use everturn_testkit::scripted::Reply;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::support::{scripted, store};

const ROOT: ConversationId = ConversationId::ROOT;

#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.notes", scope = "conversation", history = "rewindable", fork = "as_of")]
#[document(crate = "everturn_core")]
struct Notes {
    text: String,
}

async fn opener(store: Store) -> Opener {
    Opener::new(store, World::system()).await
}

async fn note(session: &Session, text: &str) {
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, Entry::new("note").message(Message::user(text))).unwrap();
    tx.doc::<Notes>(ROOT).await.unwrap().text.push_str(text);
    tx.commit().await.unwrap();
}

/// A session with something of everything.
async fn rich(opener: &Opener) -> Session {
    let new = NewSession {
        request: Some("r-1".into()),
        title: Some("pumps".into()),
        labels: [("team".into(), "north".into())].into(),
        ..NewSession::default()
    };
    let session = Session::create(opener, new).await.unwrap();
    for text in ["one", "two", "three"] {
        note(&session, text).await;
    }
    let mut writer = session.write_blob();
    writer.write(&vec![7; 600_000]).await.unwrap();
    let blob = writer.finish().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.refer(blob);
    tx.create_task(NewTask::new(ROOT, "test.work", 1)).unwrap();
    tx.commit().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.retire::<Notes>(ROOT).await.unwrap();
    tx.commit().await.unwrap();
    note(&session, "four").await;
    let mail = Mail {
        session: session.id(),
        key: "abort 5".into(),
        kind: MailKind::Abort,
        conversation: None,
        request: None,
        actor: "local".into(),
        time: Timestamp(1),
        body: RawJson::empty(),
    };
    session.store().post(mail).await.unwrap();
    session
}

/// All that commits changed, but for epochs.
async fn all(store: &Store, session: SessionId) -> impl PartialEq + std::fmt::Debug + use<> {
    let query = ChangeQuery {
        session,
        epoch: everturn_core::id::Epoch(u64::MAX),
        after: everturn_core::id::Seq(0),
        limit: usize::MAX,
    };
    let documents = store.documents(everturn_core::storage::DocumentQuery {
        session,
        scope: ScopeKey::Conversation(ROOT),
        kind: None,
        at: None,
    });
    let tasks = store.tasks(TaskQuery::live(session)).await.unwrap();
    (store.changes(query).await.unwrap().commits, documents.await.unwrap(), tasks)
}

#[tokio::test]
async fn an_archive_brings_back_all_that_there_was() {
    let (from, to) = (opener(store()).await, opener(store()).await);
    let session = rich(&from).await;
    let mut archive = Vec::new();
    session.archive(&mut archive).await.unwrap();
    let before = all(&from.store, session.id()).await;
    let row = from.store.session(session.id()).await.unwrap().unwrap();
    for opener in [&to, &from] {
        if opener.owner == from.owner {
            let error = Session::restore(opener, archive.as_slice()).await.unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Conflict, "it is there: {error}");
            session.delete().await.unwrap();
        }
        let restored = Session::restore(opener, archive.as_slice()).await.unwrap();
        assert_eq!(all(&opener.store, restored.id()).await, before);
        let found = opener.store.session(restored.id()).await.unwrap().unwrap();
        assert_eq!((found.new, found.created, found.used), (row.new.clone(), row.created, row.used));
        assert!(found.epoch > row.epoch, "an epoch is never used again");
        let blob = opener.store.blobs(restored.id()).await.unwrap()[0];
        assert_eq!(restored.blob(blob, 500_000..900_000).await.unwrap().bytes, vec![7; 100_000]);
        assert_eq!(restored.mail().await.unwrap().len(), 1);
        note(&restored, "and on it goes").await;
    }
}

#[tokio::test]
async fn an_archive_that_was_changed_or_cut_off_leaves_no_session() {
    let from = opener(store()).await;
    let mut archive = Vec::new();
    rich(&from).await.archive(&mut archive).await.unwrap();
    let text = String::from_utf8(archive).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n");
    let changed = text.replacen("three", "tree", 1);
    let dropped = [&lines[..3], &lines[4..]].concat().join("\n");
    let newer = text.replacen(r#""form":2"#, r#""form":3"#, 1);
    let twice = text.repeat(2);
    let cases = [
        cut,
        changed,
        dropped,
        "no archive".into(),
        String::new(),
        newer,
        text[..text.len() / 2].into(),
        twice,
    ];
    for (at, archive) in cases.iter().enumerate() {
        let to = opener(store()).await;
        let error = Session::restore(&to, archive.as_bytes()).await.unwrap_err();
        let is_expected = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Newer { .. });
        assert!(is_expected, "case {at}: {error}");
        assert!(to.store.sessions(SessionQuery::default()).await.unwrap().is_empty(), "case {at}");
    }
}

// A header with the largest epoch made the next epoch overflow, and a commit with a seq far beyond the head was led up to by
// as many empty ones. Guards that numbers which nobody counted are refused before anything is made of them.
#[tokio::test]
async fn an_archive_with_numbers_that_nobody_counted_is_refused_at_once() {
    let from = opener(store()).await;
    let mut archive = Vec::new();
    rich(&from).await.archive(&mut archive).await.unwrap();
    let text = String::from_utf8(archive).unwrap();
    let largest = u64::MAX;
    for (from, to) in [
        (r#""epoch":1,"#, format!(r#""epoch":{largest},"#)),
        (r#""head":7,"#, format!(r#""head":{largest},"#)),
        (r#""seq":2,"#, format!(r#""seq":{largest},"#)),
    ] {
        assert!(text.contains(from), "{from} is there to be changed");
        let opener = opener(store()).await;
        let error = Session::restore(&opener, text.replacen(from, &to, 1).as_bytes()).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid, "{to} {error}");
        assert!(opener.store.sessions(SessionQuery::default()).await.unwrap().is_empty(), "{to}");
    }
}

/// A store that ends in the middle: from its n-th change on nothing goes through.
struct Ending(Store, AtomicUsize);

impl Ending {
    async fn pass(&self) {
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Layer for Ending {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn around<T: Send>(&self, _: &'static str, call: impl Future<Output = T> + Send) -> T {
        self.pass().await;
        call.await
    }
}

/// A process of its own: when it ends, so does all that runs in it.
fn life<T>(living: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(living)
}

#[test]
fn a_restoration_that_was_cut_off_anywhere_is_begun_anew() {
    let (id, archive, before) = life(async {
        let from = opener(store()).await;
        let session = rich(&from).await;
        let mut archive = Vec::new();
        session.archive(&mut archive).await.unwrap();
        (session.id(), archive, all(&from.store, session.id()).await)
    });
    for passes in 1.. {
        let memory = store();
        let is_done = life(async {
            let ending = Layered(Ending(memory.clone(), AtomicUsize::new(passes)));
            let ending = opener(Store::new(ending)).await;
            let mut restoring = Box::pin(Session::restore(&ending, archive.as_slice()));
            // As far as it comes: then it waits for a store that has ended.
            for _ in 0..200 {
                if (&mut restoring).now_or_never().is_some() {
                    return true;
                }
                tokio::task::yield_now().await;
            }
            false
        });
        life(async {
            let found = memory.sessions(SessionQuery::default()).await.unwrap();
            let is_whole = found.iter().any(|row| !row.new.labels.contains_key("et.restoring"));
            // What the operating system does for a store on disk: the lease of an owner that is gone is free.
            for row in &found {
                if let Some((owner, _)) = row.owner {
                    memory.release(row.id, owner, row.epoch).await.unwrap();
                }
            }
            let again = opener(memory.clone()).await;
            let restored = match is_whole {
                true => Session::open(&again, id).await.unwrap(),
                false => Session::restore(&again, archive.as_slice()).await.unwrap(),
            };
            assert_eq!(all(&memory, restored.id()).await, before, "cut off after {passes} operations");
        });
        if is_done {
            assert!(passes > 10, "{passes}");
            break;
        }
    }
}

#[tokio::test]
async fn rules_let_sessions_go_and_leave_those_that_are_owned() {
    let opener = opener(store()).await;
    let mut kept = Vec::new();
    for n in 0..4 {
        let session = Session::create(&opener, NewSession::default()).await.unwrap();
        note(&session, &n.to_string()).await;
        kept.push(session);
    }
    let ids: Vec<_> = kept.iter().map(Session::id).collect();
    kept.truncate(2);
    let gone = opener.retain(&[Rule { count_max: Some(0), ..Rule::default() }]).await.unwrap();
    assert_eq!(gone.len(), 2);
    let left = opener.store.sessions(SessionQuery::default()).await.unwrap();
    let left: BTreeSet<_> = left.iter().map(|row| row.id).collect();
    assert_eq!(left, ids[..2].iter().copied().collect(), "the two that are open");
    drop(kept);
    assert_eq!(opener.sweep().await.unwrap().blobs, 0);
}

#[tokio::test]
async fn a_session_that_was_trimmed_and_purged_still_agrees_with_itself() {
    let (live, _model) = scripted([Reply::text("one"), Reply::text("two"), Reply::text("three")]).await;
    for question in ["a", "b"] {
        live.root().submit(Input::text(question)).await.unwrap().answer().await.unwrap();
    }
    let mut tx = live.begin().await.unwrap();
    let head = live.head();
    tx.trim(head).unwrap();
    tx.commit().await.unwrap();
    let answer =
        live.entries(ROOT, None, 10).await.unwrap().iter().find(|entry| entry.text() == "two").unwrap().id;
    let mut tx = live.begin().await.unwrap();
    tx.purge(ROOT, answer).await.unwrap();
    tx.commit().await.unwrap();
    let reader = SessionReader::open(live.store().clone(), live.id()).await.unwrap();
    assert_eq!(reader.verify().await.unwrap(), []);
    let tasks = TaskQuery { session: live.id(), live: false, ids: None, owner: None };
    assert_eq!(live.store().tasks(tasks).await.unwrap(), [], "the turns' tasks are gone");
    live.root().submit(Input::text("c")).await.unwrap().answer().await.unwrap();
    assert_eq!(reader.verify().await.unwrap(), []);
}
