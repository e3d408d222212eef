//! What a person sees: text that is clean, styled where the terminal can show it.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
};

use everturn::{
    EventKind, TurnEnd,
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clean::{self, Cleaner},
    clock::Timestamp,
    json::RawJson,
    message::{CallId, Outcome},
    usage::Total,
};

use crate::{config::variable, exit::Failure, question::said};

/// Standard output as a person reads it.
pub(crate) struct Screen {
    is_styled: bool,
    cleaner: Cleaner,
    /// Whether the cursor stands behind text.
    is_in_line: bool,
    /// Whether the reader has gone.
    is_gone: bool,
    /// The calls under way, by what they were made as.
    calls: HashMap<CallId, String>,
    /// The first fault of writing. The work goes on all the same: it is committed.
    lost: Option<io::Error>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let is_styled = io::stdout().is_terminal() && variable("NO_COLOR").is_none();
        Self {
            is_styled,
            cleaner: Cleaner::default(),
            is_in_line: false,
            is_gone: false,
            calls: HashMap::new(),
            lost: None,
        }
    }

    /// Whether anyone watches.
    pub(crate) fn is_watched() -> bool {
        io::stdout().is_terminal()
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &EventKind) {
        match event {
            EventKind::Text { delta, .. } => self.stream(delta),
            EventKind::AttemptDiscarded { .. } => self.note("(that answer was cut off)"),
            EventKind::CallProposed { call: id, name, arguments } => {
                self.calls.insert(id.clone(), name.clone());
                self.note(&call(name, arguments));
            }
            EventKind::CallStarted { call } => {
                let name = self.calls.get(call).map_or(call.0.as_str(), String::as_str);
                let text = format!("  {name} runs");
                self.note(&text);
            }
            EventKind::CallEnded { call, outcome, text } => {
                self.calls.remove(call);
                if *outcome != Outcome::Ok {
                    self.note(&failed(outcome, text));
                }
            }
            EventKind::ApprovalAsked { approval } => self.note(&asks(approval)),
            EventKind::ApprovalDecided { approval } => self.note(&format!("  {}", decided(approval))),
            EventKind::Steered { submission, .. } => self.note(&format!("(steered: input {submission})")),
            EventKind::Retry { attempt, until, .. } => {
                self.note(&format!("(attempt {attempt} at {} UTC)", moment(*until)));
            }
            EventKind::Waiting { until: Some(until), .. } => {
                self.note(&format!("(waiting until {} UTC: the endpoint asked for it)", moment(*until)));
            }
            EventKind::Waiting { until: None, .. } => self.note("(waiting: the endpoint is busy)"),
            EventKind::Compaction { .. } => self.note("(the context was made shorter)"),
            EventKind::Resync => self.note("(what was shown may not have happened; from here on it did)"),
            EventKind::TurnEnded(record) => {
                self.end_line();
                self.calls.clear();
                if record.outcome != TurnEnd::Answered {
                    self.note(&format!("turn {} {}", record.turn, ended(&record.outcome)));
                }
            }
            // What it cost and where it stands is asked for; a call that went well speaks through the answer.
            EventKind::TurnStarted { .. }
            | EventKind::RequestStarted { .. }
            | EventKind::Thinking { .. }
            | EventKind::Output { .. }
            | EventKind::Epoch { .. }
            | EventKind::Entry { .. }
            | EventKind::Usage { .. } => {}
        }
    }

    fn stream(&mut self, delta: &str) {
        let text = self.cleaner.push(delta);
        self.write(&text);
    }

    /// Ends the line that was streamed, if there is one.
    pub(crate) fn end_line(&mut self) {
        let rest = std::mem::take(&mut self.cleaner).finish();
        self.write(&rest);
        if self.is_in_line {
            self.write("\n");
        }
    }

    /// A line beside the answer.
    pub(crate) fn note(&mut self, text: &str) {
        self.end_line();
        let text = clean::line(text);
        let line = if self.is_styled { format!("\x1b[2m{text}\x1b[0m\n") } else { format!("{text}\n") };
        self.write(&line);
    }

    /// Text as it stands, cleaned.
    pub(crate) fn text(&mut self, text: &str) {
        self.stream(text);
        self.end_line();
    }

    /// A value for programs: as it is where no terminal reads it, cleaned where one does.
    pub(crate) fn exact(&mut self, text: &str) {
        match Self::is_watched() {
            true => self.stream(text),
            false => self.write(text),
        }
        self.end_line();
    }

    /// A line that leads in what follows.
    pub(crate) fn heading(&mut self, text: &str) {
        self.end_line();
        let text = clean::line(text);
        let line = if self.is_styled { format!("\x1b[1m{text}\x1b[0m\n") } else { format!("{text}\n") };
        self.write(&line);
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let plain = text.strip_suffix("\x1b[0m\n").map_or(text, |_| "\n");
        self.is_in_line = !plain.ends_with('\n');
        match try_put(text) {
            Ok(is_read) => self.is_gone |= !is_read,
            Err(fault) => _ = self.lost.get_or_insert(fault),
        }
    }

    /// Whether the reader has gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether all of it was written.
    pub(crate) fn delivered(self) -> Result<(), Failure> {
        self.lost.map_or(Ok(()), |fault| Err(Failure::output(&fault)))
    }
}

/// Says one thing, and proves that it was written.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut screen = Screen::new();
    screen.text(text);
    screen.delivered()
}

/// Writes to standard output, and gives whether anyone reads it. A reader that has gone (a closed pipe) wanted no more, and
/// that is no fault.
pub(crate) fn try_put(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// A call in one line.
pub(crate) fn call(name: &str, arguments: &RawJson) -> String {
    let short: String = arguments.get().chars().take(100).collect();
    let more = if short.len() < arguments.get().len() { "…" } else { "" };
    format!("· {name} {short}{more}")
}

/// A question in one line, with how it is answered.
pub(crate) fn asks(approval: &ApprovalRecord) -> String {
    let id = approval.id;
    let what = match &approval.question {
        Question::Call { tool, arguments, .. } => format!("may this run? {}", call(tool, arguments)),
        Question::Unknown { tool, arguments } => format!("has this run? {}", call(tool, arguments)),
        Question::Person { text, .. } => text.clone(),
    };
    format!("approval {id}: {what} (`everturn approve {id}` answers)")
}

/// What has become of a question, in words.
pub(crate) fn decided(approval: &ApprovalRecord) -> String {
    match &approval.state {
        ApprovalState::Open => "nobody has decided".into(),
        ApprovalState::Void { reason, .. } => format!("approval {} is void: {reason}", approval.id),
        ApprovalState::Decided { decision, actor, .. } => {
            let what = match decision {
                Decision::Deny { reason } => format!("declined: {reason}"),
                Decision::Answer { text } => format!("answered: {text}"),
                decision => said(decision),
            };
            format!("approval {}, by {actor}: {what}", approval.id)
        }
    }
}

/// How a turn ended, in words.
pub(crate) fn ended(end: &TurnEnd) -> String {
    match end {
        TurnEnd::HandedOff => "handed off: the conversation begins anew".into(),
        TurnEnd::Cancelled { reason } if reason != end.word() => format!("cancelled ({reason})"),
        TurnEnd::Failed { kind, message } => format!("failed ({kind}: {message})"),
        TurnEnd::OutOfBudget { limit } => format!("out of budget ({limit})"),
        TurnEnd::Standstill { repeats } => {
            format!("standstill (the same calls with the same results, {repeats} times in a row)")
        }
        other => other.word().into(),
    }
}

fn failed(outcome: &Outcome, text: &str) -> String {
    let first: String = text.lines().next().unwrap_or_default().chars().take(160).collect();
    format!("  {}: {first}", outcome.word())
}

/// What requests cost, in words.
pub(crate) fn cost(total: &Total) -> String {
    let count = |count: Option<u64>| count.map_or("?".into(), |count| count.to_string());
    let plural = if total.requests == 1 { "" } else { "s" };
    let (input, output) = (count(total.usage.input), count(total.usage.output));
    let unknown = match total.unknown {
        0 => String::new(),
        unknown => format!(" (what {unknown} of them cost is unknown)"),
    };
    format!("{} request{plural}{unknown}, {input} tokens in, {output} out", total.requests)
}

/// A moment as a person reads it, UTC.
pub(crate) fn moment(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.0)
        .map_or_else(|_| time.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
