//! Running a tool: under its token and its deadline, its output shown while it comes.

use std::{panic::AssertUnwindSafe, sync::atomic::AtomicU32, time::Duration};

use everturn_core::{
    BoxFuture, CancelToken, Error, ErrorKind, Result,
    clock::Timestamp,
    document::Operation,
    env::{Env, Layered},
    id::Seq,
    message::Outcome,
    policy::Act,
    tool::{AnyTool, CallContext, Output, ToolResult},
};
use futures_util::FutureExt;

use super::{
    Ended, Intent, Running, Streamed, call_id,
    output::{Buffer, OutputLimits},
};
use crate::{
    harness::{Settings, agent::Agent, files::Recording},
    registry::Selected,
    task::{TaskError, panic_text},
    world::millis,
};

/// How a tool came to its end.
enum Came {
    /// By itself.
    Result(ToolResult),
    /// It broke.
    Panic(String),
    /// It did not stop after its deadline had passed.
    TooLate,
}

impl Running<'_> {
    /// Runs the tool. What ends it without a mark on its record is the session's closing: whoever opens the session goes by
    /// the replay contract.
    pub(super) async fn run(
        &self,
        intent: &Intent,
        tool: &AnyTool,
        (agent, selected): (&Agent, &Selected),
    ) -> Result<Ended, TaskError> {
        let env = match (self.shared.env)(agent) {
            Ok(env) => self.recorded(env, (intent, agent)),
            Err(error) => return Ok(Ended::new(Outcome::Error, error.to_string())),
        };
        let cx = self.cx;
        if cx.cancel().is_cancelled() {
            return Err(Error::closed("the call was told to stop before it began").into());
        }
        let buffer = Buffer::new(self.limits());
        let call = self.context(env, &buffer);
        let deadline = self.deadline(tool);
        cx.enter();
        let begun = cx.now();
        let code = AssertUnwindSafe(tool.run(&call, &intent.arguments)).catch_unwind();
        let code = code
            .map(|done| done.map_or_else(|panic| Came::Panic(panic_text(&*panic).to_owned()), Came::Result));
        let (came, is_late) = self.supervise(Box::pin(code), (&call.cancel, deadline), &buffer).await?;
        let mut ended = self.ended(intent, came, is_late);
        ended.wall_ms = millis(cx.now().since(begun));
        if ended.outcome == Outcome::Cancelled && cx.is_closing() && cx.abort_reason().is_none() {
            return Err(Error::closed("the session closed while the call ran").into());
        }
        let kept = self.keep(ended, (&buffer, tool.contract().keep)).await?;
        Ok(self.after(intent, kept, selected).await)
    }

    /// The same environment; what the call does to files is recorded before it is done.
    fn recorded(&self, inner: Env, (intent, agent): (&Intent, &Agent)) -> Env {
        let (cx, seen) = (self.cx.clone(), self.shared.seen.clone());
        let directory = agent.directory.clone();
        let writes = intent.acts.iter().filter_map(|act| match act {
            Act::Write(path) => Some(path.clone()),
            _ => None,
        });
        // A tool that declares nothing is judged by its name, and may write where it likes.
        let writes = (!intent.acts.is_empty()).then(|| writes.collect());
        Env::new(Layered(Recording { inner, cx, seen, writes, directory, count: AtomicU32::new(0) }))
    }

    /// How long a call of a tool may run.
    fn deadline(&self, tool: &AnyTool) -> Option<Duration> {
        let usual = || self.shared.settings().call_ms.map(Duration::from_millis);
        tool.contract().deadline.or_else(usual)
    }

    /// Returns when a call of a tool has run for as long as it may.
    pub(super) async fn deadline_of(&self, tool: &AnyTool) {
        match self.deadline(tool) {
            Some(deadline) => self.shared.opener.world.clock.sleep(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// How much of its output is kept.
    pub(super) fn limits(&self) -> OutputLimits {
        OutputLimits::of(&self.shared.settings())
    }

    pub(super) fn context(&self, env: Env, buffer: &Buffer) -> CallContext {
        let buffer = buffer.clone();
        CallContext {
            call: call_id(self.cx.id()),
            conversation: self.cx.conversation(),
            key: format!("{}/{}", self.cx.session_id(), self.cx.id()),
            cancel: CancelToken::new(),
            env,
            output: Output::new(move |bytes| buffer.push(bytes)),
        }
    }

    /// Runs a tool's code until it ends, shows what it writes, and tells it to stop when it should. Gives whether its
    /// deadline has passed.
    async fn supervise(
        &self,
        mut code: BoxFuture<'_, Came>,
        (cancel, deadline): (&CancelToken, Option<Duration>),
        buffer: &Buffer,
    ) -> Result<(Came, bool)> {
        let clock = &self.shared.opener.world.clock;
        let grace = Duration::from_millis(self.shared.settings().grace_ms);
        let mut late: BoxFuture<'_, ()> = match deadline {
            Some(deadline) => clock.sleep(deadline),
            None => Box::pin(std::future::pending()),
        };
        let mut is_late = false;
        let mut show = Show::new(self, buffer);
        let came = loop {
            tokio::select! {
                biased;
                came = &mut code => break came,
                () = self.cx.cancel().cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                () = &mut late => {
                    if std::mem::replace(&mut is_late, true) {
                        break Came::TooLate;
                    }
                    cancel.cancel();
                    late = clock.sleep(grace);
                }
                shown = show.advance() => shown?,
            }
        };
        show.finish().await?;
        Ok((came, is_late))
    }

    fn ended(&self, intent: &Intent, came: Came, is_late: bool) -> Ended {
        match came {
            Came::TooLate => {
                Ended::new(Outcome::TimedOut, "The call took longer than it may, and did not stop.")
            }
            Came::Panic(why) => Ended::new(Outcome::Error, format!("The tool {} broke: {why}", intent.name)),
            Came::Result(Err(error)) if is_late => {
                Ended::new(Outcome::TimedOut, format!("The call took longer than it may: {error}"))
            }
            Came::Result(Ok(output)) => Ended::ok(output),
            Came::Result(Err(error)) if self.cx.cancel().is_cancelled() => {
                Ended::new(Outcome::Cancelled, error.to_string())
            }
            Came::Result(Err(error)) => {
                let (text, outcome) = error.into_parts();
                Ended::new(outcome, text)
            }
        }
    }

    /// The same end with its text, behind all that was written, within the limits. What does not fit is kept for people.
    pub(super) async fn keep(
        &self,
        mut ended: Ended,
        (buffer, keep): (&Buffer, everturn_core::tool::Keep),
    ) -> Result<Ended> {
        buffer.push_last(&ended.text);
        let kept = buffer.kept(keep);
        (ended.text, ended.truncated) = (kept.text, kept.truncated);
        if !ended.truncated || self.shared.settings().output_quota == 0 {
            return Ok(ended);
        }
        let stored = async {
            let mut writer = self.cx.session().write_blob();
            writer.write(&buffer.whole()).await?;
            writer.finish().await
        };
        match stored.await {
            Ok(blob) => {
                let end = ended.text.trim_end_matches('\n').len();
                ended.text.truncate(end);
                ended.text += &format!("\n(the whole output is kept as {blob})");
                ended.whole = Some(blob);
            }
            // The result matters more than what did not fit into it.
            Err(error) => tracing::warn!(call = %self.cx.id(), %error, "an output is not kept whole"),
        }
        Ok(ended)
    }

    /// The same end, as hooks leave it.
    pub(super) async fn after(&self, intent: &Intent, mut ended: Ended, selected: &Selected) -> Ended {
        let call = self.view(intent);
        for hook in selected.after() {
            let text = ended.text.clone();
            let said = AssertUnwindSafe(hook.after(&call, &ended.outcome, text)).catch_unwind().await;
            match said {
                Ok(text) => ended.text = text,
                Err(panic) => {
                    let why = panic_text(&*panic);
                    tracing::error!(call = %call.call, why, "a hook broke; the result stays as it was");
                }
            }
        }
        ended
    }

    /// What the call has shown of its output, in whichever run.
    pub(super) async fn streamed(&self) -> Result<String> {
        let shown = self.cx.snapshot::<Streamed>(self.cx.id()).await?;
        Ok(shown.unwrap_or_default().text)
    }
}

impl OutputLimits {
    fn of(settings: &Settings) -> Self {
        let Settings { output_max, output_lines_max, output_quota, .. } = *settings;
        Self { bytes: output_max, lines: output_lines_max, quota: output_quota.max(output_max) }
    }
}

/// Commits what a call writes, one commit at a time, no closer together than the host allows.
struct Show<'a> {
    call: &'a Running<'a>,
    buffer: &'a Buffer,
    /// Whether something was written that was not shown: whoever waits may be given up meanwhile.
    has_news: bool,
    last: Option<Timestamp>,
    under_way: Option<BoxFuture<'a, Result<Seq>>>,
}

impl<'a> Show<'a> {
    fn new(call: &'a Running<'a>, buffer: &'a Buffer) -> Self {
        Self { call, buffer, has_news: false, last: None, under_way: None }
    }

    /// Does what is next; pending while there is nothing to do. It can be given up at any time, and loses nothing.
    async fn advance(&mut self) -> Result<()> {
        if self.under_way.is_some() {
            return self.settle().await;
        }
        if !self.has_news {
            self.buffer.news().await;
            self.has_news = true;
        }
        let world = &self.call.shared.opener.world;
        let least = Duration::from_millis(self.call.shared.settings().flush_ms);
        if let Some(since) =
            self.last.map(|last| world.clock.now().since(last)).filter(|since| *since < least)
        {
            world.clock.sleep(least - since).await;
        }
        self.last = Some(world.clock.now());
        self.has_news = false;
        let Some(operation) = self.buffer.show() else { return Ok(()) };
        let (session, task) = (self.call.cx.session().clone(), self.call.cx.id());
        self.under_way = Some(Box::pin(async move {
            let mut tx = session.begin_last().await?.relaxed();
            let is_new = tx.snapshot::<Streamed>(task).await?.is_none();
            let value = serde_json::json!({ "text": "" });
            let empty = Operation::Replace { value };
            let operations = is_new.then_some(empty).into_iter().chain([operation]).collect();
            tx.apply::<Streamed>(task, operations).await?;
            tx.commit().await
        }));
        Ok(())
    }

    /// Waits for the commit under way. What storage refuses for now is not shown; the result has it.
    async fn settle(&mut self) -> Result<()> {
        let Some(commit) = &mut self.under_way else { return Ok(()) };
        let result = commit.await;
        self.under_way = None;
        match result {
            Err(error) if matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Closed { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    async fn finish(mut self) -> Result<()> {
        self.settle().await
    }
}
