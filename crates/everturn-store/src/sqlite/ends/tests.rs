//! How SQLite trims.

use super::*;
use crate::sqlite::empty;

#[test]
fn a_trim_enters_every_table_through_an_index() {
    let (_directory, db) = empty();
    for sql in TRIM.into_iter().chain([BASES, OLDER]) {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("it is SQL");
        let steps = explain.raw_query().mapped(|row| row.get::<_, String>(3));
        let steps: Vec<_> = steps.map(|step| step.expect("it is text")).collect();
        let is_search = |step: &String| {
            step.starts_with("SEARCH ") || step.contains("SUBQUERY") || step.contains("USING INDEX FOR IN")
        };
        assert!(!steps.is_empty() && steps.iter().all(is_search), "{sql}: {steps:?}");
    }
}
