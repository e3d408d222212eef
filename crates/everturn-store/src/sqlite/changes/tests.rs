//! How SQLite does what is asked, and where what came begins.

use everturn_core::id::{ConversationId, Seq};

use super::*;
use crate::sqlite::{empty, plan};

#[test]
fn every_place_is_entered_through_its_index_and_nothing_is_sorted() {
    let (_directory, db) = empty();
    for (sql, index) in [
        (NEWEST_ENTRY[0], "PRIMARY KEY (sid=? AND conversation=?)"),
        (NEWEST_ENTRY[1], "PRIMARY KEY (sid=? AND conversation=?)"),
        (NEXT_ENTRY[0], "PRIMARY KEY (sid=? AND conversation=? AND id>?)"),
        (NEXT_ENTRY[1], "PRIMARY KEY (sid=? AND conversation=? AND id>?)"),
        (ENTRIES[0], "PRIMARY KEY (sid=? AND conversation=? AND id>?)"),
        (ENTRIES[1], "PRIMARY KEY (sid=? AND conversation=? AND id>?)"),
        (TASKS_LIVE, "task_live (sid=?)"),
        (TASKS_ENDED, "task_ended (sid=? AND seq>?)"),
        (SUBMISSIONS_LIVE, "submission_live (sid=?)"),
        (SUBMISSIONS_SETTLED, "submission_settled (sid=? AND seq>?)"),
        (APPROVALS_OPEN, "approval_open (sid=?)"),
        (APPROVALS_OVER, "approval_over (sid=? AND seq>?)"),
        (DOCUMENTS_LIVE, "document_live (sid=?)"),
        (DOCUMENTS_KEPT, "document_kept (sid=? AND retired>?)"),
        (DOCUMENTS_RETIRED, "document_retired (sid=? AND retired>?)"),
        (REVISIONS, "revision_seq (did=? AND seq>?)"),
    ] {
        let steps = plan(&db, sql);
        let by_row = |step: &String| step == "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)";
        assert!(steps[1..].iter().all(by_row), "{sql}: {steps:?}");
        assert!(steps[0].starts_with("SEARCH ") && steps[0].ends_with(index), "{sql}: {steps:?}");
    }
}

#[test]
fn the_first_entry_behind_a_seq_is_found_wherever_it_is() {
    let (_directory, db) = empty();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF;
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 300)
        INSERT INTO entry (sid, conversation, id, seq, time, kind, crc, body)
        SELECT 1, 1, 5 + n * 3, n / 4 + 2, 0, 'et.user', 0, '{}' FROM n;
        INSERT INTO place SELECT sid, conversation, id, rid FROM entry WHERE id < 600;
        INSERT INTO place_new SELECT sid, conversation, id, rid FROM entry WHERE id >= 600;",
    )
    .expect("the entries are stored");
    for after in 0..=80 {
        let from = first_behind(&db, 1, ConversationId(1), Seq(after)).expect("entries can be read");
        let sql = "SELECT min(id) FROM entry WHERE seq > ?1";
        let first: Option<u64> = db.query_row(sql, [after], |row| row.get(0)).expect("it can be counted");
        let sql = "SELECT min(id) FROM entry WHERE id >= ?1";
        let found = from.map(|from| db.query_row(sql, [from], |row| row.get(0)).expect("there is one"));
        assert_eq!(found, first, "after {after}");
    }
    assert_eq!(first_behind(&db, 1, ConversationId(2), Seq(0)).expect("none is no error"), None);
}
