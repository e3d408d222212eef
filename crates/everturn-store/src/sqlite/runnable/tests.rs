//! How SQLite looks for sessions to run.

use super::*;
use crate::sqlite::{empty, plan};

#[test]
fn what_is_due_waits_or_is_blocked_is_found_through_its_own_index() {
    let (_directory, db) = empty();
    for (sql, index) in [(WITH_MAIL, "mail_waiting"), (BLOCKED, "task_blocked"), (DUE, "session_due")] {
        let steps = plan(&db, sql);
        assert!(steps.iter().any(|step| step.contains(index)), "{sql}: {steps:?}");
        assert!(steps.iter().all(|step| !step.contains("TEMP B-TREE")), "{sql}: {steps:?}");
    }
    let steps = plan(&db, BLOCKED);
    for range in ["task_blocked (lacks=? AND needs<?)", "task_blocked (lacks=? AND needs>?)"] {
        assert!(steps.iter().any(|step| step.ends_with(range)), "{steps:?}");
    }
    assert!(steps[0].starts_with("SEARCH session USING INTEGER PRIMARY KEY"), "{steps:?}");
}
