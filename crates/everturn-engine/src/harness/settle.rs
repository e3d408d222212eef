//! The end of a turn: its entry, and who comes next, in the commit of its last move.

use everturn_core::{
    Result,
    entry::{Entry, Head, kind},
    id::EntryId,
    message::Message,
};

use super::{
    Shared,
    history::{TurnEnd, TurnRecord},
    inbox::GONE,
    turn::{Ending, Turn},
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
    let reply = reply.or_else(|| turn.unfit_answer());
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
    turn.forget_partial(tx).await?;
    tx.clear_deadline(turn.id());
    tx.release(shared, turn.spender()).await?;
    tx.close_account(turn.id()).await?;
    if outcome == TurnEnd::Answered && tx.takes_work(conversation) {
        turn.compact_ahead(shared, tx).await?;
    }
    if let Ending::HandedOff { text } = ending {
        tx.append(conversation, reset_entry(Some(text)))?;
    }
    match &outcome {
        _ if !tx.takes_work(conversation) => {
            tx.give_back_all(conversation, GONE)?;
        }
        TurnEnd::Answered | TurnEnd::HandedOff | TurnEnd::Cancelled { .. } => {
            tx.go_on(shared, conversation)?;
        }
        failed => {
            let reason = format!("the turn before it {}", failed.said());
            tx.give_back(shared, conversation, &reason)?;
        }
    }
    Ok((outcome, entry))
}

/// The entry with which a conversation begins anew; the model reads the text, if there is one.
pub(super) fn reset_entry(text: Option<String>) -> Entry {
    let entry = Entry::new(kind::RESET).head(Head::Itself);
    match text {
        Some(text) => entry.message(Message::user(text)),
        None => entry,
    }
}

fn outcome(ending: &Ending) -> (TurnEnd, Option<EntryId>) {
    match ending {
        Ending::Answered { reply } => (TurnEnd::Answered, Some(*reply)),
        Ending::Ended => (TurnEnd::Answered, None),
        Ending::HandedOff { .. } => (TurnEnd::HandedOff, None),
        Ending::Cancelled { reason } => (TurnEnd::Cancelled { reason: reason.clone() }, None),
        Ending::MaxSteps { .. } => (TurnEnd::MaxSteps, None),
        Ending::Standstill { repeats } => (TurnEnd::Standstill { repeats: *repeats }, None),
        Ending::OutOfBudget { limit } => (TurnEnd::OutOfBudget { limit: limit.clone() }, None),
        Ending::Failed(reason) => {
            (TurnEnd::Failed { kind: reason.kind.clone(), message: reason.message.clone() }, None)
        }
    }
}
