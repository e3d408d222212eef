//! What a person sees: text that is clean, styled where the terminal can show it.

use std::io::{self, IsTerminal, Write};

use everturn::{
    EventKind,
    clean::{self, Cleaner},
    clock::Timestamp,
    json::RawJson,
    message::Outcome,
    usage::Total,
};

use crate::config::variable;

/// Standard output as a person reads it.
pub(crate) struct Screen {
    is_styled: bool,
    cleaner: Cleaner,
    /// Whether the cursor stands behind text.
    is_in_line: bool,
    /// The first fault of writing. The work goes on all the same: it is committed.
    lost: Option<io::Error>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let is_styled = io::stdout().is_terminal() && variable("NO_COLOR").is_none();
        Self { is_styled, cleaner: Cleaner::default(), is_in_line: false, lost: None }
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
            EventKind::CallProposed { name, arguments, .. } => self.note(&call(name, arguments)),
            EventKind::CallEnded { outcome, text, .. } if *outcome != Outcome::Ok => {
                self.note(&failed(outcome, text));
            }
            EventKind::TurnEnded(_) => self.end_line(),
            // What it cost and where it stands is asked for; a call that went well speaks through the answer.
            EventKind::TurnStarted { .. }
            | EventKind::RequestStarted { .. }
            | EventKind::Thinking { .. }
            | EventKind::CallEnded { .. }
            | EventKind::Usage { .. } => {}
            _ => {}
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
        if let Err(fault) = put(text) {
            self.lost.get_or_insert(fault);
        }
    }

    /// Whether all of it was written.
    pub(crate) fn delivered(self) -> io::Result<()> {
        self.lost.map_or(Ok(()), Err)
    }
}

/// Writes to standard output. A reader that has gone (a closed pipe) wanted no more, and that is no fault.
pub(crate) fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A call in one line.
pub(crate) fn call(name: &str, arguments: &RawJson) -> String {
    let short: String = arguments.get().chars().take(100).collect();
    let more = if short.len() < arguments.get().len() { "…" } else { "" };
    format!("· {name} {short}{more}")
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
