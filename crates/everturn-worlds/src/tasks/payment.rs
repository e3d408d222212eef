//! A payment in two phases: the key is stored before the bank is asked.

use std::{sync::Arc, time::Duration};

use everturn::{
    Extension, NewTask, Result, Step, Task, TaskContext, TaskError, Transaction,
    task::{Aborted, Remains, TaskFailure},
};
use serde::{Deserialize, Serialize};

use super::{Ledger, ROOT, Scenario};

/// A single payment.
#[derive(Clone, Debug)]
pub struct Payment;

impl Scenario for Payment {
    fn code(&self, ledger: &Arc<Ledger>) -> Extension {
        Extension::new("bank").task(Pay(ledger.clone()))
    }

    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.create_task(NewTask::of::<Pay>(ROOT, &Order { amount: 12, ..Order::default() })?).map(drop)
    }
}

/// What is to be paid.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Order {
    /// How much.
    pub amount: i64,
    /// Whether the bank refuses it.
    pub is_declined: bool,
    /// How long it waits before the bank is asked.
    pub before_ms: u64,
    /// How long it waits behind that.
    pub after_ms: u64,
}

/// Where a payment stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum State {
    /// Nothing has happened.
    Prepare,
    /// The bank is asked, under this key.
    Charge(String),
    /// It has said yes.
    Charged(String),
}

/// The code of a payment.
pub struct Pay(pub Arc<Ledger>);

impl Task for Pay {
    const NAME: &'static str = "worlds.pay";
    type Input = Order;
    type State = State;
    /// What was paid.
    type Output = i64;

    fn start(&self, _: &Order) -> State {
        State::Prepare
    }

    async fn step(&self, cx: &TaskContext, order: &Order, state: State) -> Result<Step<Self>, TaskError> {
        let pause = |ms, next| match ms {
            0 => Step::go(next),
            ms => Step::sleep(cx.now() + Duration::from_millis(ms), next),
        };
        Ok(match state {
            State::Prepare => pause(order.before_ms, State::Charge(cx.key("charge"))),
            State::Charge(_) if order.is_declined => Step::fail(TaskFailure::new("declined", "no money")),
            State::Charge(key) => {
                self.0.charge(&key, order.amount);
                pause(order.after_ms, State::Charged(key))
            }
            State::Charged(_) => Step::done(order.amount),
        })
    }

    async fn abort(&self, _: &TaskContext, _: &Order, state: State) -> Result<Aborted<Self>, TaskError> {
        if let State::Charge(key) | State::Charged(key) = state {
            // It may have been charged by a step that was cut off.
            self.0.refund(&key);
        }
        Ok(Remains::output(0))
    }
}
