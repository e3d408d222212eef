//! The end of a turn: its entry, its submission, its task, and who comes next, in one commit.

use everturn_core::{
    Result,
    entry::Entry,
    id::ConversationId,
    json::RawJson,
    submission::{End, Place, SubmissionRecord, SubmissionState},
    task::{TaskFailure, TaskOutcome},
};

use super::{
    Shared,
    history::{TurnEnd, TurnRecord},
    turn::{Ending, FAULTED, Turn, admit},
};
use crate::Transaction;

/// Stages the end of a turn, and admits the next queued input (or returns them all, after a failure).
pub(super) async fn end(shared: &Shared, tx: &mut Transaction, mut turn: Turn, ending: Ending) -> Result<()> {
    let (conversation, id) = (turn.conversation(), turn.task.id);
    let (outcome, reply) = outcome(&ending);
    let record = TurnRecord {
        turn: id,
        first: turn.input.first,
        last: turn.state.last,
        reply,
        outcome: outcome.clone(),
        steps: turn.state.step,
        total: turn.state.total,
    };
    let entry = turn.append(tx, Entry::of(&record)?)?;
    turn.task.end(task_outcome(&outcome, RawJson::of(&entry)?), tx.time());
    if let Some(submission) = tx.submission(turn.submission()) {
        let place = Some(Place { turn: id, entry: turn.input.first });
        settle(tx, &submission, submission_end(&outcome), place);
    }
    tx.put_task(turn.task);
    match outcome {
        TurnEnd::Answered | TurnEnd::Cancelled { .. } => {
            return Box::pin(admit_queued(shared, tx, conversation)).await;
        }
        TurnEnd::MaxSteps => give_back(tx, conversation, "the turn before it ended: max_steps"),
        TurnEnd::Failed { kind, .. } => {
            give_back(tx, conversation, &format!("the turn before it failed: {kind}"));
        }
    }
    Ok(())
}

/// Stages the end of a submission.
pub(super) fn settle(tx: &mut Transaction, submission: &SubmissionRecord, end: End, place: Option<Place>) {
    tx.put_submission(SubmissionRecord {
        state: SubmissionState::Settled { end, place },
        ..submission.clone()
    });
}

/// Places the oldest queued input of a conversation, if there is one.
async fn admit_queued(shared: &Shared, tx: &mut Transaction, conversation: ConversationId) -> Result<()> {
    match tx.queued(conversation).into_iter().next() {
        Some(next) => admit(shared, tx, (*next).clone()).await,
        None => Ok(()),
    }
}

fn give_back(tx: &mut Transaction, conversation: ConversationId, reason: &str) {
    for queued in tx.queued(conversation) {
        settle(tx, &queued, End::Returned { reason: reason.into() }, None);
    }
}

fn outcome(ending: &Ending) -> (TurnEnd, Option<everturn_core::id::EntryId>) {
    match ending {
        Ending::Answered { reply } => (TurnEnd::Answered, Some(*reply)),
        Ending::Cancelled { reason } => (TurnEnd::Cancelled { reason: reason.clone() }, None),
        Ending::MaxSteps { .. } => (TurnEnd::MaxSteps, None),
        Ending::Failed(reason) => {
            (TurnEnd::Failed { kind: reason.kind.clone(), message: reason.message.clone() }, None)
        }
    }
}

fn task_outcome(outcome: &TurnEnd, output: RawJson) -> TaskOutcome {
    match outcome {
        TurnEnd::Answered => TaskOutcome::Completed { output },
        TurnEnd::Cancelled { reason } => {
            TaskOutcome::Aborted { reason: reason.clone(), output: Some(output) }
        }
        TurnEnd::MaxSteps => {
            let message = "the model asked for more than the turn may have".into();
            let error = TaskFailure { kind: "max_steps".into(), message };
            TaskOutcome::Failed { error, output: Some(output) }
        }
        TurnEnd::Failed { kind, message } if kind == FAULTED => TaskOutcome::Faulted {
            error: TaskFailure { kind: kind.clone(), message: message.clone() },
            output: Some(output),
        },
        TurnEnd::Failed { kind, message } => TaskOutcome::Failed {
            error: TaskFailure { kind: kind.clone(), message: message.clone() },
            output: Some(output),
        },
    }
}

fn submission_end(outcome: &TurnEnd) -> End {
    match outcome {
        TurnEnd::Answered => End::Answered,
        TurnEnd::Cancelled { .. } => End::Cancelled,
        TurnEnd::MaxSteps => End::Failed { reason: "max_steps".into() },
        TurnEnd::Failed { kind, .. } => End::Failed { reason: kind.clone() },
    }
}
