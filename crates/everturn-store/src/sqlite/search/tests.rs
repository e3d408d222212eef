//! What the index makes of entries that changed between being read and being added.

use super::*;
use crate::sqlite::empty;

fn put_entry(db: &Connection, sid: i64) {
    let body = Entry::new("et.user").message(everturn_core::message::Message::user("halibut")).to_body();
    let body = body.expect("it is JSON");
    let sql = "INSERT OR REPLACE INTO entry (rid, sid, conversation, id, seq, time, kind, crc, body)
        VALUES (1, ?1, 1, 2, 1, 0, 'et.user', ?2, ?3)";
    db.execute(sql, params![sid, body::crc(&body), body]).expect("the entry is stored");
}

// An entry of a session that was deleted meanwhile was added for another, which had got its key and said the same.
// Guards: what is added is the entry that was read, of the session that it was read of.
#[test]
fn an_entry_whose_key_went_to_another_session_is_read_again() {
    let (_directory, db) = empty();
    db.execute_batch("PRAGMA foreign_keys = OFF").expect("it is SQL");
    put_entry(&db, 1);
    let read = unindexed(&db, 1).expect("it can be read").expect("there is an entry");
    put_entry(&db, 2);
    index(&db, &read).expect("it can be looked at");
    assert_eq!(mark(&db).expect("there is a mark"), 0, "nothing was added");

    let again = unindexed(&db, 1).expect("it can be read").expect("there is an entry");
    index(&db, &again).expect("it can be added");
    let sql = "SELECT count(*) FROM search WHERE search MATCH ?1";
    let found = |sid| -> i64 {
        let asked = expression(Some(sid), &["halibut".to_owned()]);
        db.query_row(sql, [asked], |row| row.get(0)).expect("it can be asked")
    };
    assert_eq!((found(1), found(2)), (0, 1));
}
