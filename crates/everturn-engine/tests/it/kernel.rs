//! The kernel: one line of commits, and what a commit may hold.

use everturn_core::{
    ErrorKind,
    conversation::Ownership,
    entry::{Edit, Entry, Head},
    id::{ConversationId, EntryId},
    message::Message,
    storage::NewSession,
    task::tree::Reach,
};
use everturn_engine::{Branch, Opener, Session, World};

use futures_util::FutureExt;

use crate::support::{session, store};

const ROOT: ConversationId = ConversationId::ROOT;

#[tokio::test]
async fn a_dropped_transaction_leaves_nothing() {
    let session = session().await;
    let before = session.head();
    let mut tx = session.begin().await.unwrap();
    let chat = tx.create_conversation(Ownership::Ownerless);
    tx.append(chat, Entry::new("note").data("hello")).unwrap();
    drop(tx);
    assert_eq!(session.head(), before);
    let error = session.conversation(chat).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn no_writes_are_no_commit() {
    let session = session().await;
    let head = session.head();
    assert_eq!(session.begin().await.unwrap().commit().await.unwrap(), head);
}

#[tokio::test]
async fn the_line_is_fair() {
    let session = session().await;
    let first = session.begin().await.unwrap();
    let waiting: Vec<_> = (0..10)
        .map(|n: i32| {
            let session = session.clone();
            let begin = async move {
                let mut tx = session.begin().await.unwrap();
                tx.append(ROOT, Entry::new("note").data(n)).unwrap();
                tx.commit().await.unwrap()
            };
            tokio::spawn(begin)
        })
        .collect();
    tokio::task::yield_now().await;
    drop(first);
    let mut seqs = Vec::new();
    for commit in waiting {
        seqs.push(commit.await.unwrap());
    }
    assert!(seqs.is_sorted(), "first come, first served: {seqs:?}");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_before_storage_is_asked() {
    let session = session().await;
    let nowhere = ConversationId(999);
    let entries = [
        (nowhere, Entry::new("note"), ErrorKind::Invalid),
        (ROOT, Entry::new("note").edit(Edit::omit(EntryId(999))), ErrorKind::Invalid),
        (ROOT, Entry::new("note").head(Head::Entry(EntryId(999))), ErrorKind::Invalid),
    ];
    for (conversation, entry, kind) in entries {
        let head = session.head();
        let mut tx = session.begin().await.unwrap();
        tx.append(conversation, entry).unwrap();
        assert_eq!(*tx.commit().await.unwrap_err().kind(), kind);
        assert_eq!(session.head(), head);
    }
    let mut tx = session.begin().await.unwrap();
    let long = Entry::new("note").message(Message::user("x".repeat(2 << 20)));
    assert_eq!(*tx.append(ROOT, long).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(*tx.append(ROOT, Entry::new("")).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(tx.fork(ROOT, EntryId(999), Ownership::Ownerless).await.is_err());
}

#[tokio::test]
async fn a_second_owner_is_told_who_has_the_session() {
    let store = store();
    let (one, two) =
        (Opener::new(store.clone(), World::system()).await, Opener::new(store, World::system()).await);
    let session = Session::create(&one, NewSession::default()).await.unwrap();
    let error = Session::open(&two, session.id()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Owned { by, .. } if *by == one.owner), "{error}");
    let id = session.id();
    drop(session);
    let session = Session::open(&two, id).await.expect("claimable once the last handle is dropped");
    assert_eq!(session.epoch().0, 2);
}

#[tokio::test]
async fn an_owner_that_lost_its_lease_cannot_commit() {
    let store = store();
    let (one, two) = (
        Opener::new(store.clone(), World::system()).await,
        Opener::new(store.clone(), World::system()).await,
    );
    let old = Session::create(&one, NewSession::default()).await.unwrap();
    store.release(old.id(), one.owner, old.epoch()).await.unwrap();
    let new = Session::open(&two, old.id()).await.unwrap();
    let mut tx = old.begin().await.unwrap();
    tx.append(ROOT, Entry::new("late")).unwrap();
    assert_eq!(*tx.commit().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert!(old.begin().await.is_err(), "closed for writing");
    assert!(new.entries(ROOT, None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn creating_again_with_a_request_id_opens_the_first_session() {
    let opener = Opener::new(store(), World::system()).await;
    let new = NewSession { request: Some("r-1".into()), ..NewSession::default() };
    let first = Session::create(&opener, new.clone()).await.unwrap();
    let id = first.id();
    first.close().await.unwrap();
    assert_eq!(Session::create(&opener, new).await.unwrap().id(), id);
}

#[tokio::test]
async fn a_dropped_commit_goes_on() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, Entry::new("note")).unwrap();
    let mut commit = Box::pin(tx.commit());
    // Polled once and dropped: from then on the engine owns it.
    assert!((&mut commit).now_or_never().is_none());
    drop(commit);
    drop(session.begin().await.unwrap());
    assert_eq!(session.entries(ROOT, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn futures_can_be_spawned() {
    fn spawnable<T: Send + 'static>(_: T) {}
    let (session, _) = crate::support::scripted([]).await;
    let current = session.root();
    spawnable(async move {
        let asked = current.submit(everturn_engine::Input::text("a")).await?;
        let mut events = asked.events();
        let _ = events.next().await;
        asked.answer().await?;
        asked.cancel().await?;
        current.wait_idle().await?;
        current.abort(Reach::Ordinary).await?;
        let live = current.session().clone();
        live.branch_from(everturn_core::id::TaskId(1), Branch::default()).await?;
        live.history().await?;
        live.begin().await?.commit().await?;
        live.close().await
    });
}
