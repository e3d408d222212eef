//! Where a turn stands, and what comes next.

use everturn_core::{
    id::{EntryId, SubmissionId, TaskId},
    json::RawJson,
    message::{CallResult, Stop},
    model::{Fault, FaultClass, ModelRef, Thinking},
    usage::Total,
};
use serde::{Deserialize, Serialize};

use super::standstill::Repeats;
use crate::harness::input::TurnOptions;

/// What a turn was given, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnInput {
    /// The submission that it answers.
    pub(crate) submission: SubmissionId,
    /// The entry that holds the input.
    pub(crate) first: EntryId,
    /// What it goes by beside the agent.
    #[serde(default, skip_serializing_if = "TurnOptions::is_default")]
    pub(crate) options: TurnOptions,
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
    /// Whether what is prepared next is another attempt at the same step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_again: bool,
    /// How often it came to where it must not come without end.
    #[serde(default, skip_serializing_if = "Counts::is_zero")]
    pub(crate) counts: Counts,
    /// How often the same calls gave the same results, one after the other.
    #[serde(default, skip_serializing_if = "Repeats::is_none")]
    pub(crate) repeats: Repeats,
    /// Whether the turn was told to stop; from the task's record.
    #[serde(skip)]
    pub(crate) is_aborted: bool,
    /// How many calls of the response, or how much other work that is waited for, has not ended; from the records.
    #[serde(skip)]
    pub(crate) open: usize,
    /// What the calls of the response asked for; from their results.
    #[serde(skip)]
    pub(crate) asked: Asked,
    /// What the host allows; from its settings.
    #[serde(skip)]
    pub(crate) limits: Limits,
}

/// How often a turn came to where it must not come without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Attempts at this step that failed and were tried again.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) retries: u32,
    /// Which of the fallback models is asked; 0 is the agent's own.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) fallback: u32,
    /// Compactions of this step, because the request did not fit.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) compactions: u32,
    /// Epochs of this step, because signed items did not fit what was sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) epochs: u32,
    /// Answers that a gate refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) refusals: u32,
    /// Answers that did not fit what was asked for, one after the other.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) repairs: u32,
    /// Attempts that were cut off by the end of their process.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) cuts: u32,
    /// Calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) calls: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Counts {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// What the host allows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) steps_max: u32,
    pub(crate) retries_max: u32,
    /// How many models may be asked when the agent's own cannot be.
    pub(crate) fallbacks: u32,
    pub(crate) refusals_max: u32,
    pub(crate) repairs_max: u32,
    /// After how many repetitions the model is told.
    pub(crate) notice_at: u32,
    /// After how many repetitions the turn ends.
    pub(crate) standstill_at: u32,
    /// How many gates an answer has to pass.
    pub(crate) gates: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: u32::MAX,
            retries_max: 3,
            fallbacks: 0,
            refusals_max: 3,
            repairs_max: 2,
            notice_at: 3,
            standstill_at: 6,
            gates: 0,
        }
    }
}

/// What the results of a response asked for, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Every one of them asked to end the turn.
    pub(crate) end_turn: bool,
    /// One of them hands off, with this text.
    pub(crate) hand_off: Option<String>,
}

impl Asked {
    /// What results ask for, all together.
    pub(crate) fn of<'a>(results: impl Iterator<Item = Option<&'a CallResult>>) -> Self {
        let mut results = results.peekable();
        let mut asked = Self { end_turn: results.peek().is_some(), hand_off: None };
        for result in results {
            let control = result.map(|result| &result.control);
            asked.end_turn &= control.is_some_and(|control| control.end_turn);
            asked.hand_off = asked.hand_off.or_else(|| control.and_then(|control| control.hand_off.clone()));
        }
        asked
    }
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
            is_again: false,
            counts: Counts::default(),
            repeats: Repeats::default(),
            is_aborted: false,
            open: 0,
            asked: Asked::default(),
            limits: Limits::default(),
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
    /// A request is pinned, and is sent once the turn has waited: it is not out.
    Waiting(Pinned),
    /// The request does not fit: this task makes the context shorter.
    Compacting {
        task: TaskId,
        /// Whether the request was sent, so that the next one is another attempt at the same step.
        #[serde(default)]
        was_sent: bool,
    },
    /// The model has responded, without calls.
    Responded {
        stop: Stop,
        /// The entry of the response.
        reply: EntryId,
        /// What the gates and what was asked for say of it.
        #[serde(default, skip_serializing_if = "Judged::is_open")]
        judged: Judged,
    },
    /// The model has asked for these calls.
    Calling { calls: Vec<TaskId> },
    /// The request failed.
    Faulted {
        fault: Fault,
        /// The request; the same may be sent again.
        pinned: Pinned,
    },
    /// The attempt was cut off because the turn was told to stop; its account is stored.
    Cut,
    /// A budget is used up.
    Spent {
        /// Which.
        limit: String,
    },
    /// The turn cannot go on.
    Failed(Reason),
}

/// What is known of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judged {
    /// The gates have not seen it.
    #[default]
    Open,
    /// It is not what was asked for: this is wrong with it.
    Invalid(String),
    /// A gate refused it, with this message to the model.
    Refused(String),
    /// It stands.
    Passed,
}

impl Judged {
    fn is_open(&self) -> bool {
        *self == Self::Open
    }
}

/// A request as it was decided. It can be sent again and is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pinned {
    pub(crate) model: ModelRef,
    pub(crate) thinking: Thinking,
    /// The last entry that the request carries.
    pub(crate) cutoff: EntryId,
    /// The schema that the answer has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<RawJson>,
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
    /// Resolve the agent, place what was said meanwhile, and pin the next request.
    Prepare,
    /// Send the pinned request.
    Request,
    /// Send the same request again, after a while.
    Retry { fault: Fault, pinned: Pinned },
    /// Ask the next of the fallback models.
    FallBack,
    /// Begin an epoch, so that signed items are dropped, and prepare again.
    Rebind,
    /// Make the context shorter, and prepare again.
    Compact,
    /// Wait for tasks to end: calls, or a compaction.
    Wait { on: Vec<TaskId> },
    /// Ask the gates about the answer.
    Gate { reply: EntryId },
    /// Tell the model this, and prepare again.
    SendOn { message: String },
    /// Begin nothing: the turn was told to stop, and ends in order.
    Stop,
    /// The turn is over.
    End(Ending),
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    Answered {
        reply: EntryId,
    },
    /// Its calls ended it without another answer.
    Ended,
    HandedOff {
        text: String,
    },
    Cancelled {
        reason: String,
    },
    MaxSteps {
        steps: u32,
    },
    Standstill {
        repeats: u32,
    },
    OutOfBudget {
        limit: String,
    },
    Failed(Reason),
}

/// What comes next: the only place that branches.
pub(crate) fn next(state: &TurnState) -> Next {
    match &state.phase {
        Phase::Failed(reason) => Next::End(Ending::Failed(reason.clone())),
        Phase::Spent { limit } => Next::End(Ending::OutOfBudget { limit: limit.clone() }),
        // An answer that stands is kept; everything below yields to being told to stop.
        Phase::Responded { stop: Stop::Answer, reply, judged } if stands(state, judged) => {
            Next::End(Ending::Answered { reply: *reply })
        }
        Phase::Responded { stop: Stop::Answer, .. } if state.is_aborted => Next::Stop,
        Phase::Responded { stop: Stop::Answer, reply, judged } => judged_answer(state, *reply, judged),
        Phase::Responded { stop, .. } if *stop != Stop::Paused => Next::End(Ending::Failed(stopped(*stop))),
        // What was begun ends first, each by itself.
        Phase::Calling { calls } if state.open > 0 => Next::Wait { on: calls.clone() },
        Phase::Compacting { task, .. } if state.open > 0 => Next::Wait { on: vec![*task] },
        _ if state.is_aborted => Next::Stop,
        Phase::Cut => Next::Stop,
        Phase::Pinned(_) | Phase::Waiting(_) => Next::Request,
        Phase::Faulted { fault, pinned } => faulted(state, fault, pinned),
        Phase::Calling { .. } if state.asked.hand_off.is_some() => {
            Next::End(Ending::HandedOff { text: state.asked.hand_off.clone().unwrap_or_default() })
        }
        Phase::Calling { .. } if state.asked.end_turn => Next::End(Ending::Ended),
        Phase::Calling { .. } if state.repeats.count >= state.limits.standstill_at => {
            Next::End(Ending::Standstill { repeats: state.repeats.count })
        }
        Phase::Asked | Phase::Calling { .. } | Phase::Responded { .. } | Phase::Compacting { .. } => {
            on_to_request(state)
        }
    }
}

/// Whether nobody has anything to say of an answer any more.
fn stands(state: &TurnState, judged: &Judged) -> bool {
    *judged == Judged::Passed || (*judged == Judged::Open && state.limits.gates == 0)
}

/// The model is asked again, unless it was asked as often as it may be.
fn on_to_request(state: &TurnState) -> Next {
    match state.step >= state.limits.steps_max {
        true => Next::End(Ending::MaxSteps { steps: state.step }),
        false => Next::Prepare,
    }
}

/// What becomes of an answer.
fn judged_answer(state: &TurnState, reply: EntryId, judged: &Judged) -> Next {
    let is_last_step = state.step >= state.limits.steps_max;
    match judged {
        Judged::Invalid(problem) if state.counts.repairs >= state.limits.repairs_max || is_last_step => {
            let message = format!("no answer fits what was asked for: {problem}");
            Next::End(Ending::Failed(Reason::new("invalid_answer", message)))
        }
        Judged::Invalid(problem) => Next::SendOn {
            message: format!(
                "This is not what was asked for: {problem}. Answer again, with the JSON value alone."
            ),
        },
        // A gate may send a turn on so often and no longer; then the answer stands.
        Judged::Refused(_) if state.counts.refusals >= state.limits.refusals_max || is_last_step => {
            Next::End(Ending::Answered { reply })
        }
        Judged::Refused(message) => Next::SendOn { message: message.clone() },
        Judged::Open | Judged::Passed => Next::Gate { reply },
    }
}

/// What becomes of a turn whose request failed.
fn faulted(state: &TurnState, fault: &Fault, pinned: &Pinned) -> Next {
    let Counts { retries, fallback, compactions, epochs, .. } = state.counts;
    match fault.class {
        FaultClass::TooLong if compactions == 0 => Next::Compact,
        FaultClass::TooLong => Next::End(Ending::Failed(Reason::new(IRREDUCIBLE, &fault.message))),
        FaultClass::Binding if epochs == 0 => Next::Rebind,
        _ if fault.may_retry() && retries < state.limits.retries_max => {
            Next::Retry { fault: fault.clone(), pinned: pinned.clone() }
        }
        _ if falls_back(fault) && fallback < state.limits.fallbacks => Next::FallBack,
        _ => Next::End(Ending::Failed(Reason::fault(fault))),
    }
}

/// The kind of a reason that the context does not fit the model, whatever is left out.
pub(crate) const IRREDUCIBLE: &str = "context_irreducible";

/// Whether another model may do what this one could not.
fn falls_back(fault: &Fault) -> bool {
    use FaultClass::{Auth, Malformed, Overloaded, Quota, RateLimited, Transient};
    matches!(fault.class, Transient | RateLimited | Overloaded | Quota | Auth | Malformed)
}

/// Why a turn fails whose model stopped without calls and without an answer.
fn stopped(stop: Stop) -> Reason {
    match stop {
        Stop::Length => Reason::new("length", "the answer was cut at the model's output limit"),
        Stop::Refused => Reason::new("refused", "the model refused to answer"),
        Stop::Filtered => Reason::new("filtered", "the provider filtered the answer"),
        Stop::Calls => Reason::new("malformed", "the model asked for calls and named none"),
        Stop::Paused | Stop::Answer => Reason::new("paused", "the model paused"),
    }
}
