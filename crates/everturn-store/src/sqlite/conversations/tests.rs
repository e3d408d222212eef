//! How SQLite looks for conversations.

use super::*;
use crate::sqlite::{empty, plan};

#[test]
fn what_tasks_own_is_found_from_the_live_ones() {
    let (_directory, db) = empty();
    let steps = plan(&db, OWNED);
    assert!(steps[0].ends_with("task_live (sid=?)"), "{steps:?}");
    assert!(steps[1].ends_with("conversation_owner (sid=? AND owner=?)"), "{steps:?}");
}
