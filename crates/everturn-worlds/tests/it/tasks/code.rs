//! Code that is replaced while its task is under way.

use everturn::{
    Result,
    task::{BlockedBy, Status, TaskRecord},
};
use everturn_testkit::watched::Moment;
use everturn_worlds::tasks::{Life, Moved, NewCode, OldCode, Outcome, Place};

use super::{Count, World, check_kept, limited, stops};

/// The last words of the only task.
fn output(outcome: &Outcome) -> &str {
    outcome.tasks[0].split(": ").last().unwrap()
}

const DONE: &str = r#"completed with "4 by ada""#;

#[test]
fn a_task_that_stops_anywhere_goes_on_with_newer_code() {
    let mut worlds = 0;
    for first in stops(Count::Commits) {
        for second in stops(Count::Commits).skip(usize::from(first.moment == Moment::After)).step_by(2) {
            let (world, when) = (World::new(), format!("{first:?}, then {second:?}"));
            let was_ended = world.life(Some(first), |place| limited(Moved::<OldCode>::BY, place)).is_some();
            // The newer code is stopped once, too.
            let came = world.life(Some(second), |place| limited(Moved::<NewCode>::BY, place));
            let is_over = came.is_some();
            let outcome =
                came.or_else(|| world.life(None, |place| limited(Moved::<NewCode>::BY, place))).unwrap();
            assert_eq!((output(&outcome), outcome.findings.len()), (DONE, 0), "{when}: {outcome:?}");
            check_kept(&world.ledger, &when);
            let mut did = world.ledger.did();
            did.dedup();
            assert_eq!(did, ["step 0", "step 1", "step 2", "step 3"], "{when}");
            worlds += 1;
            if was_ended {
                println!("{worlds} worlds with newer code");
                assert!(worlds > 100, "{worlds} worlds");
                return;
            }
            if is_over {
                break;
            }
        }
    }
}

/// What older code makes of the task: nothing. Gives the task's record before and after, and what is said of it.
async fn looked_at_by_old_code(place: Place) -> Result<(TaskRecord, TaskRecord, Vec<Status>)> {
    let life = Life::open(&Moved::<OldCode>::BY, place).await?;
    let before = life.tasks().await?.remove(0);
    life.session.quiescent().await?;
    let graph = life.session.inspect().await?;
    let after = life.tasks().await?.remove(0);
    life.session.close().await?;
    Ok((before, after, graph.tasks.into_iter().map(|task| task.status).collect()))
}

#[test]
fn a_task_that_newer_code_has_run_waits_for_it_and_loses_nothing() {
    let mut worlds = 0;
    for stop in stops(Count::Commits).skip(4) {
        let (world, when) = (World::new(), format!("{stop:?}"));
        if world.life(Some(stop), |place| limited(Moved::<NewCode>::BY, place)).is_some() {
            break;
        }
        let (before, after, status) = world.life(None, looked_at_by_old_code).unwrap();
        if before.is_live() {
            let blocked = after.blocked.clone().expect("it says why it waits");
            assert_eq!((blocked.by, blocked.needs), (BlockedBy::TooOld, 2), "{when}");
            assert_eq!(status, [Status::Blocked(blocked)], "{when}");
        }
        assert_eq!(TaskRecord { blocked: None, ..after }, TaskRecord { blocked: None, ..before }, "{when}");
        let outcome = world.life(None, |place| limited(Moved::<NewCode>::BY, place)).unwrap();
        assert_eq!((output(&outcome), outcome.findings.len()), (DONE, 0), "{when}: {outcome:?}");
        check_kept(&world.ledger, &when);
        worlds += 1;
    }
    println!("{worlds} worlds with older code");
    assert!(worlds > 10, "{worlds} worlds");
}
