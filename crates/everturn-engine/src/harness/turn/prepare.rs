//! Preparing a request: who is asked, what was said meanwhile, what the model should know, and what it may cost.

use everturn_core::{
    Result,
    budget::{Room, worst_case},
    entry::{Entry, kind},
    message::Message,
    model::Abilities,
};

use super::{
    Turn,
    state::{Phase, Pinned, Reason},
};
use crate::{
    Transaction,
    harness::{
        Shared,
        agent::{self, Agent},
        prompt::{self, Place, Resolved},
    },
};

/// Who is asked next by an agent, or why nobody can be.
pub(super) fn resolve(shared: &Shared, agent: Agent, fallback: u32) -> std::result::Result<Resolved, Reason> {
    let settings = shared.settings();
    let other = fallback.checked_sub(1).and_then(|at| settings.fallbacks.get(at as usize));
    let Some(model) = other.or(agent.model.as_ref()).cloned() else {
        return Err(Reason::new("no_model", agent::NO_MODEL));
    };
    Resolved::of(shared, agent, model).map_err(|error| Reason::new("no_model", error.to_string()))
}

impl Turn {
    /// Resolves the agent once, places what was said meanwhile, tells the model what it should know, and pins model,
    /// options and cutoff. Gives whether there is room in the budgets; where the turn has to wait for it, it is prepared anew.
    pub(super) async fn prepare(&mut self, shared: &Shared, tx: &mut Transaction) -> Result<Room> {
        let step = if self.state.is_again { self.state.step } else { self.state.step + 1 };
        if self.state.step > 0 {
            tx.place_writes(self.conversation)?;
            if tx.place_steers(shared, self.conversation, (self.id, step))? > 0 {
                // Whoever steers a turn that stands still has moved it.
                self.state.repeats = Default::default();
                self.state.counts.repairs = 0;
            }
        }
        self.notice(tx)?;
        let resolved = match self.resolved.take() {
            Some(resolved) => resolved,
            None => match self.resolve(shared, tx).await? {
                Ok(resolved) => {
                    let place = Place { conversation: self.conversation, turn: self.id };
                    prompt::tell(tx, place, &resolved).await?;
                    resolved
                }
                Err(reason) => {
                    self.state.phase = Phase::Failed(reason);
                    return Ok(Room::Enough);
                }
            },
        };
        if self.does_not_fit(tx, &resolved).await? {
            if self.state.counts.compactions > 0 {
                self.state.phase = Phase::Failed(self.irreducible(tx).await?);
                return Ok(Room::Enough);
            }
            let was_sent = self.state.is_again;
            return self.compact(shared, tx, was_sent).await.map(|()| Room::Enough);
        }
        match self.reserve(shared, tx, &resolved.abilities).await? {
            Room::Enough => self.pin(tx, resolved, step).await.map(|()| Room::Enough),
            Room::Exceeded(limit) => {
                self.state.phase = Phase::Spent { limit: limit.word().into() };
                Ok(Room::Enough)
            }
            Room::Wait => {
                // What was said meanwhile was placed, and what the model should know was told.
                self.state.phase = Phase::Asked;
                Ok(Room::Wait)
            }
        }
    }

    /// Who is asked next, or why nobody can be.
    pub(super) async fn resolve(
        &self,
        shared: &Shared,
        tx: &Transaction,
    ) -> Result<std::result::Result<Resolved, Reason>> {
        Ok(resolve(shared, self.agent(tx).await?, self.state.counts.fallback))
    }

    /// Reserves the most that the next request may use.
    pub(super) async fn reserve(
        &self,
        shared: &Shared,
        tx: &mut Transaction,
        abilities: &Abilities,
    ) -> Result<Room> {
        let estimate = tx.tokens(self.conversation).await?;
        let worst = worst_case(estimate, abilities.output_max, abilities.price.as_ref());
        tx.reserve(shared, self.spender(), worst).await
    }

    async fn pin(&mut self, tx: &Transaction, resolved: Resolved, step: u32) -> Result<()> {
        let Resolved { agent, model, .. } = resolved;
        self.state.last = self.newest(tx).await?;
        if std::mem::take(&mut self.state.is_again) {
            self.state.attempt += 1;
        } else {
            (self.state.step, self.state.attempt) = (step, 1);
            let counts = &mut self.state.counts;
            (counts.retries, counts.compactions, counts.epochs) = (0, 0, 0);
        }
        let (thinking, cutoff, schema) = (agent.thinking, self.state.last, self.input.options.schema.clone());
        self.state.phase = Phase::Pinned(Pinned { model, thinking, cutoff, schema });
        Ok(())
    }

    /// Tells the model that it stands still, once it has for a while.
    fn notice(&mut self, tx: &mut Transaction) -> Result<()> {
        let is_new = matches!(self.state.phase, Phase::Calling { .. });
        let count = self.state.repeats.count;
        if is_new && count == self.state.limits.notice_at {
            let text = format!(
                "The same calls have given the same results {count} times in a row. Do something else, or answer with what \
                 you have."
            );
            self.append(tx, Entry::new(kind::NOTICE).message(Message::user(text)))?;
        }
        Ok(())
    }
}
