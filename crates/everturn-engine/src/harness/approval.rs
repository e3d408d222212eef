//! Approvals: deciding them, from wherever, once.

use std::{fmt, sync::Arc};

use everturn_core::{
    BoxFuture, Error, ErrorKind, Result,
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    id::{ApprovalId, TaskId},
    json::RawJson,
    policy::Rule,
    task::Signal,
};

use super::{
    Shared,
    call::{DECIDED, SessionRule, SessionRules, acts_of},
    live::LiveSession,
};
use crate::{Transaction, extension::erased};

/// Decides approvals in this process, at once: everything, by a closure, by asking at the terminal.
///
/// Promise: the question is committed before it is asked, and the decision before anything runs. What it leaves open (none)
/// waits for someone else.
///
/// ```
/// use everturn_core::approval::{ApprovalRecord, Decision, Question};
/// use everturn_engine::Approver;
///
/// struct OnlyReading;
/// impl Approver for OnlyReading {
///     async fn decide(&self, approval: &ApprovalRecord) -> Option<Decision> {
///         match &approval.question {
///             Question::Call { tool, .. } if tool == "read" => Some(Decision::Allow),
///             _ => None,
///         }
///     }
/// }
/// ```
pub trait Approver: Send + Sync + 'static {
    /// Decides, or leaves it to someone else.
    fn decide(&self, approval: &ApprovalRecord) -> impl Future<Output = Option<Decision>> + Send;
}

/// Allows every call, and leaves other questions open.
///
/// ```
/// use everturn_engine::{ApproveAll, Harness};
/// # use everturn_core::{memory::Memory, storage::Store};
/// let harness = Harness::builder(Store::new(Memory::new())).approver(ApproveAll);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ApproveAll;

impl Approver for ApproveAll {
    async fn decide(&self, approval: &ApprovalRecord) -> Option<Decision> {
        matches!(approval.question, Question::Call { .. }).then_some(Decision::Allow)
    }
}

erased! {
    /// An approver with its type erased.
    AnyApprover, ErasedApprover, Approver, decide(approval: &'a ApprovalRecord) -> Option<Decision>
}

impl LiveSession {
    /// Decides an approval. One decision wins.
    ///
    /// Errors: `Conflict` when it was decided before, naming what and by whom, or has become void; `Invalid` for a decision that
    /// does not fit the question, and for changed arguments that the tool does not take; `NotFound`. Nothing was changed then.
    pub async fn decide(&self, approval: ApprovalId, decision: Decision, actor: &str) -> Result<()> {
        self.resume();
        let mut tx = self.begin().await?;
        tx.decide(self.shared(), approval, (decision, actor)).await?;
        tx.commit().await.map(drop)
    }
}

impl Transaction {
    /// Stages a decision, and wakes the call that waits for it.
    pub(super) async fn decide(
        &mut self,
        shared: &Shared,
        approval: ApprovalId,
        (decision, actor): (Decision, &str),
    ) -> Result<()> {
        let Some(record) = self.approval(approval).filter(|record| record.is_open()) else {
            return Err(over(&self.session().approval(approval).await?));
        };
        if record.until.is_some_and(|until| until <= self.time()) {
            return Err(Error::conflict(format!("decide approval {approval}: its time is over")));
        }
        if !record.question.takes(&decision) {
            let message =
                format!("decide approval {approval}: to say \"{decision}\" does not fit what is asked");
            return Err(Error::invalid(message));
        }
        // To refuse is never about something else.
        if !matches!(decision, Decision::Deny { .. }) {
            self.check_same(shared, &record, &decision).await?;
        }
        let is_rule = decision == Decision::AllowForSession;
        if is_rule {
            self.allow_for_session(&record.question).await?;
        }
        let state = ApprovalState::Decided { decision, actor: actor.into(), time: self.time() };
        self.put_approval(ApprovalRecord { state, ..ApprovalRecord::clone(&record) });
        self.wake_call(record.call, approval).await?;
        if is_rule {
            // Others may be allowed by the same rule.
            self.wake_asking(Some(record.call)).await?;
        }
        Ok(())
    }

    /// Proves that a decision is about what was asked: the place and the tool are the same still, and the tool takes changed
    /// arguments.
    async fn check_same(&self, shared: &Shared, record: &ApprovalRecord, decision: &Decision) -> Result<()> {
        let Question::Call { tool: name, directory, .. } = &record.question else { return Ok(()) };
        let id = record.id;
        let conflict = |why: String| Err(Error::conflict(format!("decide approval {id}: {why}")));
        let agent = self.agent_in(record.conversation, record.turn).await?;
        if agent.directory != *directory {
            return conflict("the directory of the conversation has changed since".into());
        }
        let selected = shared.select(&agent);
        let Some(tool) = selected.tool(name) else {
            return conflict(format!("the tool {name} is no longer on offer"));
        };
        let Decision::Edit { arguments } = decision else { return Ok(()) };
        acts_of(tool, arguments).map(drop).map_err(|error| {
            let (text, _) = error.into_parts();
            Error::invalid(format!("decide approval {id}: {text}"))
        })
    }

    /// Adds a rule for each thing that a call does, as narrow as it can be.
    async fn allow_for_session(&mut self, question: &Question) -> Result<()> {
        let Question::Call { tool, acts, directory, .. } = question else { return Ok(()) };
        let of_name = [everturn_core::policy::Act::Tool(tool.clone())];
        let acts = if acts.is_empty() { &of_name[..] } else { acts };
        let rules = &mut self.doc::<SessionRules>(()).await?.rules;
        for rule in acts.iter().filter_map(Rule::for_act) {
            let rule = SessionRule { rule, directory: directory.clone() };
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        Ok(())
    }

    /// Wakes all calls whose questions are open, but one.
    pub(super) async fn wake_asking(&mut self, but: Option<TaskId>) -> Result<()> {
        for open in self.open_approvals(None) {
            if Some(open.call) != but && matches!(open.question, Question::Call { .. }) {
                self.wake_call(open.call, open.id).await?;
            }
        }
        Ok(())
    }

    async fn wake_call(&mut self, call: TaskId, approval: ApprovalId) -> Result<()> {
        self.wake(call, Signal { name: DECIDED.into(), payload: RawJson::of(&approval)? }).await
    }

    /// Declines the open questions of a turn's calls.
    pub(super) async fn decline(
        &mut self,
        shared: &Shared,
        turn: TaskId,
        (reason, actor): (&str, &str),
    ) -> Result<()> {
        for open in self.open_approvals(None) {
            let no = Decision::Deny { reason: reason.into() };
            if open.turn == Some(turn) && open.question.takes(&no) {
                match self.decide(shared, open.id, (no, actor)).await {
                    // It is over by now.
                    Err(error) if matches!(error.kind(), ErrorKind::Conflict) => {}
                    decided => decided?,
                }
            }
        }
        Ok(())
    }
}

/// Why an approval cannot be decided any more.
fn over(record: &ApprovalRecord) -> Error {
    let id = record.id;
    Error::conflict(match &record.state {
        ApprovalState::Decided { decision, actor, .. } => {
            format!("decide approval {id}: {actor} has decided it: {decision}")
        }
        ApprovalState::Void { reason, .. } => format!("decide approval {id}: it is void: {reason}"),
        ApprovalState::Open => format!("decide approval {id}: it cannot be read as it is"),
    })
}
