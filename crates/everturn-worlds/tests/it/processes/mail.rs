//! Mail between processes: posted here, taken there, whoever is killed meanwhile.

use std::time::Duration;

use everturn::{
    id::SessionId,
    json::RawJson,
    kernel::Opener,
    storage::{Mail, MailFilter, MailKind, Posted, Receipt},
};

use super::{Owner, Place, texts};

fn mail(opener: &Opener, session: SessionId, n: u64) -> Mail {
    Mail {
        session,
        key: format!("signal {n}"),
        kind: MailKind::Signal,
        conversation: None,
        request: None,
        actor: "local".into(),
        time: opener.world.clock.now(),
        body: RawJson::empty(),
    }
}

/// Waits for the receipt of a mail.
async fn receipt(opener: &Opener, mail: &Mail) -> Receipt {
    let mut heard = 0;
    loop {
        let only = MailFilter::Key(mail.key.clone());
        let found = opener.store.mail(mail.session, only).await.unwrap().pop();
        if let Some(receipt) = found.expect("mail stays until its receipt is trimmed").receipt {
            return receipt;
        }
        tokio::select! {
            rung = opener.store.doorbell(heard) => heard = rung,
            // The bell is a hint: who must not miss anything looks as well.
            () = opener.world.clock.sleep(Duration::from_secs(1)) => {}
        }
    }
}

#[tokio::test]
async fn mail_to_another_process_is_taken_once_whoever_is_killed() {
    let place = Place::new();
    let mut first = Owner::start("takes", &place.file(), "asked", &["hold=1"]);
    let session = first.session();
    let opener = place.opener().await;
    let posts: Vec<_> = (1..=12).map(|n| mail(&opener, session, n)).collect();
    for one in &posts[..6] {
        assert_eq!(opener.store.post(one.clone()).await.unwrap(), Posted::New);
    }
    assert_eq!(first.says("mail"), "signal 1");
    // Between posting and taking: the next one finds it where it was.
    first.kill();
    assert_eq!(opener.store.post(posts[0].clone()).await.unwrap(), Posted::Waiting);

    let mut second = Owner::start("takes", &place.file(), "asked", &[]);
    assert_eq!(second.says("took"), "signal 1");
    // Somewhere among the others.
    second.kill();

    let mut third = Owner::start("takes", &place.file(), "asked", &[]);
    third.session();
    for one in &posts[6..] {
        assert_eq!(opener.store.post(one.clone()).await.unwrap(), Posted::New);
    }
    let mut expected = Vec::new();
    for one in &posts {
        let receipt = receipt(&opener, one).await;
        assert!(matches!(receipt, Receipt::Accepted { id: Some(_) }), "{receipt:?}");
        let again = opener.store.post(one.clone()).await.unwrap();
        assert_eq!(again, Posted::Ended(receipt), "asking again asks for nothing");
        expected.push(format!("got {}", one.key));
    }
    third.kill();
    assert_eq!(texts(&opener, session).await, expected, "each once, in the order of posting");
}
