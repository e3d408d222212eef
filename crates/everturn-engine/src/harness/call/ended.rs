//! What a call comes to, and the result that says so.

use everturn_core::{
    Result,
    budget::Limit,
    entry::{Entry, kind},
    id::{BlobId, TaskId},
    json::RawJson,
    message::{CallResult, Message, Outcome},
    task::{TaskFailure, TaskRecord},
    tool::{Control, ToolOutput},
};

use super::{CallTask, Streamed, call_id};
use crate::{
    Transaction,
    harness::{agent::Agent, files::Changes},
    task::Step,
};

/// What a call comes to.
#[derive(Clone, Debug)]
pub(in crate::harness) struct Ended {
    pub(in crate::harness) outcome: Outcome,
    pub(in crate::harness) text: String,
    pub(in crate::harness) truncated: bool,
    pub(in crate::harness) whole: Option<BlobId>,
    /// How much of the text's beginning was shown while it ran, in bytes.
    pub(in crate::harness) shown: usize,
    pub(in crate::harness) details: Option<RawJson>,
    pub(in crate::harness) control: Control,
    /// How long it ran, in milliseconds.
    pub(in crate::harness) wall_ms: u64,
}

impl Ended {
    pub(in crate::harness) fn new(outcome: Outcome, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            outcome,
            text,
            truncated: false,
            whole: None,
            shown: 0,
            details: None,
            control: Control::default(),
            wall_ms: 0,
        }
    }

    /// The end of a call whose tool gave something.
    pub(super) fn ok(output: ToolOutput) -> Self {
        let ToolOutput { text, details, control, usage: _ } = output;
        Self { details, control, ..Self::new(Outcome::Ok, text) }
    }

    /// The end of a call of a tool that is not on offer.
    pub(super) fn unavailable(name: &str) -> Self {
        Self::new(Outcome::Unavailable, format!("There is no tool {name:?}."))
    }

    /// The end of a call that may have been begun, and does no harm when it was.
    pub(super) fn harmless() -> Self {
        let text = "The turn was cancelled. This call may have run; running it again does no harm.";
        Self::new(Outcome::Cancelled, text)
    }

    /// The end of a call that was never begun.
    pub(in crate::harness) fn not_run() -> Self {
        Self::new(Outcome::Cancelled, "The turn was cancelled before this call ran.")
    }

    /// The end of a call that an earlier run may have begun, and that must not be run again.
    pub(super) fn cut_off() -> Self {
        let text = "The process ended while this call may have been running. Its effect may or may not have happened; find \
                    out before you do it again.";
        Self::new(Outcome::Unknown, text)
    }

    /// The end of a call for which no budget has room.
    pub(in crate::harness) fn over_budget(limit: Limit) -> Self {
        Self::new(Outcome::Cancelled, format!("This call did not run: the budget of {limit} is used up."))
    }

    /// The end of a call whose sub-agent was stopped with it.
    pub(super) fn child_stopped() -> Self {
        Self::new(Outcome::Cancelled, "The turn was cancelled, and the sub-agent with it.")
    }

    /// The end of a call that was given up.
    pub(super) fn told_to_stop() -> Self {
        let text = "The call was told to stop and did not. Its effect may or may not have happened.";
        Self::new(Outcome::Unknown, text)
    }

    /// The same end, behind what the call had written until then.
    #[must_use]
    pub(super) fn behind(mut self, written: &str) -> Self {
        if !written.is_empty() {
            self.text = format!("{}\n{}", written.trim_end_matches('\n'), self.text);
        }
        self
    }

    /// Retires what the call has shown while it ran: the end is what is kept, and says how much of it that was.
    pub(super) async fn retire_shown(mut self, tx: &mut Transaction, call: TaskId) -> Result<Self> {
        if let Some(shown) = tx.snapshot::<Streamed>(call).await? {
            let same = shown.text.bytes().zip(self.text.bytes()).take_while(|(shown, kept)| shown == kept);
            self.shown = self.text.floor_char_boundary(same.count());
            tx.retire::<Streamed>(call).await?;
        }
        Ok(self)
    }

    /// A call that gave a result did its work, whatever the result says; one that nobody knows of did not.
    pub(super) fn step(&self, word: String) -> Step<CallTask> {
        match self.outcome {
            Outcome::Unknown => {
                let why = TaskFailure::new("unknown", "nobody can know whether the effect happened");
                Step::fail(why).output(word)
            }
            _ => Step::done(word),
        }
    }

    /// Stages the call's result, as an entry of its turn, and what it asks for beside that.
    pub(super) async fn stage(self, tx: &mut Transaction, call: &TaskRecord) -> Result<()> {
        if let Some(whole) = self.whole {
            tx.refer(whole);
        }
        if !self.control.add_tools.is_empty() {
            let is_child = tx.conversation(call.conversation).await?.owner.is_some();
            let agent = tx.doc::<Agent>(call.conversation).await?;
            for name in &self.control.add_tools {
                if agent.tools.takes(name, is_child) {
                    agent.tools.add(name);
                }
            }
        }
        let result = CallResult {
            truncated: self.truncated,
            whole: self.whole,
            shown: self.shown,
            details: self.details,
            control: self.control,
            ..CallResult::new(call_id(call.id), self.outcome, self.text)
        };
        let mut entry = Entry::new(kind::RESULT).message(Message::Result(result));
        let changes = Changes::of(call);
        if !changes.changes.is_empty() {
            changes.blobs().for_each(|blob| tx.refer(blob));
            entry = entry.data(changes)?;
        }
        tx.append_for(call.owner, call.conversation, entry).map(drop)
    }
}
