//! Where a turn stands, and what comes next.

use everturn_core::{
    id::{EntryId, SubmissionId, TaskId},
    message::Stop,
    model::{Fault, ModelRef, Thinking},
    usage::Total,
};
use serde::{Deserialize, Serialize};

/// What a turn was given, once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnInput {
    /// The submission that it answers.
    pub(crate) submission: SubmissionId,
    /// The entry that holds the input.
    pub(crate) first: EntryId,
}

/// Where a turn stands: its checkpoint, and what a decision must know beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnState {
    pub(crate) phase: Phase,
    /// Which model response this is about, from 1; 0 before the first.
    pub(crate) step: u32,
    /// Which attempt at it, from 1.
    pub(crate) attempt: u32,
    /// The turn's newest entry.
    pub(crate) last: EntryId,
    /// What the turn's requests cost so far.
    pub(crate) total: Total,
    /// Whether the turn was told to stop; from the task's record.
    #[serde(skip)]
    pub(crate) is_aborted: bool,
    /// How many calls of the response have not ended; from their records.
    #[serde(skip)]
    pub(crate) open: usize,
    /// After how many steps the turn ends; from the host's settings.
    #[serde(skip)]
    pub(crate) steps_max: u32,
}

impl TurnState {
    /// A turn whose input is its only entry.
    pub(crate) fn begin(first: EntryId) -> Self {
        Self {
            phase: Phase::Asked,
            step: 0,
            attempt: 0,
            last: first,
            total: Total::default(),
            is_aborted: false,
            open: 0,
            steps_max: u32::MAX,
        }
    }
}

/// What the transcript's tail says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Inputs were placed; nothing was requested.
    Asked,
    /// A request is pinned and may be out.
    Pinned(Pinned),
    /// The model has responded, without calls.
    Responded {
        stop: Stop,
        /// The entry of the response.
        reply: EntryId,
    },
    /// The model has asked for these calls.
    Calling { calls: Vec<TaskId> },
    /// The attempt was cut off because the turn was told to stop; its account is stored.
    Cut,
    /// The turn cannot go on.
    Failed(Reason),
}

/// A request as it was decided. It can be sent again and is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pinned {
    pub(crate) model: ModelRef,
    pub(crate) thinking: Thinking,
    /// The last entry that the request carries.
    pub(crate) cutoff: EntryId,
}

/// The kind of a reason that a panic or an error of ours gave.
pub(crate) const FAULTED: &str = "faulted";

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    /// In one word: a fault's class, a stop, or one of ours (`no_model`, `too_large`, `faulted`).
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Reason {
    pub(crate) fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }

    /// A panic or an error of ours escaped a step.
    pub(crate) fn faulted(message: impl Into<String>) -> Self {
        Self::new(FAULTED, message)
    }

    pub(crate) fn fault(fault: &Fault) -> Self {
        Self::new(fault.class.word(), &fault.message)
    }
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Resolve the agent and pin the next request.
    Prepare,
    /// Send the pinned request.
    Request,
    /// Wait for the calls to end; each is a task of its own.
    Wait { on: Vec<TaskId> },
    /// Begin nothing: the turn was told to stop, and ends in order.
    Stop,
    /// The turn is over.
    End(Ending),
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    Answered { reply: EntryId },
    Cancelled { reason: String },
    MaxSteps { steps: u32 },
    Failed(Reason),
}

/// What comes next: the only place that branches.
pub(crate) fn next(state: &TurnState) -> Next {
    match &state.phase {
        Phase::Failed(reason) => Next::End(Ending::Failed(reason.clone())),
        // An answer that is there is kept; everything below yields to being told to stop.
        Phase::Responded { stop, reply } if *stop != Stop::Paused => Next::End(responded(*stop, *reply)),
        // Calls end first, each by itself.
        Phase::Calling { calls } if state.open > 0 => Next::Wait { on: calls.clone() },
        _ if state.is_aborted => Next::Stop,
        Phase::Cut => Next::Stop,
        Phase::Pinned(_) => Next::Request,
        Phase::Asked | Phase::Calling { .. } | Phase::Responded { .. } if state.step >= state.steps_max => {
            Next::End(Ending::MaxSteps { steps: state.step })
        }
        // A paused model goes on when the turn is sent back.
        Phase::Asked | Phase::Calling { .. } | Phase::Responded { .. } => Next::Prepare,
    }
}

/// How a turn ends whose model stopped without calls.
fn responded(stop: Stop, reply: EntryId) -> Ending {
    let failed = |kind: &str, message: &str| Ending::Failed(Reason::new(kind, message));
    match stop {
        Stop::Answer => Ending::Answered { reply },
        Stop::Length => failed("length", "the answer was cut at the model's output limit"),
        Stop::Refused => failed("refused", "the model refused to answer"),
        Stop::Filtered => failed("filtered", "the provider filtered the answer"),
        Stop::Calls => failed("malformed", "the model asked for calls and named none"),
        Stop::Paused => failed("paused", "the model paused"),
    }
}
