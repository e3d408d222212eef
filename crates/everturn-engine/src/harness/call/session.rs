//! Calls of tools that need the session.

use std::panic::AssertUnwindSafe;

use everturn_core::{
    Error,
    approval::Question,
    env::{Env, Nowhere},
    message::Outcome,
    task::WaitPolicy,
    tool::{Output, ToolError},
};
use futures_util::FutureExt;

use super::{CallState, CallTask, Ended, Intent, Phase, Running, asked::wait, output::Buffer, task_of};
use crate::{
    harness::{
        agent::Agent,
        budget::Spender,
        child::{self, Child, Start},
    },
    task::{Step, TaskError, panic_text},
    tool::{AnySessionTool, Does, SessionCall, Spawn},
};

impl Running<'_> {
    /// Runs a tool that needs the session, and commits what it leads to.
    pub(super) async fn run_in_session(
        &self,
        intent: Intent,
        code: &AnySessionTool,
        agent: &Agent,
    ) -> Result<Step<CallTask>, TaskError> {
        let env = (self.shared.env)(agent).unwrap_or_else(|_| Env::new(Nowhere));
        let mut call = self.context(env, &Buffer::new(self.limits()));
        (call.cancel, call.output) = (self.cx.cancel().clone(), Output::default());
        let call = SessionCall { call, task: self.cx.clone() };
        self.cx.enter();
        let run = AssertUnwindSafe(code.run(&call, &intent.arguments)).catch_unwind();
        let did = run.await.unwrap_or_else(|panic| {
            Err(ToolError::new(format!("The tool {} broke: {}", intent.name, panic_text(&*panic))))
        });
        match did {
            Ok(Does::Done(output)) => self.end(Ended::ok(output)).await,
            Ok(Does::Stored(output, tx)) => self.end_in(tx, Ended::ok(output)).await,
            Ok(Does::Ask { text, choices }) => {
                let mut tx = self.cx.begin().await?;
                let approval = self.open(&mut tx, Question::Person { text, choices })?;
                Ok(wait(CallState::at(Phase::Asking(approval.id), intent), approval.until).with(tx))
            }
            Ok(Does::Spawn(spawn)) => self.spawn(intent, spawn).await,
            Err(_) if self.cx.is_closing() && self.cx.abort_reason().is_none() => {
                Err(Error::closed("the session closed while the call ran").into())
            }
            Err(error) => {
                let (text, outcome) = error.into_parts();
                self.end(Ended::new(outcome, text)).await
            }
        }
    }

    /// Starts a sub-agent in the commit of the call's move, and waits for it; or in the background, and ends.
    async fn spawn(&self, intent: Intent, spawn: Spawn) -> Result<Step<CallTask>, TaskError> {
        let mut tx = self.cx.begin().await?;
        let parent = self.cx.conversation();
        if spawn.is_background {
            let turn = task_of(&tx, self.cx)?.owner.unwrap_or(self.cx.id());
            let by = Spender { conversation: parent, turn };
            return match tx.start_in_background(self.shared, by, spawn).await {
                Ok(task) => {
                    let text = format!("Task {task} has started; what comes of it is reported here.");
                    self.end_in(tx, Ended::new(Outcome::Ok, text)).await
                }
                Err(error) => self.end_in(tx, Ended::new(Outcome::Error, error.to_string())).await,
            };
        }
        let start = Start { owner: task_of(&tx, self.cx)?.id, parent, spawn: &spawn };
        match tx.start_child(self.shared, start).await {
            Ok(child) => {
                let state = CallState::at(Phase::Child(child), intent);
                Ok(Step::wait_tasks([child.turn], WaitPolicy::AllSettled, state).with(tx))
            }
            Err(error) => {
                drop(tx);
                self.end(Ended::new(Outcome::Error, error.to_string())).await
            }
        }
    }

    /// Ends with what the sub-agent came to.
    pub(super) async fn child(&self, child: Child) -> Result<Step<CallTask>, TaskError> {
        let tx = self.cx.begin().await?;
        let ended = child::report(&tx, child).await?.into_ended(child);
        self.end_in(tx, ended).await
    }
}
