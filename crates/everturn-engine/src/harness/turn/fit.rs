//! Whether the context fits the model, and what becomes of a turn whose context does not.

use everturn_core::{
    Result,
    compaction::Trigger,
    task::{TaskFailure, TaskOutcome},
};

use super::{
    Turn,
    state::{IRREDUCIBLE, Phase, Reason},
};
use crate::{
    Transaction,
    harness::{
        Shared,
        compact::{self, CompactInput, NOTHING_TO_GAIN},
        prompt::Resolved,
    },
};

impl Turn {
    /// Whether the next request would be more than the model takes.
    pub(super) async fn does_not_fit(&self, tx: &Transaction, resolved: &Resolved) -> Result<bool> {
        match resolved.room() {
            Some(room) => Ok(tx.tokens(self.conversation).await? > room),
            None => Ok(false),
        }
    }

    /// Takes what became of a compaction, once it has ended.
    pub(super) async fn take_compaction(&mut self, tx: &Transaction) -> Result<()> {
        let Phase::Compacting { task, was_sent } = self.state.phase else { return Ok(()) };
        if self.state.open > 0 {
            return Ok(());
        }
        self.state.is_again = was_sent;
        match tx.outcome(task).await? {
            Some(outcome) if outcome.is_completed() => {}
            // Only a budget that is used up gives a detail: which.
            Some(TaskOutcome::Failed { error: TaskFailure { detail: Some(limit), .. }, .. }) => {
                self.state.phase = Phase::Spent { limit: limit.read()? };
            }
            Some(TaskOutcome::Failed { error, .. }) if error.kind != NOTHING_TO_GAIN => {
                let message =
                    format!("the context does not fit the model, and making it shorter failed: {error}");
                self.state.phase = Phase::Failed(Reason::new(error.kind, message));
            }
            _ => self.state.phase = Phase::Failed(self.irreducible(tx).await?),
        }
        Ok(())
    }

    /// Stages a compaction that the turn waits for.
    pub(super) async fn compact(
        &mut self,
        shared: &Shared,
        tx: &mut Transaction,
        was_sent: bool,
    ) -> Result<()> {
        self.state.counts.compactions += 1;
        let room = self.room_of(shared, tx).await?;
        let input = CompactInput { trigger: Trigger::Full, focus: None, room: Some(room) };
        let task = match tx.compacting(self.conversation) {
            // One that runs already is as good.
            Some(running) => running,
            None => tx.compact(self.conversation, Some(self.id), &input)?,
        };
        (self.state.phase, self.state.open) = (Phase::Compacting { task, was_sent }, 1);
        Ok(())
    }

    /// How many tokens the context may have: what the window leaves for it; where that is not known, or was not enough, half
    /// of what it has.
    async fn room_of(&self, shared: &Shared, tx: &Transaction) -> Result<u64> {
        let half = tx.tokens(self.conversation).await? / 2;
        Ok(match (self.window(shared, tx).await?, &self.state.phase) {
            (Some(room), Phase::Faulted { .. }) => room.min(half),
            (Some(room), _) => room,
            (None, _) => half,
        })
    }

    /// What the window of who is asked leaves for the context, where that is known.
    async fn window(&self, shared: &Shared, tx: &Transaction) -> Result<Option<u64>> {
        Ok(self.resolve(shared, tx).await?.ok().and_then(|resolved| resolved.room()))
    }

    /// Stages a compaction in the background where the next turn would need one soon.
    pub(crate) async fn compact_ahead(&self, shared: &Shared, tx: &mut Transaction) -> Result<()> {
        if tx.conversation(self.conversation).await?.owner.is_some() {
            // What belongs to a call ends with it.
            return Ok(());
        }
        let Some(room) = self.window(shared, tx).await? else { return Ok(()) };
        let ahead_at = room.saturating_mul(u64::from(shared.settings().compact_ahead)) / 100;
        if tx.tokens(self.conversation).await? > ahead_at && tx.compacting(self.conversation).is_none() {
            tx.compact(
                self.conversation,
                None,
                &CompactInput { trigger: Trigger::Ahead, focus: None, room: None },
            )?;
        }
        Ok(())
    }

    /// Why the context cannot be sent, whatever is left out.
    pub(super) async fn irreducible(&self, tx: &Transaction) -> Result<Reason> {
        let largest = compact::largest(&tx.context(self.conversation).await?);
        let message =
            format!("the context does not fit the model, and cannot be made shorter; the largest: {largest}");
        Ok(Reason::new(IRREDUCIBLE, message))
    }
}
