//! Leases: one writer at a time, and the newer one wins.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::{Epoch, Seq},
    storage::{Committed, Created, Lease, NewSession, Store},
};

use super::scene::{IntoWrite, Scene, UNTIL, creation, other, owner, session_id};

const BEFORE: Timestamp = Timestamp(UNTIL.0 - 1);

/// Who creates a session owns it.
pub async fn a_creation_gives_the_first_lease(store: &Store) {
    let created = store.create(creation(1, NewSession::default())).await.unwrap();
    let lease = Lease {
        session: session_id(1),
        owner: owner(),
        epoch: Epoch(1),
        until: UNTIL,
        head: Seq(1),
        minted: 1,
    };
    assert_eq!(created, Created::New(lease));
    let row = store.session(session_id(1)).await.unwrap().unwrap();
    assert_eq!(row.owner, Some((owner(), UNTIL)));
}

/// A second opener is told who owns the session and until when.
pub async fn a_live_lease_is_respected(store: &Store) {
    let mut scene = Scene::new(store).await;
    let error = store.claim(scene.claim(other(), BEFORE)).await.unwrap_err();
    let owned = ErrorKind::Owned { by: owner(), until: UNTIL };
    assert_eq!(error.kind(), &owned, "{error}");
    scene.commit(vec![]).await.expect("the owner is not disturbed");
}

/// When its time has come, a lease protects nobody.
pub async fn an_expired_lease_can_be_claimed(store: &Store) {
    let scene = Scene::new(store).await;
    let lease = store.claim(scene.claim(other(), UNTIL)).await.unwrap();
    assert_eq!((lease.owner, lease.epoch), (other(), Epoch(2)));
    let row = store.session(scene.id()).await.unwrap().unwrap();
    assert_eq!((row.owner, row.epoch), (Some((other(), lease.until)), Epoch(2)));
}

/// Epochs only grow, also when the same owner claims again.
pub async fn each_claim_raises_the_epoch(store: &Store) {
    let scene = Scene::new(store).await;
    for epoch in 2..5 {
        let now = Timestamp(UNTIL.0 * epoch);
        let lease = store.claim(scene.claim(owner(), now)).await.unwrap();
        assert_eq!(i64::try_from(lease.epoch.0).unwrap(), epoch);
    }
}

/// An owner that lost its lease can write nothing, however late it wakes up.
pub async fn a_fenced_owner_can_neither_commit_nor_renew(store: &Store) {
    let mut scene = Scene::new(store).await;
    store.claim(scene.claim(other(), UNTIL)).await.unwrap();
    let entry = scene.entry("too late").into_write();
    let error = scene.commit(vec![entry]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
    let claim = scene.claim(owner(), UNTIL);
    let error = store.renew(claim, Epoch(1)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
    let error = store.renew(claim, Epoch(2)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Fenced, "the epoch is another owner's: {error}");
    assert_eq!(scene.texts().await, [""; 0]);
}

/// A batch is only said to be stored already in the epoch that stored it.
pub async fn a_fenced_owner_does_not_learn_that_its_batch_was_stored(store: &Store) {
    let mut scene = Scene::new(store).await;
    let batch = scene.batch(vec![]);
    scene.send(batch.clone()).await.unwrap();
    store.claim(scene.claim(other(), UNTIL)).await.unwrap();
    let error = store.commit(batch).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
}

/// A laptop that slept goes on, if nobody took its session meanwhile.
pub async fn an_expired_lease_can_be_renewed_while_nobody_claimed(store: &Store) {
    let mut scene = Scene::new(store).await;
    let much_later = Timestamp(UNTIL.0 * 10);
    let lease = store.renew(scene.claim(owner(), much_later), Epoch(1)).await.unwrap();
    assert_eq!((lease.epoch, lease.until), (Epoch(1), Timestamp(UNTIL.0 * 11)));
    assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored);
    let error = store.claim(scene.claim(other(), much_later)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Owned { .. }), "{error}");
}

/// Giving a lease up lets the next one in, and shuts the giver out.
pub async fn a_released_session_can_be_claimed_at_once(store: &Store) {
    let mut scene = Scene::new(store).await;
    store.release(scene.id(), owner(), Epoch(1)).await.unwrap();
    assert_eq!(store.session(scene.id()).await.unwrap().unwrap().owner, None);
    let error = scene.commit(vec![]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
    let lease = store.claim(scene.claim(other(), Timestamp(1))).await.unwrap();
    assert_eq!(lease.epoch, Epoch(2));
}

/// A late release does not take the session from its new owner.
pub async fn releasing_what_is_no_longer_held_changes_nothing(store: &Store) {
    let scene = Scene::new(store).await;
    store.claim(scene.claim(other(), UNTIL)).await.unwrap();
    let before = store.session(scene.id()).await.unwrap();
    store.release(scene.id(), owner(), Epoch(1)).await.unwrap();
    store.release(scene.id(), owner(), Epoch(2)).await.unwrap();
    assert_eq!(store.session(scene.id()).await.unwrap(), before);
}

/// Who takes a session over learns where it stands.
pub async fn a_claim_gives_the_head_and_the_mint_mark(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("hello").into_write();
    scene.commit(vec![entry]).await.unwrap();
    let mut lease = store.claim(scene.claim(other(), UNTIL)).await.unwrap();
    assert_eq!((lease.head, lease.minted), (Seq(2), 2));
    std::mem::swap(&mut scene.lease, &mut lease);
    assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored);
}

/// There is nothing to own where there is no session.
pub async fn claiming_an_unknown_session_is_not_found(store: &Store) {
    let mut claim = Scene::new(store).await.claim(owner(), UNTIL);
    claim.session = session_id(9);
    for error in [
        store.claim(claim).await.unwrap_err(),
        store.renew(claim, Epoch(1)).await.unwrap_err(),
        store.release(claim.session, owner(), Epoch(1)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    }
}
