//! Calls of tools that need the session.

use std::panic::AssertUnwindSafe;

use everturn_core::{
    Error, ErrorKind,
    approval::Question,
    env::{Env, Nowhere},
    message::Outcome,
    task::WaitPolicy,
    tool::{Keep, Output, ToolError, ToolOutput},
};
use futures_util::FutureExt;

use super::{CallState, CallTask, Ended, Intent, Phase, Running, asked::wait, output::Buffer, task_of};
use crate::{
    harness::{
        agent::Agent,
        child::{self, Child, Start},
    },
    registry::Selected,
    task::{Step, TaskError, panic_text},
    tool::{AnySessionTool, Does, SessionCall, Spawn, Writes},
};

impl Running<'_> {
    /// Runs a tool that needs the session, and commits what it leads to.
    pub(super) async fn run_in_session(
        &self,
        intent: Intent,
        code: &AnySessionTool,
        (agent, selected): (&Agent, &Selected),
    ) -> Result<Step<CallTask>, TaskError> {
        let env = (self.shared.env)(agent).unwrap_or_else(|_| Env::new(Nowhere));
        let mut call = self.context(env, &Buffer::new(self.limits()));
        (call.cancel, call.output) = (self.cx.cancel().clone(), Output::default());
        let call = SessionCall { call, task: self.cx.clone() };
        self.cx.enter();
        let run = AssertUnwindSafe(code.run(&call, &intent.arguments)).catch_unwind();
        let broke = |panic: Box<dyn std::any::Any + Send>| {
            Err(ToolError::new(format!("The tool {} broke: {}", intent.name, panic_text(&*panic))))
        };
        let did = tokio::select! {
            biased;
            did = run => did.unwrap_or_else(broke),
            () = self.deadline_of(&code.tool) => {
                Err(ToolError::outcome("The call took longer than it may.", Outcome::TimedOut))
            }
        };
        let with = (code, selected);
        match did {
            Ok(Does::Done(output)) => self.end(self.told(&intent, with, output).await?).await,
            Ok(Does::Stored(output, writes)) => {
                let ended = self.told(&intent, with, output).await?;
                self.end_with(ended, writes, code).await
            }
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

    /// What the model is told of an output: within the limits, and as hooks leave it.
    async fn told(
        &self,
        intent: &Intent,
        (code, selected): (&AnySessionTool, &Selected),
        output: ToolOutput,
    ) -> Result<Ended, TaskError> {
        let buffer = Buffer::new(self.limits());
        let kept = self.keep(Ended::ok(output), (&buffer, code.tool.contract().keep)).await?;
        Ok(self.after(intent, kept, selected).await)
    }

    /// Ends the call with a result and with what it writes beside that.
    async fn end_with(
        &self,
        ended: Ended,
        writes: Writes,
        code: &AnySessionTool,
    ) -> Result<Step<CallTask>, TaskError> {
        let tx = self.cx.begin().await?;
        let stage = AssertUnwindSafe(async { writes.stage(tx).await }).catch_unwind();
        let broke = |panic: Box<dyn std::any::Any + Send>| {
            let name = &code.tool.spec().name;
            Err(Error::invalid(format!("the tool {name} broke: {}", panic_text(&*panic))))
        };
        let staged = tokio::select! {
            biased;
            staged = stage => staged.unwrap_or_else(broke),
            () = self.deadline_of(&code.tool) => {
                let text = "The call took longer than it may.";
                return self.end(Ended::new(Outcome::TimedOut, text)).await;
            }
        };
        match staged {
            Ok(tx) => self.end_in(tx, ended).await,
            Err(error) => self.refused(error).await,
        }
    }

    /// Starts a sub-agent in the commit of the call's move, and waits for it; or in the background, and ends.
    async fn spawn(&self, intent: Intent, spawn: Spawn) -> Result<Step<CallTask>, TaskError> {
        let mut tx = self.cx.begin().await?;
        let parent = self.cx.conversation();
        let start = Start { owner: task_of(&tx, self.cx)?.id, parent, spawn: &spawn };
        if spawn.is_background {
            return match tx.start_in_background(self.shared, start).await {
                Ok(task) => {
                    let text = format!("Task {task} has started; what comes of it is reported here.");
                    self.end_in(tx, Ended::new(Outcome::Ok, text)).await
                }
                Err(error) => {
                    drop(tx);
                    self.refused(error).await
                }
            };
        }
        match tx.start_child(self.shared, start).await {
            Ok(child) => {
                let state = CallState::at(Phase::Child(child), intent);
                Ok(Step::wait_tasks([child.turn], WaitPolicy::AllSettled, state).with(tx))
            }
            Err(error) => {
                drop(tx);
                self.refused(error).await
            }
        }
    }

    /// Ends with why what the call leads to was not staged; what storage says is no end.
    async fn refused(&self, error: Error) -> Result<Step<CallTask>, TaskError> {
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::TooLarge => {
                self.end(Ended::new(Outcome::Error, error.to_string())).await
            }
            _ => Err(error.into()),
        }
    }

    /// Ends with what the sub-agent came to.
    pub(super) async fn child(&self, child: Child) -> Result<Step<CallTask>, TaskError> {
        let tx = self.cx.begin().await?;
        let ended = child::report(&tx, child).await?.into_ended(child);
        // What does not fit is written as a blob: that keeps nobody waiting.
        drop(tx);
        let ended = self.keep(ended, (&Buffer::new(self.limits()), Keep::default())).await?;
        self.end(ended).await
    }
}
