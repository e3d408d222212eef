//! Mail: left by anyone, taken once by the owner.

use everturn_core::{
    error::ErrorKind,
    id::{ConversationId, Epoch, Seq},
    storage::{Mail, MailFilter, MailKind, MailRow, NewSession, Posted, Receipt, Store, Taken, Write},
};

use super::scene::{IntoWrite, Scene, other, owner, session_id};

const ACCEPTED: Receipt = Receipt::Accepted { id: Some(7) };

fn take(key: &str) -> Write {
    Write::Taken(Taken { key: key.into(), receipt: ACCEPTED })
}

fn waiting(mail: Mail) -> MailRow {
    MailRow { mail, receipt: None }
}

fn submit(scene: &Scene, conversation: ConversationId, request: &str) -> Mail {
    Mail {
        kind: MailKind::Submit,
        conversation: Some(conversation),
        request: Some(request.into()),
        ..scene.mail(&Mail::submit_key(conversation, request))
    }
}

/// What was posted lies there, every field and byte of it, until it is taken.
pub async fn mail_waits_as_it_was_posted(store: &Store) {
    let scene = Scene::new(store).await;
    let mail = submit(&scene, ConversationId::ROOT, "r-1");
    assert_eq!(store.post(mail.clone()).await.unwrap(), Posted::New);
    let by_key = MailFilter::Key(mail.key.clone());
    for filter in [MailFilter::Waiting, by_key] {
        assert_eq!(store.mail(scene.id(), filter).await.unwrap(), [waiting(mail.clone())]);
    }
    assert_eq!(store.mail(scene.id(), MailFilter::Key("another".into())).await.unwrap(), []);
}

/// Posting again under a key leaves what was posted first.
pub async fn mail_is_posted_once(store: &Store) {
    let scene = Scene::new(store).await;
    let mail = scene.mail("signal 5");
    assert_eq!(store.post(mail.clone()).await.unwrap(), Posted::New);
    let again = Mail { kind: MailKind::Abort, ..mail.clone() };
    assert_eq!(store.post(again).await.unwrap(), Posted::Waiting);
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), [waiting(mail)]);
}

/// Mail is taken in the order in which it was posted, whatever its keys are.
pub async fn mail_comes_in_the_order_in_which_it_was_posted(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mails = ["c", "a", "d", "b"].map(|key| scene.mail(key));
    for mail in &mails {
        store.post(mail.clone()).await.unwrap();
    }
    scene.commit(vec![take("a")]).await.unwrap();
    let [c, _, d, b] = mails.map(waiting);
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), [c, d, b]);
}

/// Taking and acting are one commit, and the receipt stays under the key.
pub async fn mail_is_taken_with_its_receipt(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mail = scene.mail("signal 5");
    store.post(mail.clone()).await.unwrap();
    let entry = scene.entry("acted").into_write();
    scene.commit(vec![entry, take("signal 5")]).await.unwrap();
    assert_eq!(scene.texts().await, ["acted"]);
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), []);
    let taken = MailRow { mail: mail.clone(), receipt: Some(ACCEPTED) };
    assert_eq!(store.mail(scene.id(), MailFilter::Key("signal 5".into())).await.unwrap(), [taken]);
    assert_eq!(store.post(mail).await.unwrap(), Posted::Ended(ACCEPTED));
}

/// A refusal is a receipt too, kind and message included.
pub async fn refused_mail_says_why(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mail = scene.mail("abort 5");
    store.post(mail.clone()).await.unwrap();
    let receipt =
        Receipt::Refused { kind: "not_found".into(), message: "abort task 5: there is none".into() };
    scene
        .commit(vec![Write::Taken(Taken { key: mail.key.clone(), receipt: receipt.clone() })])
        .await
        .unwrap();
    assert_eq!(store.post(mail).await.unwrap(), Posted::Ended(receipt));
}

/// Who acts on mail that is not waiting acts on nothing, and is told to look again.
pub async fn mail_is_taken_once(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mail = scene.mail("signal 5");
    store.post(mail.clone()).await.unwrap();
    scene.commit(vec![take("signal 5")]).await.unwrap();
    let before = store.session(scene.id()).await.unwrap();
    let receipt = Receipt::Accepted { id: None };
    let other_receipt = Write::Taken(Taken { key: "signal 5".into(), receipt });
    for again in [other_receipt, take("never posted")] {
        let entry = scene.entry("acted twice").into_write();
        let error = scene.commit(vec![entry, again]).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
    }
    assert_eq!(scene.texts().await, [""; 0]);
    assert_eq!(store.session(scene.id()).await.unwrap(), before);
    assert_eq!(store.post(mail).await.unwrap(), Posted::Ended(ACCEPTED), "the receipt is the first one");
}

/// One batch takes mail once as well.
pub async fn a_batch_does_not_take_mail_twice(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mail = scene.mail("signal 5");
    store.post(mail.clone()).await.unwrap();
    let error = scene.commit(vec![take("signal 5"), take("signal 5")]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), [waiting(mail)]);
}

/// A request id that came by the owner's own road is not posted: the answer names what it started, settled or not.
pub async fn a_submission_that_is_there_is_not_posted(store: &Store) {
    let mut scene = Scene::new(store).await;
    let submission = scene.submission(Some("r-1"));
    scene.commit(vec![submission.clone().into_write()]).await.unwrap();
    let mail = submit(&scene, ConversationId::ROOT, "r-1");
    let found = Posted::Ended(Receipt::Accepted { id: Some(submission.id.0) });
    assert_eq!(store.post(mail.clone()).await.unwrap(), found);
    scene.commit(vec![Scene::settled(submission).into_write()]).await.unwrap();
    assert_eq!(store.post(mail).await.unwrap(), found);
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), []);
    let elsewhere = submit(&scene, ConversationId(9), "r-1");
    assert_eq!(
        store.post(elsewhere).await.unwrap(),
        Posted::New,
        "another conversation's request id is another"
    );
}

// Mail of any kind that had a known request id was answered as if it submitted that once more, and was lost.
// Guards: only what submits is known by its request id.
/// A request id that is known makes no submission of mail that asks for something else.
pub async fn what_asks_about_a_submission_is_posted(store: &Store) {
    let mut scene = Scene::new(store).await;
    let submission = scene.submission(Some("r-1"));
    scene.commit(vec![submission.into_write()]).await.unwrap();
    let withdraw =
        Mail { kind: MailKind::Withdraw, key: "w".into(), ..submit(&scene, ConversationId::ROOT, "r-1") };
    assert_eq!(store.post(withdraw.clone()).await.unwrap(), Posted::New);
    assert_eq!(store.mail(scene.id(), MailFilter::Waiting).await.unwrap(), [waiting(withdraw)]);
}

/// Mail is left whoever owns the session, and moves neither its head nor its lease.
pub async fn posting_needs_no_lease(store: &Store) {
    let mut scene = Scene::new(store).await;
    let before = store.session(scene.id()).await.unwrap();
    store.post(scene.mail("while it is owned")).await.unwrap();
    assert_eq!(store.session(scene.id()).await.unwrap(), before);
    store.release(scene.id(), owner(), Epoch(1)).await.unwrap();
    store.post(scene.mail("while nobody owns it")).await.unwrap();
    scene.lease = store.claim(scene.claim(other(), scene.lease.until)).await.unwrap();
    assert_eq!((scene.lease.epoch, scene.lease.head), (Epoch(2), Seq(1)));
    let writes = vec![take("while it is owned"), take("while nobody owns it")];
    scene.commit(writes).await.expect("the next owner takes both");
}

/// The same key in two sessions is two mails.
pub async fn keys_belong_to_their_session(store: &Store) {
    let one = Scene::new(store).await;
    let mut two = Scene::create(store, 2, NewSession::default()).await;
    for scene in [&one, &two] {
        assert_eq!(store.post(scene.mail("signal 5")).await.unwrap(), Posted::New);
    }
    two.commit(vec![take("signal 5")]).await.unwrap();
    assert_eq!(store.mail(one.id(), MailFilter::Waiting).await.unwrap(), [waiting(one.mail("signal 5"))]);
}

/// There is nobody to leave anything for where there is no session.
pub async fn mail_for_an_unknown_session_is_not_found(store: &Store) {
    let nowhere = session_id(9);
    let mail = Mail { session: nowhere, ..Scene::new(store).await.mail("signal 5") };
    for error in
        [store.post(mail).await.unwrap_err(), store.mail(nowhere, MailFilter::Waiting).await.unwrap_err()]
    {
        assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(&nowhere.to_string()), "{error}");
    }
}
