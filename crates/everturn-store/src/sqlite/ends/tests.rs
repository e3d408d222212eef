//! How SQLite trims.

use super::*;
use crate::sqlite::{empty, plan};

#[test]
fn a_trim_enters_every_table_through_an_index() {
    let (_directory, db) = empty();
    for sql in TRIM.into_iter().chain([BASES, OLDER]) {
        let steps = plan(&db, sql);
        let is_search = |step: &String| {
            step.starts_with("SEARCH ") || step.contains("SUBQUERY") || step.contains("USING INDEX FOR IN")
        };
        assert!(!steps.is_empty() && steps.iter().all(is_search), "{sql}: {steps:?}");
    }
}
