//! How SQLite looks for approvals.

use super::*;
use crate::sqlite::{empty, plan};

#[test]
fn open_approvals_are_found_without_the_rest() {
    let (_directory, db) = empty();
    for (sql, index) in [
        (OPEN_IN, "SEARCH approval USING INDEX approval_open (sid=? AND id>?)"),
        (ALL_IN, "SEARCH approval USING PRIMARY KEY (sid=? AND id>?)"),
        (OPEN, "SCAN a USING INDEX approval_open"),
    ] {
        let steps = plan(&db, sql);
        assert_eq!(steps[0], index, "{sql}: {steps:?}");
        let by_row = |step: &String| {
            step == "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)" || step == "USE TEMP B-TREE FOR ORDER BY"
        };
        assert!(steps[1..].iter().all(by_row), "{sql}: {steps:?}");
    }
}
