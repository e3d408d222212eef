//! What is put around a store does what it says.

use std::{cell::RefCell, time::Duration};

use everturn_core::{
    ErrorKind,
    storage::{Committed, NewSession, SearchQuery, SessionQuery, Write},
};
use everturn_testkit::{
    block_on,
    counting::Counts,
    faulty::Faults,
    late::{Fate, Losses},
    resending, slow,
    store::scene::{IntoWrite, Scene, creation, other, session_id},
};
use futures_util::future::{join, join3};

use crate::memory;

const REFUSED: ErrorKind = ErrorKind::Unavailable { retry_after: Some(Duration::ZERO) };

#[test]
fn a_refused_operation_does_not_reach_storage() {
    block_on(async {
        let (faults, counts) = (Faults::default(), Counts::default());
        let store = faults.around(counts.around(memory()));
        let mut scene = Scene::new(&store).await;
        faults.refuse("commit", 2);
        for _ in 0..2 {
            assert_eq!(scene.commit(vec![]).await.unwrap_err().kind(), &REFUSED);
        }
        assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored);
        assert_eq!(counts.all(), [("commit", 1), ("create", 1)].into());
    });
}

#[test]
fn reads_and_creations_are_refused_at_their_counts() {
    block_on(async {
        let store = Faults::when(|operation, number| {
            matches!((operation, number), ("create", 2) | ("search", 1) | ("next_due", 1))
        })
        .around(memory());
        Scene::new(&store).await;
        let error = store.create(creation(2, NewSession::default())).await.unwrap_err();
        assert_eq!(error.kind(), &REFUSED);
        assert_eq!(error.to_string(), "create, call 2: the test refuses it");
        assert_eq!(store.session(session_id(2)).await.unwrap(), None);
        let words = SearchQuery { words: "pump".into(), ..SearchQuery::default() };
        assert_eq!(store.search(words.clone()).await.unwrap_err().kind(), &REFUSED);
        assert_eq!(store.search(words).await.unwrap(), []);
        assert_eq!(store.next_due().await.unwrap_err().kind(), &REFUSED);
    });
}

#[test]
#[should_panic(expected = "refuse comit: the operations are")]
fn a_fault_of_no_operation_is_a_mistake_in_the_test() {
    Faults::default().refuse("comit", 1);
}

/// In which order three readers are done, twenty times over.
fn order(seed: u64) -> Vec<u8> {
    let store = slow::around(memory(), seed);
    let done = RefCell::new(Vec::new());
    let reader = |name| {
        let (store, done) = (&store, &done);
        async move {
            for _ in 0..20 {
                store.sessions(SessionQuery::default()).await.expect("memory lists its sessions");
                done.borrow_mut().push(name);
            }
        }
    };
    block_on(join3(reader(1), reader(2), reader(3)));
    done.into_inner()
}

#[test]
fn one_seed_is_one_order() {
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

#[test]
fn a_batch_that_arrived_is_there_already() {
    block_on(async {
        let losses = Losses::default();
        let mut scene = Scene::new(&losses.around(memory())).await;
        losses.lose(1, Fate::Arrived);
        let entry = scene.entry("once").into_write();
        let batch = scene.batch(vec![entry]);
        assert_eq!(scene.store.commit(batch.clone()).await.unwrap(), Committed::Unknown);
        assert_eq!(scene.texts().await, ["once"]);
        assert_eq!(scene.store.commit(batch).await.unwrap(), Committed::Already);
    });
}

#[test]
fn a_batch_that_was_lost_is_stored_when_it_is_sent_again() {
    block_on(async {
        let losses = Losses::default();
        let mut scene = Scene::new(&losses.around(memory())).await;
        losses.lose(1, Fate::Lost);
        let entry = scene.entry("once").into_write();
        let batch = scene.batch(vec![entry]);
        assert_eq!(scene.store.commit(batch.clone()).await.unwrap(), Committed::Unknown);
        assert_eq!(scene.texts().await, [""; 0]);
        assert_eq!(scene.store.commit(batch).await.unwrap(), Committed::Stored);
        assert_eq!(scene.texts().await, ["once"]);
    });
}

/// The first copy comes after the second was answered, after the next commit, or after a new claim: it stores nothing.
#[test]
fn a_copy_that_comes_late_stores_nothing() {
    block_on(async {
        let losses = Losses::when(|number| (number <= 3).then_some(Fate::Held));
        let store = losses.around(memory());
        let mut scene = Scene::new(&store).await;
        let entry = scene.entry("once").into_write();
        let batch = scene.batch(vec![entry]);
        for _ in 0..3 {
            assert_eq!(store.commit(batch.clone()).await.unwrap(), Committed::Unknown);
        }
        assert_eq!(losses.deliver().await.len(), 3);
        assert_eq!(scene.send(batch.clone()).await.unwrap(), Committed::Already);

        let late = Losses::when(|_| Some(Fate::Held));
        let around = late.around(store.clone());
        around.commit(batch.clone()).await.unwrap();
        assert_eq!(late.deliver().await.remove(0).unwrap(), Committed::Already);
        around.commit(batch.clone()).await.unwrap();
        scene.commit(vec![Write::Title("later".into())]).await.unwrap();
        assert_eq!(late.deliver().await.remove(0).unwrap_err().kind(), &ErrorKind::Conflict);
        around.commit(batch).await.unwrap();
        store.claim(scene.claim(other(), scene.lease.until)).await.unwrap();
        assert_eq!(late.deliver().await.remove(0).unwrap_err().kind(), &ErrorKind::Fenced);
        assert_eq!(late.deliver().await.len(), 0, "each is delivered once");
        assert_eq!(scene.texts().await, ["once"]);
    });
}

#[test]
fn a_batch_is_sent_again_until_someone_says_what_came_of_it() {
    block_on(async {
        let losses = Losses::when(|number| (number <= 3).then_some(Fate::Lost));
        let counts = Counts::default();
        let store = resending::around(counts.around(losses.around(memory())));
        let mut scene = Scene::new(&store).await;
        let batch = scene.batch(vec![]);
        let first = scene.send(batch.clone());
        assert_eq!(first.await.unwrap(), Committed::Stored);
        assert_eq!(counts.of("commit"), 4);
        assert_eq!(scene.send(batch).await.unwrap(), Committed::Already, "its sender was told before");
    });
}

#[test]
fn a_held_copy_may_be_what_answers_the_one_that_is_sent_again() {
    block_on(async {
        let losses = Losses::when(|number| (number <= 5).then_some(Fate::Held));
        let store = resending::around(losses.around(memory()));
        let mut scene = Scene::new(&store).await;
        let (committed, delivered) = join(scene.commit(vec![]), losses.deliver()).await;
        assert_eq!(committed.unwrap(), Committed::Stored);
        assert_eq!(delivered.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Committed::Stored]);
    });
}
