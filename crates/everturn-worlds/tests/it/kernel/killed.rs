//! The same life on a file, and a process that is killed.

use std::path::Path;

use everturn_worlds::kernel::Outcome;

use super::{check, operations, undisturbed};
use crate::killed::run;

/// Every so many operations the process is killed.
const EVERY: u64 = 11;

/// What an undisturbed process comes to.
pub(super) fn undisturbed_on_disk() -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    live_on(directory.path())
}

/// A process that nobody kills.
pub(super) fn live_on(directory: &Path) -> Outcome {
    run("kernel", directory, None).expect("nobody kills it")
}

/// Kills the process once, and lets another go on; gives whether it was killed.
fn kill(when: &str, which: &str, expected: &Outcome) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let said = format!("killed {when} {which}");
    let first: Option<Outcome> = run("kernel", directory.path(), Some((when, which)));
    let was_killed = first.is_none();
    let outcome = first.unwrap_or_else(|| live_on(directory.path()));
    check(&outcome, expected, &said);
    assert_eq!(outcome.resyncs, 0, "{said}: nothing was lost");
    was_killed
}

#[test]
fn a_kernel_killed_at_any_operation_goes_on_to_the_same_end() {
    let expected = undisturbed_on_disk();
    check(&expected, &undisturbed(), "on disk and in memory");
    let (count, _) = operations();
    let mut kills = 0;
    for number in (1..count).step_by(usize::try_from(EVERY).unwrap()) {
        // The moments take turns: which of them is met with which operation does not matter.
        let moment = if kills % 2 == 0 { "after" } else { "before" };
        assert!(kill(moment, &number.to_string(), &expected), "the life has {count} operations");
        kills += 1;
    }
    println!("{kills} kills over {count} operations");
}

#[test]
fn a_kernel_killed_in_the_middle_of_a_deletion_goes_on_to_the_same_end() {
    let expected = undisturbed_on_disk();
    let kills = (1..=4).filter(|ring| kill("ring", &ring.to_string(), &expected)).count();
    println!("{kills} kills between the slices of a deletion");
    assert!(kills > 0, "a deletion rings at least once");
}
