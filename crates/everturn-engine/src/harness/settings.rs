//! What the host sets.

use everturn_core::{Error, Result, budget::Budget, model::ModelRef};

use super::QueueMode;

/// What the host sets, read live and never stored: but for how much runs at once, which is read when the harness opens.
///
/// ```
/// use everturn_engine::Settings;
/// assert_eq!(Settings::default().flush_ms, 25);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The extensions that a conversation has without a word of its agent; all that are installed, without a list.
    pub extensions: Option<Vec<String>>,
    /// The shortest time between two commits of partial output, in milliseconds.
    pub flush_ms: u64,
    /// After how many steps a turn ends.
    pub steps_max: u32,
    /// How often a request that failed in passing is sent again.
    pub retries_max: u32,
    /// Which models are asked, in order, when the agent's own cannot be.
    pub fallbacks: Vec<ModelRef>,
    /// How many requests may be out at one endpoint at once, from all sessions; read when it is asked first.
    pub requests_max: usize,
    /// How many steers are placed at once.
    pub steers: QueueMode,
    /// How many inputs that waited for the end of a turn begin the next one together.
    pub follow_ups: QueueMode,
    /// Whether the calls of a response run together.
    pub calls: CallOrder,
    /// How long a call may run whose tool does not say so, in milliseconds; for ever, without a word.
    pub call_ms: Option<u64>,
    /// How long an approval may be decided, in milliseconds; for ever, without a word.
    pub approval_ms: Option<u64>,
    /// How many of the newest tokens stay as they are when a context is made shorter.
    pub keep_recent: u64,
    /// From which part of what a request may have a context is made shorter ahead of need, in per cent.
    pub compact_ahead: u32,
    /// Who writes summaries; the agent's own model, without one.
    pub summary_model: Option<ModelRef>,
    /// How much a session may spend.
    pub session_budget: Budget,
    /// How deep sub-agents may start others; the first is 1 deep.
    pub depth_max: u32,
    /// How many sub-agents may work for a conversation at once.
    pub children_max: u32,
    /// How many sub-agents a session may have in all.
    pub children_total_max: u32,
    /// How much of a call's output the model is told, in bytes.
    pub output_max: usize,
    /// How much of it, in lines.
    pub output_lines_max: usize,
    /// How much of an output that is longer is kept for people, in bytes; none of it at 0.
    pub output_quota: usize,
    /// How long code that was told to stop may take to end by itself, in milliseconds.
    pub grace_ms: u64,
    /// How long closing a session may take, in milliseconds.
    pub close_ms: u64,
    /// How many steps of tasks run at once, in all sessions: a process usually has one harness.
    pub running_max: usize,
    /// How many steps of tasks run at once in a session.
    pub session_running_max: usize,
    /// Whether spans say what was asked, answered and given: whoever collects them reads it all then.
    pub trace_content: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            extensions: None,
            flush_ms: 25,
            steps_max: 50,
            retries_max: 3,
            fallbacks: Vec::new(),
            requests_max: 64,
            steers: QueueMode::All,
            follow_ups: QueueMode::One,
            calls: CallOrder::Parallel,
            call_ms: None,
            approval_ms: None,
            keep_recent: 20_000,
            compact_ahead: 80,
            summary_model: None,
            session_budget: Budget::default(),
            depth_max: 3,
            children_max: 8,
            children_total_max: 256,
            output_max: 50 << 10,
            output_lines_max: 2_000,
            output_quota: 16 << 20,
            grace_ms: 2_000,
            close_ms: 10_000,
            running_max: 4_096,
            session_running_max: 64,
            trace_content: false,
        }
    }
}

/// Whether the calls of a response run together.
///
/// ```
/// use everturn_engine::{CallOrder, Settings};
/// assert_eq!(Settings::default().calls, CallOrder::Parallel);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// Together, unless a called tool says that it must not be.
    Parallel,
    /// One after the other.
    Sequential,
}

impl Settings {
    pub(super) fn check(&self, attempted: &str) -> Result<()> {
        let problem = match self {
            Self { steps_max: 0, .. } => "steps_max is 0, a turn takes at least one step",
            Self { requests_max: 0, .. } => "requests_max is 0, no model could ever be asked",
            Self { running_max: 0, .. } | Self { session_running_max: 0, .. } => {
                "running_max or session_running_max is 0, nothing would ever run"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("{attempted}: {problem}")))
    }
}
