//! A checkout that pays four times: one payment is declined, and nothing may stay charged.

use std::sync::Arc;

use everturn::{
    Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction,
    id::TaskId,
    task::{Aborted, Remains, TaskFailure, WaitPolicy, tree::Reach},
};
use serde::{Deserialize, Serialize};

use super::{Ledger, Life, Order, Pay, ROOT, Scenario};

/// A checkout whose second payment is declined while the others are on their way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkout {
    /// What becomes of the others then.
    pub policy: WaitPolicy,
    /// When that is.
    pub soon_ms: u64,
}

/// The same checkout, told to stop as soon as the session has so many commits.
#[derive(Clone, Debug)]
pub struct Cancelled(pub Checkout, pub u64);

/// The code of a checkout.
struct Buy(Arc<Ledger>);

impl Scenario for Checkout {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("bank").task(Pay(ledger.clone())).task(Buy(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<Buy>(ROOT, self)?).map(drop)
    }
}

impl Scenario for Cancelled {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        self.0.code(ledger)
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        self.0.begin(tx)
    }

    async fn attend(&self, life: &Life) -> Result<()> {
        let tasks = life.tasks().await?;
        let checkout = tasks.iter().find(|task| task.owner.is_none()).map(|task| task.id).unwrap_or_default();
        life.until(|live| live.is_empty() || life.session.head().0 >= self.1).await?;
        life.session.abort_task(checkout, "never mind", Reach::Ordinary).await?;
        life.until(|live| live.is_empty()).await
    }
}

/// The payments: done, declined, charged and not done, and not even charged when the second is declined.
fn orders(Checkout { policy, soon_ms }: &Checkout) -> [Order; 4] {
    // Who is stopped is never done by itself; who is not gets there.
    let long_ms = if *policy == WaitPolicy::FailFast { 3_600_000 } else { 2 * soon_ms };
    [
        Order { amount: 1, ..Order::default() },
        Order { amount: 2, is_declined: true, before_ms: *soon_ms, ..Order::default() },
        Order { amount: 4, after_ms: long_ms, ..Order::default() },
        Order { amount: 8, before_ms: long_ms, ..Order::default() },
    ]
}

impl Buy {
    fn give_back(&self, cx: &TaskContext, payment: TaskId) {
        // The key of a payment, as it was made of its session and its task.
        self.0.refund(&format!("{}/{payment}/charge", cx.session_id()));
    }
}

/// Where a checkout stands.
#[derive(Debug, Serialize, Deserialize)]
enum State {
    /// Nothing has happened.
    Begin,
    /// The payments have ended.
    Paid(Vec<TaskId>),
}

impl Task for Buy {
    const NAME: &'static str = "worlds.buy";
    type Input = Checkout;
    type State = State;
    type Output = i64;

    fn start(&self, _: &Checkout) -> State {
        State::Begin
    }

    async fn step(
        &self,
        cx: &TaskContext,
        checkout: &Checkout,
        state: State,
    ) -> Result<Step<Self>, TaskError> {
        let payments = match state {
            State::Begin => {
                let mut tx = cx.begin().await?;
                let mut payments = Vec::new();
                for order in orders(checkout) {
                    payments.push(tx.create_task(cx.child::<Pay>(&order)?)?);
                }
                return Ok(
                    Step::wait_tasks(payments.clone(), checkout.policy, State::Paid(payments)).with(tx)
                );
            }
            State::Paid(payments) => payments,
        };
        let (mut sum, mut is_complete) = (0, true);
        for payment in &payments {
            let outcome = cx.outcome(*payment).await?.ok_or_else(|| TaskError::new("early", "it lives"))?;
            is_complete &= outcome.is_completed();
            sum += outcome.read::<i64>()?.unwrap_or_default();
        }
        if is_complete {
            return Ok(Step::done(sum));
        }
        payments.into_iter().for_each(|payment| self.give_back(cx, payment));
        Ok(Step::fail(TaskFailure::new("declined", "all was given back")).output(sum))
    }

    async fn abort(&self, cx: &TaskContext, _: &Checkout, _: State) -> Result<Aborted<Self>, TaskError> {
        cx.children().await?.iter().for_each(|payment| self.give_back(cx, payment.id));
        Ok(Remains::default())
    }
}
