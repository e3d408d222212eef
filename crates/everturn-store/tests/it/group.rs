//! Group commit: what waits goes into one transaction, and nobody pays for a neighbour.

use everturn_core::{
    error::{ErrorKind, Result},
    storage::{Batch, Committed, Durability, NewSession, Stats, Store},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene},
};
use futures_util::future::{FutureExt, join, join_all};

use crate::files::{Blocker, Temporary};

async fn scenes(store: &Store, count: u16) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for n in 1..=count {
        scenes.push(Scene::create(store, n, NewSession::default()).await);
    }
    scenes
}

/// Commits all batches at once, and gives the answers and what was counted.
///
/// The file is held until all of them wait: the first to arrive may go alone, all others go together.
async fn commit_together(
    file: &Temporary,
    store: &Store,
    batches: Vec<Batch>,
) -> (Vec<Result<Committed>>, Stats) {
    let before = store.stats().await.unwrap();
    let blocker = Blocker::new(&file.path());
    let commits = join_all(batches.into_iter().map(|batch| store.commit(batch)));
    let (answers, ()) = join(commits, async { drop(blocker) }).await;
    let after = store.stats().await.unwrap();
    let counted = Stats {
        commits: after.commits - before.commits,
        groups: after.groups - before.groups,
        syncs: after.syncs - before.syncs,
    };
    (answers, counted)
}

fn say(scene: &mut Scene, text: &str, durability: Durability) -> Batch {
    let entry = scene.entry(text).into_write();
    let mut batch = scene.batch(vec![entry]);
    batch.durability = durability;
    batch
}

#[test]
fn many_sessions_share_a_transaction_and_a_sync() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scenes = scenes(&store, 64).await;
        let batches = scenes.iter_mut().map(|scene| say(scene, "hello", Durability::Durable));
        let (answers, counted) = commit_together(&file, &store, batches.collect()).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Committed::Stored))));
        assert_eq!(counted.commits, 64);
        assert!(counted.groups <= 2, "{counted:?}");
        assert_eq!(counted.syncs, counted.groups);
        for scene in &scenes {
            assert_eq!(scene.texts().await, ["hello"]);
        }
    });
}

#[test]
fn a_failing_batch_leaves_its_neighbours_intact() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scenes = scenes(&store, 9).await;
        let mut batches: Vec<Batch> =
            scenes.iter_mut().map(|scene| say(scene, "hello", Durability::Durable)).collect();
        let once = &batches[5].writes;
        batches[5].writes = once.iter().chain(&once[..1]).cloned().collect();
        let (answers, counted) = commit_together(&file, &store, batches).await;
        for (n, (answer, scene)) in answers.iter().zip(&scenes).enumerate() {
            if n == 5 {
                assert_eq!(answer.as_ref().unwrap_err().kind(), &ErrorKind::Invalid);
                assert_eq!(scene.texts().await, [""; 0]);
            } else {
                assert_eq!(answer.as_ref().unwrap(), &Committed::Stored);
                assert_eq!(scene.texts().await, ["hello"]);
            }
        }
        assert_eq!(counted.commits, 8);
        assert!(counted.groups <= 2, "{counted:?}");
    });
}

#[test]
fn relaxed_batches_alone_are_not_synced_and_with_durable_ones_they_are() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scenes = scenes(&store, 8).await;
        let batches = scenes.iter_mut().map(|scene| say(scene, "partial", Durability::Relaxed));
        let (_, counted) = commit_together(&file, &store, batches.collect()).await;
        assert_eq!((counted.commits, counted.syncs), (8, 0));

        let follow = |scene: &mut Scene| scene.lease.head = scene.lease.head.next();
        scenes.iter_mut().for_each(follow);
        let durability = |n| {
            if n == 7 { Durability::Durable } else { Durability::Relaxed }
        };
        let batches = scenes.iter_mut().enumerate().map(|(n, scene)| say(scene, "whole", durability(n)));
        let (_, counted) = commit_together(&file, &store, batches.collect()).await;
        assert_eq!((counted.commits, counted.syncs), (8, 1));
    });
}

#[test]
fn batches_of_one_session_that_wait_together_keep_their_order() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let mut batches = Vec::new();
        for text in ["a", "b", "c", "d"] {
            let durability = if text == "d" { Durability::Durable } else { Durability::Relaxed };
            batches.push(say(&mut scene, text, durability));
            scene.lease.head = scene.lease.head.next();
        }
        let (answers, counted) = commit_together(&file, &store, batches).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Committed::Stored))));
        assert_eq!((counted.commits, counted.groups, counted.syncs), (4, 4, 1));
        assert_eq!(scene.texts().await, ["d", "c", "b", "a"]);
    });
}

#[test]
fn a_caller_that_goes_away_leaves_nothing_half_done() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let batch = say(&mut scene, "whole", Durability::Durable);
        let again = batch.clone();
        // Polled once, which hands the batch over, and dropped.
        assert!(store.commit(batch).now_or_never().is_none_or(|answer| answer.is_ok()));
        assert_eq!(store.commit(again).await.unwrap(), Committed::Already);
        assert_eq!(scene.texts().await, ["whole"]);
    });
}
