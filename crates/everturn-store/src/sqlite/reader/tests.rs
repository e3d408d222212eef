//! Readers that meet what they were not written for.

use everturn_testkit::block_on;

use super::*;
use crate::{Options, sqlite::empty};

// One panic while reading ended a thread and closed the queue of all, and nobody could read any more.
// Guards: what panics fails by itself, as often as it may, and others are read for.
#[test]
fn a_panic_fails_what_panicked_and_nothing_else() {
    let (directory, _db) = empty();
    let options = Options::new(everturn_testkit::store::scene::owner());
    let place = Place::new(&directory.path().join("work.db"), &options).expect("the file is there");
    let readers = Readers::start(&Arc::new(place));
    let panics = |_: &Connection| -> Outcome<i64> { panic!("a row that nobody thought of") };
    for _ in 0..2 * READERS {
        let error = block_on(readers.read("read a row".to_owned(), panics)).expect_err("it panicked");
        assert!(error.to_string().starts_with("read a row: reading it panicked"), "{error}");
    }
    let counts = |db: &Connection| Ok(db.query_row("SELECT count(*) FROM session", [], |row| row.get(0))?);
    let sessions: i64 = block_on(readers.read("count".to_owned(), counts)).expect("it is read");
    assert_eq!(sessions, 0);
}
