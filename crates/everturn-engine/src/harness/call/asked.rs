//! Calls that wait for a person, and what becomes of them when something was decided.

use std::panic::AssertUnwindSafe;

use everturn_core::{
    ErrorKind, Result,
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    id::ApprovalId,
    message::Outcome,
    task::{Woken, tree::Reach},
};
use futures_util::FutureExt;

use super::{
    Bench, CallState, CallTask, DECIDED, Ended, Intent, Phase, Running,
    judge::{Judgement, acts_of},
    open, task_of,
};
use crate::{
    Transaction,
    extension::{CallView, Hooked},
    harness::{agent::Agent, turn::change_in},
    registry::Selected,
    task::{Step, TaskError, panic_text},
};

impl Running<'_> {
    /// What the call's conversation works with now, in the call's turn.
    pub(super) async fn selected(&self) -> Result<(Agent, Selected)> {
        let mut agent = self.cx.snapshot::<Agent>(self.cx.conversation()).await?.unwrap_or_default();
        let turn = {
            let state = self.cx.session().0.state();
            let owner = state.live.task(self.cx.id()).and_then(|call| call.owner);
            owner.and_then(|turn| state.live.task(turn)).cloned()
        };
        change_in(turn.as_deref())?.apply(&mut agent);
        let selected = self.shared.select(&agent);
        Ok((agent, selected))
    }

    /// Lets hooks see the call, judges it, and commits its intent.
    pub(super) async fn proposed(&self, mut intent: Intent) -> Result<Step<CallTask>, TaskError> {
        let (agent, selected) = self.selected().await?;
        let is_valid = |intent: &Intent| {
            selected.tool(&intent.name).is_some_and(|tool| acts_of(tool, &intent.arguments).is_ok())
        };
        for hook in selected.before() {
            if !is_valid(&intent) {
                break;
            }
            let call = self.view(&intent);
            // A hook that breaks lets nothing pass: it stands there to refuse.
            let hooked = AssertUnwindSafe(hook.before(&call)).catch_unwind().await;
            let hooked = hooked.unwrap_or_else(|panic| {
                Hooked::Block(format!("a hook that sees calls broke: {}", panic_text(&*panic)))
            });
            match hooked {
                Hooked::Pass => {}
                Hooked::Rewrite(arguments) => intent.arguments = arguments,
                Hooked::Block(reason) => {
                    let text = format!("Refused by the host: {reason}");
                    let by = "host".into();
                    return self.end(Ended::new(Outcome::Declined { by, reason }, text)).await;
                }
            }
        }
        let mut tx = self.cx.begin().await?;
        let bench = Bench::of(self.shared, &tx, self.cx.conversation(), (&agent, &selected)).await?;
        match bench.judge(intent).await {
            Judgement::Run(intent) => Ok(Step::go(CallState::at(Phase::Ready, intent)).with(tx)),
            Judgement::End(_, ended) => self.end_in(tx, ended).await,
            Judgement::Ask(intent, question) => {
                let approval = self.open(&mut tx, question)?;
                Ok(self.listen(Phase::Asking(approval.id), intent, &approval).with(tx))
            }
        }
    }

    pub(super) fn view(&self, intent: &Intent) -> CallView {
        CallView {
            conversation: self.cx.conversation(),
            call: super::call_id(self.cx.id()),
            tool: intent.name.clone(),
            arguments: intent.arguments.clone(),
        }
    }

    /// Opens an approval of this call.
    pub(super) fn open(&self, tx: &mut Transaction, question: Question) -> Result<ApprovalRecord> {
        let call = task_of(tx, self.cx)?;
        let id = ApprovalId(tx.mint());
        Ok(open(self.shared, tx, &call, (id, question)))
    }

    /// Waits for the decision; where someone in this process decides, the next step asks.
    fn listen(&self, phase: Phase, intent: Intent, approval: &ApprovalRecord) -> Step<CallTask> {
        let state = CallState::at(phase, intent);
        match self.shared.approver {
            Some(_) if self.cx.woken_by().is_none() => Step::go(state),
            _ => wait(state, approval.until),
        }
    }

    /// Goes on with a call that was asked about: as was decided, or as policy says by now.
    pub(super) async fn asked(
        &self,
        intent: Intent,
        approval: ApprovalId,
    ) -> Result<Step<CallTask>, TaskError> {
        let (mut tx, record) = self.consult(approval).await?;
        match record.state.clone() {
            ApprovalState::Decided { decision, actor, .. } => {
                self.decided(tx, intent, (record.question, decision, actor)).await
            }
            ApprovalState::Void { .. } => {
                // What was asked is no longer what would run: it is proposed anew.
                Ok(Step::go(CallState::at(Phase::Proposed, intent)).with(tx))
            }
            ApprovalState::Open
                if self.cx.woken_by() == Some(&Woken::TimedOut)
                    || record.until.is_some_and(|until| until <= tx.time()) =>
            {
                let reason = "nobody decided in time".to_owned();
                tx.void(&record, &reason);
                let text = format!("This call was not allowed: {reason}.");
                let by = "time".into();
                self.end_in(tx, Ended::new(Outcome::Declined { by, reason }, text)).await
            }
            ApprovalState::Open => self.judge_again(tx, intent, record).await,
        }
    }

    /// Lets whoever decides in this process decide; gives what has become of the approval by then.
    async fn consult(&self, approval: ApprovalId) -> Result<(Transaction, ApprovalRecord)> {
        let session = self.cx.session();
        let said = self.ask_approver(&session.approval(approval).await?).await;
        let mut tx = self.cx.begin().await?;
        self.decide_here(&mut tx, approval, said).await?;
        let record = match tx.approval(approval) {
            Some(staged) => ApprovalRecord::clone(&staged),
            None => session.approval(approval).await?,
        };
        Ok((tx, record))
    }

    /// Asks whoever decides in this process, if there is someone.
    async fn ask_approver(&self, record: &ApprovalRecord) -> Option<Decision> {
        let approver = self.shared.approver.as_ref().filter(|_| record.is_open())?;
        let decide = AssertUnwindSafe(approver.decide(record)).catch_unwind();
        tokio::select! {
            biased;
            // Someone else may be faster, and time may run out.
            () = self.no_longer_open(record) => None,
            decided = decide => decided.unwrap_or_else(|panic| {
                let why = panic_text(&*panic);
                tracing::error!(approval = %record.id, why, "an approver broke; its question stays open");
                None
            }),
        }
    }

    /// Stages what was decided in this process. Where someone else was faster, or it is about something else by now, that
    /// stands.
    async fn decide_here(
        &self,
        tx: &mut Transaction,
        approval: ApprovalId,
        said: Option<Decision>,
    ) -> Result<()> {
        let Some(decision) = said else { return Ok(()) };
        match tx.decide(self.shared, approval, (decision, "host")).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Invalid) => {
                tracing::warn!(%approval, %error, "what was decided here does not count");
                Ok(())
            }
            decided => decided,
        }
    }

    /// Returns when a question is no longer open, or its time is up.
    async fn no_longer_open(&self, record: &ApprovalRecord) {
        let session = self.cx.session();
        let mut head = session.0.head.subscribe();
        let clock = &session.0.opener.world.clock;
        let late = async {
            match record.until {
                Some(until) => clock.sleep(until.since(clock.now())).await,
                None => std::future::pending().await,
            }
        };
        let decided = async {
            while session.0.state().live.approval(record.id).is_some() {
                // The session owns the sender: it lives as long as this call.
                let _ = head.changed().await;
            }
        };
        tokio::select! {
            () = late => {}
            () = decided => {}
        }
    }

    /// Judges a call whose question is open: policy may say something else by now.
    async fn judge_again(
        &self,
        mut tx: Transaction,
        intent: Intent,
        approval: ApprovalRecord,
    ) -> Result<Step<CallTask>, TaskError> {
        if matches!(approval.question, Question::Person { .. }) {
            return Ok(self.wait_on(intent, &approval).with(tx));
        }
        match self.judge(&tx, intent, false).await? {
            Judgement::Run(intent) => {
                tx.void(&approval, "policy allows it by now");
                Ok(Step::go(CallState::at(Phase::Ready, intent)).with(tx))
            }
            Judgement::End(_, ended) => self.end_in(tx, ended).await,
            Judgement::Ask(intent, question) if is_same(&question, &approval.question) => {
                Ok(self.wait_on(intent, &approval).with(tx))
            }
            Judgement::Ask(intent, question) => {
                tx.void(&approval, "what it asks about has changed");
                let approval = self.open(&mut tx, question)?;
                Ok(self.wait_on(intent, &approval).with(tx))
            }
        }
    }

    /// Judges a call by what its conversation works with now; one that somebody has decided about, as that.
    async fn judge(&self, tx: &Transaction, intent: Intent, is_decided: bool) -> Result<Judgement> {
        let (agent, selected) = self.selected().await?;
        let bench = Bench::of(self.shared, tx, self.cx.conversation(), (&agent, &selected)).await?;
        let bench = if is_decided { bench.decided() } else { bench };
        Ok(bench.judge(intent).await)
    }

    fn wait_on(&self, intent: Intent, approval: &ApprovalRecord) -> Step<CallTask> {
        let state = CallState::at(Phase::Asking(approval.id), intent);
        wait(state, approval.until)
    }

    /// Does what was decided. The call is judged again: what is denied by now does not run, whatever was decided.
    async fn decided(
        &self,
        tx: Transaction,
        mut intent: Intent,
        (question, decision, actor): (Question, Decision, String),
    ) -> Result<Step<CallTask>, TaskError> {
        let is_edit = matches!(decision, Decision::Edit { .. });
        match decision {
            Decision::Deny { reason } => {
                let text = format!("Declined by {actor}: {reason}");
                return self.end_in(tx, Ended::new(Outcome::Declined { by: actor, reason }, text)).await;
            }
            Decision::Answer { text } => return self.end_in(tx, Ended::new(Outcome::Ok, text)).await,
            Decision::Edit { arguments } => intent.arguments = arguments,
            _ => {}
        }
        match self.judge(&tx, intent, true).await? {
            Judgement::End(_, ended) => self.end_in(tx, ended).await,
            Judgement::Ask(intent, now)
                if !is_same_place(&question, &now) || (!is_edit && does_other(&question, &now)) =>
            {
                Ok(Step::go(CallState::at(Phase::Proposed, intent)).with(tx))
            }
            Judgement::Run(intent) | Judgement::Ask(intent, _) => {
                Ok(Step::go(CallState::at(Phase::Ready, intent)).with(tx))
            }
        }
    }

    /// Asks a person whether a call ran that was cut off.
    pub(super) async fn ask_whether_it_ran(&self, intent: Intent) -> Result<Step<CallTask>, TaskError> {
        let mut tx = self.cx.begin().await?;
        let (tool, arguments) = (intent.name.clone(), intent.arguments.clone());
        let approval = self.open(&mut tx, Question::Unknown { tool, arguments })?;
        Ok(self.listen(Phase::Unsure(approval.id), intent, &approval).with(tx))
    }

    /// Goes on with a call of which a person has said whether it ran.
    pub(super) async fn unsure(
        &self,
        intent: Intent,
        approval: ApprovalId,
    ) -> Result<Step<CallTask>, TaskError> {
        let shown = self.streamed().await?;
        let (mut tx, record) = self.consult(approval).await?;
        match &record.state {
            ApprovalState::Open if self.cx.woken_by() != Some(&Woken::TimedOut) => {
                let state = CallState::at(Phase::Unsure(approval), intent);
                Ok(wait(state, record.until).with(tx))
            }
            ApprovalState::Decided { decision: Decision::Happened { text }, actor, .. } => {
                let told = text.clone().unwrap_or_else(|| format!("{actor} says that this call has run."));
                self.end_in(tx, Ended::new(Outcome::Ok, told).behind(&shown)).await
            }
            ApprovalState::Decided { decision: Decision::DidNotHappen, .. } => {
                Ok(Step::go(CallState::at(Phase::Ready, intent)).with(tx))
            }
            ApprovalState::Decided { decision: Decision::Stop, .. } => {
                if let Some(turn) = record.turn {
                    tx.abort_task(turn, "nobody knows whether a call has run", Reach::Ordinary).await?;
                }
                self.end_in(tx, Ended::cut_off().behind(&shown)).await
            }
            _ => self.end_in(tx, Ended::cut_off().behind(&shown)).await,
        }
    }
}

/// Waits until something is decided, or the time is up.
pub(super) fn wait(state: CallState, until: Option<Timestamp>) -> Step<CallTask> {
    let step = Step::wait_signal(DECIDED, state);
    match until {
        Some(until) => step.until(until),
        None => step,
    }
}

/// Whether two questions are about the same call, in the same place.
fn is_same(a: &Question, b: &Question) -> bool {
    match (a, b) {
        (Question::Call { tool, arguments, .. }, Question::Call { tool: other, arguments: others, .. }) => {
            tool == other && arguments == others && is_same_place(a, b)
        }
        _ => false,
    }
}

/// Whether the same call would do something else: a link leads elsewhere by now.
fn does_other(a: &Question, b: &Question) -> bool {
    match (a, b) {
        (Question::Call { acts, .. }, Question::Call { acts: others, .. }) => acts != others,
        _ => false,
    }
}

fn is_same_place(a: &Question, b: &Question) -> bool {
    match (a, b) {
        (Question::Call { directory, .. }, Question::Call { directory: other, .. }) => directory == other,
        _ => true,
    }
}
