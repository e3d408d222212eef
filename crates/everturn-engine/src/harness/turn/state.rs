//! Where a turn stands, and what comes next.

use everturn_core::{
    id::{EntryId, Epoch, SubmissionId, TaskId},
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
    /// Why the turn was told to stop; from the task's record.
    #[serde(skip)]
    pub(crate) cancelled: Option<String>,
    /// How many calls of the response have not ended; from their records.
    #[serde(skip)]
    pub(crate) open: usize,
    /// After how many steps the turn ends; from the host's settings.
    #[serde(skip)]
    pub(crate) steps_max: u32,
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
    /// The epoch of the owner that may have sent it. An owner of a later epoch counts a new attempt.
    pub(crate) epoch: Epoch,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    /// In one word: a fault's class, a stop, or one of ours (`no_model`, `error`).
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Reason {
    pub(crate) fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
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
    Wait,
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
        Phase::Responded { stop, reply } => responded(*stop, *reply),
        Phase::Calling { .. } if state.open > 0 => Next::Wait,
        // An answer that is there is kept; everything else yields to a cancellation.
        _ if state.cancelled.is_some() => {
            Next::End(Ending::Cancelled { reason: state.cancelled.clone().unwrap_or_default() })
        }
        Phase::Pinned(_) => Next::Request,
        Phase::Asked | Phase::Calling { .. } if state.step >= state.steps_max => {
            Next::End(Ending::MaxSteps { steps: state.step })
        }
        Phase::Asked | Phase::Calling { .. } => Next::Prepare,
    }
}

fn responded(stop: Stop, reply: EntryId) -> Next {
    let failed = |kind: &str, message: &str| Next::End(Ending::Failed(Reason::new(kind, message)));
    match stop {
        Stop::Answer => Next::End(Ending::Answered { reply }),
        Stop::Length => failed("length", "the answer was cut at the model's output limit"),
        Stop::Refused => failed("refused", "the model refused to answer"),
        Stop::Filtered => failed("filtered", "the provider filtered the answer"),
        Stop::Calls => failed("malformed", "the model asked for calls and named none"),
        // A paused model goes on when the turn is sent back.
        Stop::Paused => Next::Prepare,
    }
}
