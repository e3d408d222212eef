//! The output of a tool, kept within its limits.

use crate::text;

/// How many lines a result has at most, its last line of notes aside.
pub(crate) const LINES: usize = 2_000;

/// How many bytes a result has at most, notes included.
pub(crate) const BYTES: usize = 50 * 1024;

/// How many of those bytes are kept for notes.
const NOTES: usize = 1024;

/// Output that grows line by line until it is full, and says at its end, in parentheses, what is missing.
#[derive(Default)]
pub(crate) struct Output {
    text: String,
    lines: usize,
    notes: Vec<String>,
}

impl Output {
    /// Adds a line; false, and nothing is added, when it does not fit.
    pub(crate) fn push(&mut self, line: &str) -> bool {
        let fits = self.lines < LINES && self.text.len() + line.len() < BYTES - NOTES;
        if fits {
            if self.lines > 0 {
                self.text.push('\n');
            }
            self.text.push_str(line);
            self.lines += 1;
        }
        fits
    }

    /// How many lines it has.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Says something about the output in its last line.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The whole text.
    pub(crate) fn finish(self) -> String {
        let mut text = self.text;
        if self.notes.is_empty() {
            return text;
        }
        if self.lines > 0 {
            text.push('\n');
        }
        let notes = self.notes.join("; ");
        text.push('(');
        text.push_str(text::head(&notes, NOTES - 3));
        text.push(')');
        text
    }
}
