//! What is left behind at the end.

use std::sync::atomic::AtomicU32;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::*;
use crate::sqlite::empty;

// The schema's version was read and written again in two transactions, between which another process could migrate.
// Guards: nobody writes while a store that closes has read the version and not yet written it.
#[test]
fn nobody_writes_between_the_reading_and_the_writing_of_the_version() {
    let (directory, mut db) = empty();
    let other = Connection::open(directory.path().join("work.db")).expect("the file opens");
    other.busy_timeout(Duration::ZERO).expect("it need not wait");
    let (looks, entered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (looked, got_in) = (Arc::clone(&looks), Arc::clone(&entered));
    // SQLite asks whenever a statement is prepared: a good moment to be another process.
    let meanwhile = move |context: AuthContext<'_>| {
        if let AuthAction::Pragma { pragma_name: "user_version", .. } = context.action {
            looked.fetch_add(1, Ordering::Relaxed);
            if other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
                got_in.fetch_add(1, Ordering::Relaxed);
            }
        }
        Authorization::Allow
    };
    db.authorizer(Some(meanwhile)).expect("it can be watched");
    rest(&db, false);
    assert_eq!((looks.load(Ordering::Relaxed), entered.load(Ordering::Relaxed)), (2, 0));
    db.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).expect("it need not be watched");
    assert_eq!(schema::version(&db).expect("it has one"), schema::KNOWN);
}
