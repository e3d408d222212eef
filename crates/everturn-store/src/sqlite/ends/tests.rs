//! How SQLite trims.

use super::*;
use crate::sqlite::{empty, plan};

#[test]
fn a_trim_enters_every_table_through_an_index() {
    let (_directory, db) = empty();
    for sql in TRIM.into_iter().chain([TASKS, APPROVALS, BASES, OLDER]) {
        let steps = plan(&db, sql);
        let is_search = |step: &String| {
            let is_list = ["SUBQUERY", "USING INDEX FOR IN", "SCAN json_each ", "BLOOM FILTER"];
            step.starts_with("SEARCH ") || is_list.iter().any(|list| step.contains(list))
        };
        assert!(!steps.is_empty() && steps.iter().all(is_search), "{sql}: {steps:?}");
    }
}
