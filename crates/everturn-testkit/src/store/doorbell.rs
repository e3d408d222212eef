//! The doorbell: a hint that something changed, which may come for nothing but not stay away.
//!
//! Shape: what it gives is a number to ask with again, and means nothing else. Whether the first call waits is not said.

use everturn_core::storage::{NewSession, Store};
use futures_util::{FutureExt, future::join};

use super::scene::Scene;

/// Waits for the doorbell while something happens, and gives the number to ask with next.
async fn rings<T>(store: &Store, heard: u64, happens: impl Future<Output = T>) -> u64 {
    let (heard, _) = join(store.doorbell(heard), happens).await;
    caught_up(store, heard)
}

/// The number with which the next call waits, where the store does not ring all the time.
fn caught_up(store: &Store, mut heard: u64) -> u64 {
    for _ in 0..9 {
        match store.doorbell(heard).now_or_never() {
            Some(next) => heard = next,
            None => break,
        }
    }
    heard
}

/// Who waits hears of a creation, a commit, mail and a claim.
pub async fn it_rings_for_what_happens(store: &Store) {
    let mut heard = rings(store, 0, Scene::new(store)).await;
    let mut scene = Scene::create(store, 2, NewSession::default()).await;
    heard = rings(store, heard, async { scene.commit(vec![]).await.unwrap() }).await;
    heard = rings(store, heard, async { store.post(scene.mail("signal 5")).await.unwrap() }).await;
    rings(store, heard, scene.claim_again()).await;
}

/// What happened between two calls is heard in the second.
pub async fn it_rings_for_what_happened_meanwhile(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut heard = rings(store, 0, async { scene.commit(vec![]).await.unwrap() }).await;
    for _ in 0..3 {
        scene.commit(vec![]).await.unwrap();
        heard = store.doorbell(heard).await;
    }
}

/// Everyone who waits hears it.
pub async fn it_rings_for_everyone(store: &Store) {
    let mut scene = Scene::new(store).await;
    let heard = rings(store, 0, async { scene.commit(vec![]).await.unwrap() }).await;
    let both = join(store.doorbell(heard), store.doorbell(heard));
    join(both, async { scene.commit(vec![]).await.unwrap() }).await;
}

/// Who no longer wants to wait goes away, and nobody is disturbed.
pub async fn dropping_it_harms_nothing(store: &Store) {
    let mut scene = Scene::new(store).await;
    let heard = rings(store, 0, async { scene.commit(vec![]).await.unwrap() }).await;
    let stays = store.doorbell(heard);
    let happens = async {
        for _ in 0..3 {
            let _ = store.doorbell(heard).now_or_never();
        }
        scene.commit(vec![]).await.unwrap();
    };
    let (heard, ()) = join(stays, happens).await;
    let heard = caught_up(store, heard);
    rings(store, heard, async { scene.commit(vec![]).await.unwrap() }).await;
}
