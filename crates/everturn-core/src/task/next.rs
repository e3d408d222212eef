//! What comes next for a task: decided from its record and three facts, without doing anything.

use super::{TaskRecord, TaskState};
use crate::clock::Timestamp;

/// What a decision must know beside the record.
///
/// ```
/// use everturn_core::{clock::Timestamp, task::Facts};
/// let facts = Facts { now: Timestamp(5), are_members_live: false, is_busy_below: true };
/// assert!(facts.is_busy_below);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The present moment.
    pub now: Timestamp,
    /// Whether any of the tasks that it waits for has not ended.
    pub are_members_live: bool,
    /// Whether work below it keeps it from ending.
    pub is_busy_below: bool,
}

/// What comes next for a task.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, task::{Facts, Next, TaskRecord, next}};
/// let task = TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0));
/// let facts = Facts { now: Timestamp(5), are_members_live: false, is_busy_below: false };
/// assert_eq!(next(&task, facts), Next::Step);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its step runs.
    Step,
    /// Its end in order runs: it was told to stop, and the work below it has ended.
    Abort,
    /// The signal that it waits for did not come in time.
    TimeOut,
    /// Nothing, until this moment.
    At(Timestamp),
    /// Nothing, until something happens.
    Rest,
}

/// What comes next for a task.
pub fn next(task: &TaskRecord, facts: Facts) -> Next {
    let at = |until: Timestamp, then: Next| if until <= facts.now { then } else { Next::At(until) };
    match &task.state {
        TaskState::Completing { .. } | TaskState::Ended { .. } => Next::Rest,
        _ if task.abort.is_some() && facts.is_busy_below => Next::Rest,
        _ if task.abort.is_some() => Next::Abort,
        TaskState::Ready { .. } => Next::Step,
        TaskState::Sleeping { until, .. } => at(*until, Next::Step),
        TaskState::Waiting { .. } if facts.are_members_live => Next::Rest,
        TaskState::Waiting { .. } => Next::Step,
        TaskState::Listening { until, .. } => until.map_or(Next::Rest, |until| at(until, Next::TimeOut)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        id::{ConversationId, TaskId},
        json::RawJson,
        task::{TaskOutcome, WaitPolicy},
    };

    const QUIET: Facts = Facts { now: Timestamp(5), are_members_live: false, is_busy_below: false };
    const BELOW: Facts = Facts { is_busy_below: true, ..QUIET };
    const MEMBERS: Facts = Facts { are_members_live: true, ..QUIET };

    fn in_state(state: TaskState) -> TaskRecord {
        TaskRecord { state, ..TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0)) }
    }

    fn sleeping(until: i64) -> TaskRecord {
        in_state(TaskState::Sleeping { checkpoint: RawJson::empty(), until: Timestamp(until) })
    }

    fn listening(until: Option<i64>) -> TaskRecord {
        let (checkpoint, signal) = (RawJson::empty(), "paid".into());
        in_state(TaskState::Listening { checkpoint, signal, until: until.map(Timestamp) })
    }

    fn waiting() -> TaskRecord {
        let (checkpoint, on) = (RawJson::empty(), vec![TaskId(6)]);
        in_state(TaskState::Waiting { checkpoint, on, policy: WaitPolicy::FailFast, joined: false })
    }

    fn aborted(task: TaskRecord) -> TaskRecord {
        TaskRecord { abort: Some("enough".into()), ..task }
    }

    #[test]
    fn what_comes_next_follows_from_the_record_and_three_facts() {
        let ready = || in_state(TaskState::Ready { checkpoint: None });
        let outcome = TaskOutcome::Completed { output: RawJson::empty() };
        let completing = in_state(TaskState::Completing { outcome: outcome.clone() });
        for (what, task, facts, expected) in [
            ("a ready task steps", ready(), BELOW, Next::Step),
            ("a sleeping one waits", sleeping(6), QUIET, Next::At(Timestamp(6))),
            ("and steps when its moment has come", sleeping(5), QUIET, Next::Step),
            ("one that waits for tasks rests", waiting(), MEMBERS, Next::Rest),
            ("until all have ended", waiting(), QUIET, Next::Step),
            ("one that listens rests", listening(None), QUIET, Next::Rest),
            ("or waits until its time is up", listening(Some(9)), QUIET, Next::At(Timestamp(9))),
            ("and is told so then", listening(Some(5)), QUIET, Next::TimeOut),
            ("a completing one rests", completing.clone(), QUIET, Next::Rest),
            ("also when it is told to stop", aborted(completing), QUIET, Next::Rest),
            ("whoever is told to stop waits for the work below", aborted(ready()), BELOW, Next::Rest),
            ("and then stops", aborted(ready()), QUIET, Next::Abort),
            ("asleep or not", aborted(sleeping(60)), QUIET, Next::Abort),
            ("whatever it waits for", aborted(waiting()), MEMBERS, Next::Abort),
            ("listening or not", aborted(listening(None)), QUIET, Next::Abort),
            ("an ended one is over", in_state(TaskState::Ended { outcome }), QUIET, Next::Rest),
        ] {
            assert_eq!(next(&task, facts), expected, "{what}");
        }
    }
}
