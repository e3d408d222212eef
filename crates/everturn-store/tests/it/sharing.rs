//! Several stores on one file: who may commit, and who sees what.

use everturn_core::{
    clock::Timestamp,
    error::ErrorKind,
    id::Epoch,
    storage::{Committed, Stats},
};
use everturn_store::{Options, open};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, UNTIL, other, owner},
};
use futures_util::future::join;

use crate::files::Temporary;

const NOW: Timestamp = Timestamp(1);

#[test]
fn a_living_owner_s_session_is_owned() {
    let file = Temporary::new();
    block_on(async {
        let (ours, theirs) = (file.open().await, file.open_as(other()).await);
        let scene = Scene::new(&ours).await;
        let error = theirs.claim(scene.claim(other(), NOW)).await.unwrap_err();
        let owned = ErrorKind::Owned { by: owner(), until: UNTIL };
        assert_eq!(error.kind(), &owned, "{error}");
    });
}

#[test]
fn a_closed_store_s_session_is_claimable_at_once() {
    let file = Temporary::new();
    block_on(async {
        let (ours, theirs) = (file.open().await, file.open_as(other()).await);
        let scene = Scene::new(&ours).await;
        let claim = scene.claim(other(), NOW);
        drop((scene, ours));
        assert_eq!(theirs.claim(claim).await.unwrap().epoch, Epoch(2));
    });
}

#[test]
fn an_owner_that_lost_its_lease_is_fenced_across_stores() {
    let file = Temporary::new();
    block_on(async {
        let (ours, theirs) = (file.open().await, file.open_as(other()).await);
        let mut late = Scene::new(&ours).await;
        let lease = theirs.claim(late.claim(other(), UNTIL)).await.unwrap();
        let error = late.commit(vec![]).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Fenced, "{error}");
        let mut new = late;
        (new.store, new.lease) = (theirs, lease);
        assert_eq!(new.commit(vec![]).await.unwrap(), Committed::Stored);
    });
}

#[test]
fn what_one_store_commits_the_other_sees() {
    let file = Temporary::new();
    block_on(async {
        let (ours, theirs) = (file.open().await, file.open_as(other()).await);
        let mut scene = Scene::new(&ours).await;
        let entry = scene.entry("hello");
        scene.commit(vec![entry.clone().into_write()]).await.unwrap();
        assert_eq!(theirs.entries(scene.all()).await.unwrap(), [entry]);
        assert_eq!(theirs.stats().await.unwrap(), Stats::default(), "it stored nothing itself");
    });
}

#[test]
fn what_one_store_commits_rings_at_the_other() {
    let file = Temporary::new();
    block_on(async {
        let (ours, theirs) = (file.open().await, file.open_as(other()).await);
        let mut scene = Scene::new(&ours).await;
        for _ in 0..3 {
            let before = theirs.session(scene.id()).await.unwrap().unwrap().head;
            let heard = async {
                let mut heard = 0;
                while theirs.session(scene.id()).await.unwrap().unwrap().head == before {
                    heard = theirs.doorbell(heard).await;
                }
            };
            let batch = scene.batch(vec![]);
            // The other store waits first, and would wait for ever.
            let ((), committed) = join(heard, ours.commit(batch.clone())).await;
            assert_eq!(committed.unwrap(), Committed::Stored);
            scene.lease.head = batch.seq;
        }
    });
}

#[test]
fn a_store_rings_for_what_it_stores_itself_before_it_answers() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let heard = store.doorbell(0).await;
        let refused = scene.batch(vec![]);
        scene.commit(vec![]).await.unwrap();
        let rung = store.doorbell(heard).await;
        assert!(rung > heard);
        store.release(scene.id(), owner(), Epoch(1)).await.unwrap();
        let rung_again = store.doorbell(rung).await;
        assert!(rung_again > rung);
        store.commit(refused).await.unwrap_err();
        store.claim(scene.claim(other(), NOW)).await.unwrap();
        assert!(store.doorbell(rung_again).await > rung_again);
    });
}

#[test]
fn an_owner_id_stands_for_one_open_store() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let error = open(&file.url(), Options::new(owner())).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
        Scene::new(&store).await;
        drop(store);
        file.open().await;
    });
}
