use super::Cursor;
use crate::{
    id::{Epoch, Seq},
    storage::{Changes, EpochStart},
};

fn cursor(epoch: u64, seq: u64) -> Cursor {
    let session = "0198c0de-0000-7000-8000-000000000000".parse().expect("the text is an id");
    Cursor { session, epoch: Epoch(epoch), seq: Seq(seq) }
}

fn changes(head: u64, epoch: u64, epochs: &[(u64, u64)]) -> Changes {
    let start = |(epoch, head): &(u64, u64)| EpochStart { epoch: Epoch(*epoch), head: Seq(*head) };
    Changes {
        head: Seq(head),
        epoch: Epoch(epoch),
        floor: Seq(3),
        epochs: epochs.iter().map(start).collect(),
        until: Seq(head),
        before: vec![],
        commits: vec![],
    }
}

fn check(why: &str, at: (u64, u64), changes: &Changes, expected: bool) {
    assert_eq!(cursor(at.0, at.1).is_kept(changes), expected, "{why}");
}

#[test]
fn a_place_is_kept_unless_history_is_gone_or_took_another_way() {
    check("at the head", (1, 9), &changes(9, 1, &[]), true);
    check("behind the head", (1, 4), &changes(9, 1, &[]), true);
    check("a later epoch began at the place", (1, 7), &changes(9, 2, &[(2, 7)]), true);
    check("a later epoch began behind it", (1, 6), &changes(9, 2, &[(2, 7)]), true);
    check("a later epoch began before it: its commit was lost", (1, 8), &changes(9, 2, &[(2, 7)]), false);
    check("the same, two epochs later", (1, 8), &changes(20, 3, &[(2, 7), (3, 12)]), false);
    check("ahead of the head", (1, 10), &changes(9, 1, &[]), false);
    check("of an epoch that never was", (5, 4), &changes(9, 1, &[]), false);
    check("trimmed away", (1, 2), &changes(9, 1, &[]), false);
    check("just where trimming ended", (1, 3), &changes(9, 1, &[]), true);
}

#[test]
fn later_places_are_in_the_epoch_that_committed_them() {
    let changes = changes(20, 3, &[(2, 7), (3, 12)]);
    let epoch = |seq| cursor(1, 5).at(Seq(seq), &changes).epoch;
    assert_eq!([6, 7, 8, 12, 13].map(epoch), [1, 1, 2, 2, 3].map(Epoch));
}
