//! Budgets at work: what a turn wants to spend is asked of every account above it, reserved before it is spent, and settled
//! to what was used.
//!
//! An account is a document of what it is about (a turn, a conversation, the session), and is kept from the moment on at
//! which a budget limits that.

use everturn_core::{
    Result,
    budget::{Account, Budget, Room, Spent},
    document::Document,
    id::{ConversationId, TaskId},
    json::RawJson,
    message::Usage,
    model::ModelRef,
    task::{Signal, TaskRecord, TaskState},
    usage::Price,
};
use serde::{Deserialize, Serialize};

use super::{Shared, turn::TurnInput};
use crate::Transaction;

/// The signal that wakes who waits for room in a budget.
pub(super) const ROOM: &str = "et.room";

/// What a turn has spent, its sub-agents included.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.account.turn", version = 1, scope = "task", crate = "everturn_core")]
struct TurnAccount {
    account: Account,
}

/// What a conversation has spent, its sub-agents included.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.account.conversation", version = 1, scope = "conversation", crate = "everturn_core")]
struct ConversationAccount {
    account: Account,
}

/// What a session has spent.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.account.session", version = 1, scope = "session", crate = "everturn_core")]
struct SessionAccount {
    account: Account,
}

/// What an account is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Turn(TaskId),
    Conversation(ConversationId),
    Session,
}

/// Who spends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spender {
    pub(super) conversation: ConversationId,
    /// The turn that the spending is for.
    pub(super) turn: TaskId,
    /// Who reserves and waits: the turn itself, or work of it.
    pub(super) task: TaskId,
}

impl Spender {
    /// A turn that spends for itself.
    pub(super) fn turn(conversation: ConversationId, turn: TaskId) -> Self {
        Self { conversation, turn, task: turn }
    }
}

impl Shared {
    /// What a model's tokens cost, where that is known.
    pub(super) fn price(&self, model: &ModelRef) -> Option<Price> {
        let client = self.models.resolve(model).ok()?;
        client.abilities(&model.model).price
    }
}

/// Whether a task waits for room in a budget.
pub(super) fn waits_for_room(task: &TaskRecord) -> bool {
    matches!(&task.state, TaskState::Listening { signal, .. } if signal == ROOM)
}

/// What a request was, as accounts have it, but for its time; none where nobody knows.
pub(super) fn used(usage: Option<&Usage>, cost: Option<u64>) -> Option<Spent> {
    let usage = usage?;
    let (input_tokens, output_tokens) = (usage.input?, usage.output?);
    let cost = cost.unwrap_or(0);
    Some(Spent { steps: 1, input_tokens, output_tokens, cost, ..Spent::default() })
}

impl Transaction {
    /// Whether every budget above a spender has room for what it wants.
    pub(super) async fn room(&mut self, shared: &Shared, by: Spender, wanted: &Spent) -> Result<Room> {
        Ok(self.weigh(shared, by, wanted).await?.0)
    }

    /// The same, with the accounts of these budgets.
    async fn weigh(
        &self,
        shared: &Shared,
        by: Spender,
        wanted: &Spent,
    ) -> Result<(Room, Vec<(About, Account)>)> {
        let (mut room, mut accounts) = (Room::Enough, Vec::new());
        for (about, budget) in self.budgets(shared, by).await? {
            if !budget.is_unlimited() {
                let account = self.account(about).await?;
                room = room.and(budget.room(&account, wanted, by.task));
                accounts.push((about, account));
            }
        }
        Ok((room, accounts))
    }

    /// Reserves the most that a request may use, in every account above; or notes that who spends waits for room.
    pub(super) async fn reserve(&mut self, shared: &Shared, by: Spender, worst: Spent) -> Result<Room> {
        let (room, accounts) = self.weigh(shared, by, &worst).await?;
        for (about, mut account) in accounts {
            match room {
                Room::Enough => account.reserve(by.task, worst),
                Room::Wait => account.wait(by.task),
                Room::Exceeded(_) => continue,
            }
            self.put_account(about, account).await?;
        }
        Ok(room)
    }

    /// Settles a request to what it used and how long it was out, in every account above; what nobody knows is charged as it
    /// was reserved. Wakes who waited.
    pub(super) async fn settle_spending(
        &mut self,
        shared: &Shared,
        by: Spender,
        (used, wall_ms): (Option<Spent>, u64),
    ) -> Result<()> {
        let time = Spent { wall_ms, ..Spent::default() };
        for (about, mut account) in self.accounts_above(shared, by).await? {
            let waiting = account.settle(by.task, used);
            account.spent = account.spent.plus(&time);
            self.put_account(about, account).await?;
            for task in waiting {
                self.wake_for_room(task).await?;
            }
        }
        Ok(())
    }

    /// Gives back what is still held by who is over: its request was never sent, or is settled.
    pub(super) async fn release(&mut self, shared: &Shared, by: Spender) -> Result<()> {
        for (about, mut account) in self.accounts_above(shared, by).await? {
            let is_known = account.reserved.contains_key(&by.task) || account.waiting.contains(&by.task);
            if !is_known {
                continue;
            }
            for task in account.settle(by.task, Some(Spent::default())) {
                self.wake_for_room(task).await?;
            }
            self.put_account(about, account).await?;
        }
        Ok(())
    }

    /// Charges what was spent without a reservation: calls, sub-agents, time.
    pub(super) async fn charge(&mut self, shared: &Shared, by: Spender, spent: Spent) -> Result<()> {
        for (about, mut account) in self.accounts_above(shared, by).await? {
            account.spent = account.spent.plus(&spent);
            self.put_account(about, account).await?;
        }
        Ok(())
    }

    /// Stages the end of a turn's account: what it has spent is in those above.
    pub(super) async fn close_account(&mut self, turn: TaskId) -> Result<()> {
        match self.snapshot::<TurnAccount>(turn).await? {
            Some(_) => self.retire::<TurnAccount>(turn).await,
            None => Ok(()),
        }
    }

    /// Wakes everyone who waits for room: there may be more of it. Who finds none waits again.
    pub(super) async fn wake_all_for_room(&mut self) -> Result<()> {
        let waiting: Vec<TaskId> = {
            let state = self.session().0.state();
            state.live.tasks().filter(|task| waits_for_room(task)).map(|task| task.id).collect()
        };
        for task in waiting {
            self.wake_for_room(task).await?;
        }
        Ok(())
    }

    async fn wake_for_room(&mut self, task: TaskId) -> Result<()> {
        let signal = Signal { name: ROOM.into(), payload: RawJson::empty() };
        self.wake(task, signal).await
    }

    /// The accounts above a spender that are kept: because of a budget, or because there was one.
    async fn accounts_above(&self, shared: &Shared, by: Spender) -> Result<Vec<(About, Account)>> {
        let mut accounts = Vec::new();
        for (about, budget) in self.budgets(shared, by).await? {
            let account = match budget.is_unlimited() {
                true => self.kept(about).await?,
                false => Some(self.account(about).await?),
            };
            accounts.extend(account.map(|account| (about, account)));
        }
        Ok(accounts)
    }

    /// The budgets above a spender: its turn's, its conversation's (as it is in the turn), those of who owns it, the session's.
    async fn budgets(&self, shared: &Shared, by: Spender) -> Result<Vec<(About, Budget)>> {
        let mut budgets = Vec::new();
        let (mut conversation, mut turn) = (by.conversation, Some(by.turn));
        loop {
            if let Some(turn) = turn {
                budgets.push((About::Turn(turn), self.budget_of_turn(turn)));
            }
            let agent = self.agent_in(conversation, turn).await?;
            budgets.push((About::Conversation(conversation), agent.budget));
            let owner = self.conversation(conversation).await?.owner;
            let Some(owner) = owner.and_then(|owner| self.task(owner)) else { break };
            // What a call owns is part of its turn; what works in the background belongs to no turn.
            (conversation, turn) = (owner.conversation, owner.owner);
        }
        budgets.push((About::Session, shared.settings().session_budget));
        Ok(budgets)
    }

    fn budget_of_turn(&self, turn: TaskId) -> Budget {
        let input = self.task(turn).and_then(|task| task.input.read::<TurnInput>().ok());
        input.map(|input| input.options.budget).unwrap_or_default()
    }

    /// An account as it stands in this transaction. One that was not kept yet begins with what the ledger has.
    async fn account(&self, about: About) -> Result<Account> {
        match (self.kept(about).await?, about) {
            (Some(account), _) => Ok(account),
            (None, About::Turn(_)) => Ok(Account::default()),
            (None, about) => self.account_of_ledger(about).await,
        }
    }

    async fn kept(&self, about: About) -> Result<Option<Account>> {
        Ok(match about {
            About::Turn(turn) => self.snapshot::<TurnAccount>(turn).await?.map(|one| one.account),
            About::Conversation(conversation) => {
                self.snapshot::<ConversationAccount>(conversation).await?.map(|one| one.account)
            }
            About::Session => self.snapshot::<SessionAccount>(()).await?.map(|one| one.account),
        })
    }

    async fn account_of_ledger(&self, about: About) -> Result<Account> {
        let mut account = Account::default();
        for row in self.session().usage().await? {
            if about == About::Session || about == About::Conversation(row.conversation) {
                let usage = row.usage.unwrap_or_default();
                let spent = Spent {
                    steps: 1,
                    input_tokens: usage.input.unwrap_or(0),
                    output_tokens: usage.output.unwrap_or(0),
                    cost: row.cost.unwrap_or(0),
                    ..Spent::default()
                };
                account.spent = account.spent.plus(&spent);
            }
        }
        Ok(account)
    }

    async fn put_account(&mut self, about: About, account: Account) -> Result<()> {
        match about {
            About::Turn(turn) => self.doc::<TurnAccount>(turn).await?.account = account,
            About::Conversation(conversation) => {
                self.doc::<ConversationAccount>(conversation).await?.account = account;
            }
            About::Session => self.doc::<SessionAccount>(()).await?.account = account,
        }
        Ok(())
    }
}
