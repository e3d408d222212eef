//! Who follows a session that other processes own.

use std::{sync::Arc, time::Duration};

use everturn::{
    Cursor, ErrorKind, SessionReader, SystemClock,
    id::{Epoch, Seq, SessionId},
    kernel::{Opener, Session},
    storage::Part,
    watch::{FrameKind, Watch},
};

use super::{Owner, Place, committed};

/// How many commits are seen of each owner, at least.
const MANY: u64 = 25;

/// Reads frames up to a commit: each is the next, and tells what its owner wrote.
async fn read(watch: &mut Watch, seen: &mut Vec<Cursor>, until: Seq) {
    while seen.last().is_none_or(|cursor| cursor.seq < until) {
        let frame = watch.next().await.unwrap();
        let FrameKind::Changed(changed) = &frame.kind else { panic!("{frame:?}") };
        let before = seen.last().map_or(Seq(0), |cursor| cursor.seq);
        assert_eq!(frame.cursor.seq, before.next(), "each commit once, and none is missing");
        if before > Seq(0) {
            let texts: Vec<_> = changed.entries.iter().map(|entry| entry.text()).collect();
            assert_eq!(texts, [format!("seq {}", frame.cursor.seq)]);
        }
        seen.push(frame.cursor);
    }
}

async fn watch(opener: &Opener, session: SessionId) -> Watch {
    let reader = SessionReader::open(opener.store.clone(), session).await.unwrap();
    let begin = Cursor { session, epoch: Epoch(1), seq: Seq(0) };
    reader.watch(Arc::new(SystemClock), Part::Everything, Some(begin))
}

#[tokio::test]
async fn a_watcher_sees_every_commit_of_another_process_and_of_the_next_owner() {
    let place = Place::new();
    let mut first = Owner::start("commits", &place.file(), "followed", &[]);
    let session = first.session();
    let opener = place.opener().await;
    let (mut watch, mut seen) = (watch(&opener, session).await, Vec::new());
    read(&mut watch, &mut seen, Seq(MANY)).await;
    let acknowledged = committed(&first.kill()).unwrap_or(Seq(MANY));

    let mut second = Owner::start("commits", &place.file(), "followed", &[]);
    assert_eq!(second.session(), session, "it is found by its request id");
    read(&mut watch, &mut seen, Seq(acknowledged.0 + MANY)).await;
    let acknowledged = committed(&second.kill()).unwrap_or(Seq(0));
    read(&mut watch, &mut seen, acknowledged).await;

    let epochs: Vec<_> = seen.iter().map(|cursor| cursor.epoch.0).collect();
    assert!(epochs.is_sorted() && epochs.first() == Some(&1) && epochs.last() == Some(&2), "{epochs:?}");
    let head = opener.store.session(session).await.unwrap().unwrap().head;
    assert!(head >= acknowledged, "what was acknowledged is there: {acknowledged}, and the head is {head}");
}

#[tokio::test]
async fn a_killed_process_s_session_is_claimed_at_once() {
    let place = Place::new();
    // Nobody waits for this lease to run out.
    let mut owner = Owner::start("commits", &place.file(), "taken over", &["term=86400000"]);
    let session = owner.session();
    owner.says("committed");
    let opener = Opener { term: Duration::from_secs(1), ..place.opener().await };
    let error = Session::open(&opener, session).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Owned { .. }), "while it lives: {error}");
    let acknowledged = committed(&owner.kill());
    let session = Session::open(&opener, session).await.unwrap();
    assert!(Some(session.head()) >= acknowledged, "{acknowledged:?}");
    assert_eq!(session.epoch(), Epoch(2));
}
