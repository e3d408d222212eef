//! Processes that write to one file at the same time.

use everturn::storage::SessionQuery;

use super::{Owner, Place, committed, texts};

const COMMITS: u64 = 60;

#[tokio::test]
async fn processes_that_write_to_one_file_all_get_what_was_acknowledged() {
    let place = Place::new();
    let count = format!("count={COMMITS}");
    let mut owners: Vec<_> =
        (0..4).map(|n| Owner::start("commits", &place.file(), &format!("writer {n}"), &[&count])).collect();
    for owner in &mut owners {
        let said = owner.rest();
        // Neither "database is locked" nor anything else went wrong.
        let wrong: Vec<_> = said
            .iter()
            .filter(|line| !line.starts_with("committed") && !line.starts_with("opened"))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(committed(&said).map(|seq| seq.0), Some(COMMITS + 1));
        assert!(owner.child.wait().unwrap().success());
    }
    let opener = place.opener().await;
    let rows = opener.store.sessions(SessionQuery::default()).await.unwrap();
    assert_eq!(rows.len(), owners.len());
    for row in rows {
        let expected: Vec<_> = (2..=COMMITS + 1).map(|seq| format!("seq {seq}")).collect();
        assert_eq!(texts(&opener, row.id).await, expected);
    }
    assert_eq!(opener.store.check().await.unwrap(), []);
}
