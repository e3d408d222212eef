//! An owner that is stopped for longer than its lease, and continued.

use everturn::{
    ErrorKind,
    entry::Entry,
    id::{ConversationId, SessionId},
    kernel::{Opener, Session},
    message::Message,
};

use super::{Owner, Place, committed, texts};

/// Claims a session as soon as its owner's lease has run out.
async fn claim(opener: &Opener, session: SessionId) -> Session {
    loop {
        match Session::open(opener, session).await {
            Ok(session) => return session,
            Err(error) => {
                let ErrorKind::Owned { until, .. } = error.kind() else { panic!("{error}") };
                let clock = &opener.world.clock;
                clock.sleep(until.since(clock.now())).await;
            }
        }
    }
}

/// Stops an owner at a moment of its n-th commit, and takes its session over meanwhile.
async fn stop(moment: &str, number: u64) {
    let (place, when) = (Place::new(), format!("stopped {moment} commit {number}"));
    let wish = format!("{moment}={number}");
    let mut owner = Owner::start("commits", &place.file(), "stopped", &["term=600", &wish]);
    let session = owner.session();
    owner.says("stopping");
    owner.wait_until_stopped();

    let opener = place.opener().await;
    let before = texts(&opener, session).await;
    let taken = claim(&opener, session).await;
    let mut tx = taken.begin().await.unwrap();
    tx.append(ConversationId::ROOT, Entry::new("note").message(Message::user("taken over"))).unwrap();
    let seq = tx.commit().await.unwrap();
    owner.go_on();

    let said = owner.rest();
    let refused: Vec<_> = said.iter().filter(|line| !line.starts_with("committed")).collect();
    assert_eq!(refused, ["refused Fenced", "watch ended Fenced"], "{when}");
    // What had landed before it was stopped is acknowledged late, and nothing more.
    let last = committed(&said).map_or(seq.0 - 1, |seq| seq.0);
    assert!(last < seq.0, "{when}: seq {last} was acknowledged, and {seq} is another's");
    let expected = [before, vec!["taken over".into()]].concat();
    assert_eq!(texts(&opener, session).await, expected, "{when}: nothing of it lands");
    assert_eq!(taken.head(), seq, "{when}");
}

#[tokio::test]
async fn a_stopped_process_that_wakes_up_late_is_fenced() {
    // In a file each, and side by side: what takes time is their leases.
    tokio::join!(stop("before", 3), stop("before", 12), stop("after", 7));
}
