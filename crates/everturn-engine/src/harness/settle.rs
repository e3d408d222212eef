//! The end of a turn: its entry, and who comes next, in the commit of its last move.

use everturn_core::{
    Result,
    entry::Entry,
    id::{ConversationId, EntryId},
    submission::{End, SubmissionRecord, SubmissionState},
};

use super::{
    Shared,
    history::{TurnEnd, TurnRecord},
    turn::{Ending, Turn, admit},
};
use crate::Transaction;

/// Stages the entry of a turn that is over, and admits the next queued input (or returns them all, after a failure). Gives
/// how it ended, and the entry that keeps it. What was placed in the turn ends with its task.
pub(super) async fn end(
    shared: &Shared,
    tx: &mut Transaction,
    mut turn: Turn,
    ending: Ending,
) -> Result<(TurnEnd, EntryId)> {
    let conversation = turn.conversation();
    let (outcome, reply) = outcome(&ending);
    let record = TurnRecord {
        turn: turn.id(),
        first: turn.input.first,
        last: turn.state.last,
        reply,
        outcome: outcome.clone(),
        steps: turn.state.step,
        total: turn.state.total,
    };
    let entry = turn.append(tx, Entry::of(&record)?)?;
    match &outcome {
        TurnEnd::Answered | TurnEnd::Cancelled { .. } if tx.takes_work(conversation) => {
            Box::pin(admit_queued(shared, tx, conversation)).await?;
        }
        TurnEnd::Answered | TurnEnd::Cancelled { .. } => {
            give_back(tx, conversation, "what the conversation belongs to has ended");
        }
        TurnEnd::MaxSteps => give_back(tx, conversation, "the turn before it ended: max_steps"),
        TurnEnd::Failed { kind, .. } => {
            give_back(tx, conversation, &format!("the turn before it failed: {kind}"));
        }
    }
    Ok((outcome, entry))
}

/// Stages the end of a submission that came to no turn.
pub(super) fn settle(tx: &mut Transaction, submission: &SubmissionRecord, end: End) {
    let state = SubmissionState::Settled { end, place: None };
    tx.put_submission(SubmissionRecord { state, ..submission.clone() });
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
        settle(tx, &queued, End::Returned { reason: reason.into() });
    }
}

fn outcome(ending: &Ending) -> (TurnEnd, Option<EntryId>) {
    match ending {
        Ending::Answered { reply } => (TurnEnd::Answered, Some(*reply)),
        Ending::Cancelled { reason } => (TurnEnd::Cancelled { reason: reason.clone() }, None),
        Ending::MaxSteps { .. } => (TurnEnd::MaxSteps, None),
        Ending::Failed(reason) => {
            (TurnEnd::Failed { kind: reason.kind.clone(), message: reason.message.clone() }, None)
        }
    }
}
