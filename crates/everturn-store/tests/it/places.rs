//! Places: entries are found in the order of their ids, whether their places are among the newest or were moved.

use everturn_core::{
    entry::EntryRecord,
    id::EntryId,
    storage::{ChangeQuery, EntryQuery, Order, Write},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene},
};

use crate::files::Temporary;

/// Enough that most places are moved, and some are not.
const ENTRIES: usize = 2_500;
const EACH: usize = 100;

fn count(file: &Temporary, table: &str) -> i64 {
    let db = rusqlite::Connection::open(file.path()).unwrap();
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

async fn filled(scene: &mut Scene) -> Vec<EntryRecord> {
    let mut all = Vec::new();
    for from in (0..ENTRIES).step_by(EACH) {
        let entries: Vec<_> = (from..from + EACH).map(|number| scene.entry(&number.to_string())).collect();
        scene.commit(entries.iter().cloned().map(IntoWrite::into_write).collect()).await.unwrap();
        all.extend(entries);
    }
    all
}

fn ids(entries: &[EntryRecord]) -> Vec<EntryId> {
    entries.iter().map(|entry| entry.id).collect()
}

#[test]
fn entries_are_read_in_their_order_across_the_moved_and_the_newest() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let all = filled(&mut scene).await;
        assert_eq!(count(&file, "place") + count(&file, "place_new"), all.len() as i64);
        assert!(count(&file, "place") > 0 && count(&file, "place_new") > 0);

        let forward = EntryQuery { order: Order::OldestFirst, ..scene.all() };
        assert_eq!(ids(&store.entries(forward).await.unwrap()), ids(&all));
        let page = EntryQuery { order: Order::NewestFirst, limit: 600, ..scene.all() };
        let mut newest = ids(&all[ENTRIES - 600..]);
        newest.reverse();
        assert_eq!(ids(&store.entries(page).await.unwrap()), newest);

        for from in [0, 1_000, ENTRIES - 150] {
            let (after, epoch) = (all[from].seq, scene.batch(Vec::new()).epoch);
            let query = ChangeQuery { session: scene.id(), epoch, after, limit: 100 };
            let changes = store.changes(query).await.unwrap();
            let told: Vec<_> = changes.commits.iter().flat_map(|change| ids(&change.entries)).collect();
            let behind: Vec<_> = all.iter().filter(|entry| entry.seq > after).cloned().collect();
            assert_eq!(told, ids(&behind));
        }
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn moved_and_newest_entries_are_refused_twice_purged_and_deleted_alike() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let all = filled(&mut scene).await;
        for entry in [&all[3], &all[ENTRIES - 3]] {
            let again = scene.commit(vec![entry.clone().into_write()]).await;
            assert!(again.unwrap_err().to_string().contains("is there already"));
            let mut purged = entry.clone();
            purged.entry = purged.entry.purged("hash");
            scene.commit(vec![Write::Purge(purged)]).await.unwrap();
        }
        let last = scene.batch(Vec::new());
        store.delete(scene.id(), last.owner, last.epoch).await.unwrap();
        for table in ["entry", "place", "place_new"] {
            assert_eq!(count(&file, table), 0, "{table}");
        }
    });
}

#[test]
fn a_row_that_its_place_does_not_know_is_found() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let hello = scene.entry("hello").into_write();
        scene.commit(vec![hello]).await.unwrap();
        let db = rusqlite::Connection::open(file.path()).unwrap();
        db.execute("DELETE FROM place_new", []).unwrap();
        let findings = store.check().await.unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].record, "table entry, row 1");
    });
}
