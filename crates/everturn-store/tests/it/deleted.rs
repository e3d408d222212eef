//! Tombstones: what is left of a deleted session in the file.

use everturn_core::{
    clock::Timestamp,
    error::{Error, ErrorKind},
    id::{Epoch, Seq},
    storage::{
        ApprovalQuery, ChangeQuery, Code, Created, EntryQuery, EpochStart, NewSession, RunnableQuery,
        SessionQuery,
    },
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, UNTIL, creation, owner, session_id},
};

use crate::files::Temporary;

fn assert_was_deleted(error: &Error) {
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("it was deleted"), "{error}");
}

#[test]
fn a_tombstone_is_no_session_and_gives_its_id_to_later_epochs_only() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::create(&store, 1, NewSession::default()).await;
        let (entry, blocked) = (scene.entry("left behind"), Scene::blocked(scene.task(), 1));
        let approval = scene.approval(&blocked);
        scene.commit(vec![entry.into_write(), blocked.into_write(), approval.into_write()]).await.unwrap();
        store.post(scene.mail("signal 3")).await.unwrap();
        Scene::create(&store, 2, NewSession::default()).await;
        // As a deletion leaves it that was cut off before it removed anything.
        let db = rusqlite::Connection::open(file.path()).unwrap();
        db.execute("UPDATE session SET deleted = 0 WHERE id = ?1", [scene.id().to_string()]).unwrap();

        assert_was_deleted(&store.entries(scene.all()).await.unwrap_err());
        assert_was_deleted(&store.claim(scene.claim(owner(), Timestamp(1))).await.unwrap_err());
        assert_was_deleted(&scene.commit(vec![]).await.unwrap_err());
        assert_eq!(store.session(scene.id()).await.unwrap(), None);
        let rows = store.sessions(SessionQuery::default()).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [session_id(2)]);
        let code = vec![Code { kind: "app.pay".into(), version: 1 }];
        let query = RunnableQuery { code, ..RunnableQuery::at(UNTIL) };
        assert_eq!(store.runnable(query).await.unwrap(), []);

        assert_eq!(store.approvals(ApprovalQuery::open()).await.unwrap(), []);
        assert_was_deleted(&store.approvals(ApprovalQuery::of(scene.id())).await.unwrap_err());

        let mut again = creation(1, NewSession::default());
        let error = store.create(again.clone()).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
        again.first.epoch = Epoch(2);
        let Created::New(lease) = store.create(again).await.unwrap() else { panic!("it is new") };
        assert_eq!(lease.epoch, Epoch(2));
        let scene = Scene::of(&store, lease);
        assert_eq!(store.entries(EntryQuery { limit: 9, ..scene.all() }).await.unwrap(), []);
        assert_eq!(store.approvals(ApprovalQuery::of(scene.id())).await.unwrap(), []);
        let query = ChangeQuery { session: scene.id(), epoch: Epoch(0), after: lease.head, limit: 9 };
        let epochs = store.changes(query).await.unwrap().epochs;
        assert_eq!(epochs, [EpochStart { epoch: Epoch(2), head: Seq(0) }]);
    });
}
