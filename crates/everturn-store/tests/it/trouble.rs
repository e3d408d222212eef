//! A file that is busy, and a disk that is full: nothing is lost, and the same change may be tried again.

use std::{fs, path::Path, time::Duration};

use everturn_core::{error::ErrorKind, storage::Committed};
use everturn_store::{Options, open};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, owner},
};

use crate::files::{Blocker, Temporary};

#[test]
fn a_file_that_stays_busy_is_unavailable_and_nothing_is_stored() {
    let file = Temporary::new();
    block_on(async {
        let hasty = Options { patience: Duration::ZERO, ..Options::new(owner()) };
        let store = open(&file.url(), hasty).await.unwrap();
        let mut scene = Scene::new(&store).await;
        let entry = scene.entry("hello").into_write();
        let batch = scene.batch(vec![entry]);

        let blocker = Blocker::new(&file.path());
        let error = scene.send(batch.clone()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            assert!(!error.to_string().contains("locked"), "{error}");
            cause = error.source();
        }
        assert_eq!(scene.texts().await, [""; 0], "readers are not disturbed");
        drop(blocker);

        assert_eq!(scene.send(batch).await.unwrap(), Committed::Stored);
    });
}

#[test]
fn a_full_store_is_unavailable_and_goes_on_when_there_is_room() {
    let file = Temporary::new();
    block_on(async {
        let limited = Options { bytes_max: Some(1024 * 1024), ..Options::new(owner()) };
        let store = open(&file.url(), limited).await.unwrap();
        let mut scene = Scene::new(&store).await;
        let (mut stored, text) = (0, "a".repeat(100_000));
        let (refused, error) = loop {
            let entry = scene.entry(&text).into_write();
            let batch = scene.batch(vec![entry]);
            match scene.send(batch.clone()).await {
                Ok(_) => stored += 1,
                Err(error) => break (batch, error),
            }
        };
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("no room"), "{error}");
        assert!(stored > 5, "{stored}");
        assert_eq!(scene.texts().await.len(), stored, "earlier data is intact");
        assert_eq!(scene.commit(vec![]).await.unwrap(), Committed::Stored, "what needs no room is stored");

        let (id, mut refused) = (scene.id(), refused);
        drop((scene, store));
        let store = file.open().await;
        refused.seq = store.session(id).await.unwrap().unwrap().head.next();
        assert_eq!(store.commit(refused).await.unwrap(), Committed::Stored);
    });
}

// A file that was deleted under an open store took commits as before, and took them along when the store closed.
// Guards: what is confirmed is in the file that bears the store's name.
#[cfg(unix)]
#[test]
fn a_file_that_is_removed_or_replaced_while_it_is_open_takes_no_commit() {
    let replace = |path: &Path| {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        fs::rename(copy, path).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    for (name, act) in [("removed", &remove as &dyn Fn(&Path)), ("replaced", &replace)] {
        let file = Temporary::new();
        block_on(async {
            let store = file.open().await;
            let mut scene = Scene::new(&store).await;
            scene.commit(vec![]).await.unwrap();
            act(&file.path());
            let entry = scene.entry("lost").into_write();
            let error = scene.commit(vec![entry]).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{name}: {error}");
            assert!(error.to_string().contains("removed or replaced while it was open"), "{name}: {error}");
        });
    }
}
