//! What a call writes while it runs: kept within limits, shown as it comes.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn_core::{
    clean::{self, Cleaner},
    document::{Document, Operation, Path},
    tool::Keep,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// What a call has written so far: a document of its task, while it runs.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.output", version = 1, scope = "task", crate = "everturn_core")]
pub(in crate::harness) struct Streamed {
    #[serde(default)]
    pub(in crate::harness) text: String,
}

/// How much of an output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputLimits {
    /// Bytes of it that the model is told.
    pub(super) bytes: usize,
    /// Lines of it that the model is told.
    pub(super) lines: usize,
    /// Bytes of it that are kept for people.
    pub(super) quota: usize,
}

/// An output within limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// What the model is told.
    pub(super) text: String,
    /// Whether that is not all of it.
    pub(super) truncated: bool,
}

/// The output of a call that runs. Clones share it.
#[derive(Clone)]
pub(super) struct Buffer {
    limits: OutputLimits,
    written: Arc<Mutex<Written>>,
    news: Arc<Notify>,
}

/// What was written.
#[derive(Default)]
struct Written {
    /// Its beginning, up to the quota.
    head: Vec<u8>,
    /// Its end, where it is longer than the quota.
    tail: VecDeque<u8>,
    total: u64,
    /// Bytes of the head that were shown.
    shown: usize,
    cleaner: Cleaner,
    /// Bytes of the head that the cleaner has taken.
    cleaned: usize,
}

impl Buffer {
    pub(super) fn new(limits: OutputLimits) -> Self {
        Self { limits, written: Arc::default(), news: Arc::default() }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next piece.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut written = self.written();
        let room = self.limits.quota.saturating_sub(written.head.len()).min(bytes.len());
        written.head.extend_from_slice(&bytes[..room]);
        written.total += bytes.len() as u64;
        let beyond = &bytes[room..];
        let last = &beyond[beyond.len().saturating_sub(self.limits.bytes)..];
        let surplus = (written.tail.len() + last.len()).saturating_sub(self.limits.bytes);
        let surplus = surplus.min(written.tail.len());
        written.tail.drain(..surplus);
        written.tail.extend(last);
        drop(written);
        self.news.notify_one();
    }

    /// Takes what the tool gave at its end; it stands on a line of its own.
    pub(super) fn push_last(&self, text: &str) {
        let is_open_line = self.written().head.last().is_some_and(|last| *last != b'\n');
        if is_open_line && !text.is_empty() {
            self.push(b"\n");
        }
        self.push(text.as_bytes());
    }

    /// Returns when more was written than was shown.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// The operations that show what was not shown yet, within the limits; none where there is nothing.
    pub(super) fn show(&self) -> Option<Operation> {
        let mut written = self.written();
        if written.shown >= self.limits.bytes {
            return None;
        }
        let whole = whole_characters(&written.head[written.cleaned..]);
        let piece =
            String::from_utf8_lossy(&written.head[written.cleaned..written.cleaned + whole]).into_owned();
        written.cleaned += whole;
        let mut text = written.cleaner.push(&piece);
        text.truncate(text.floor_char_boundary(self.limits.bytes - written.shown));
        written.shown += text.len();
        (!text.is_empty()).then(|| Operation::Append { path: Path::from(["text"]), text })
    }

    /// What the model is told of it.
    pub(super) fn kept(&self, keep: Keep) -> Kept {
        let (written, bytes) = (self.written(), self.limits.bytes);
        let end: Vec<u8> = match written.tail.is_empty() {
            true => written.head[written.head.len().saturating_sub(bytes)..].to_vec(),
            false => written.tail.iter().copied().collect(),
        };
        let head = &written.head[..written.head.len().min(bytes)];
        let head = clean(if written.total > bytes as u64 { &head[..whole_characters(head)] } else { head });
        let is_all = written.total <= bytes as u64;
        if is_all && cut_head(&head, bytes, self.limits.lines).len() == head.len() {
            return Kept { text: head, truncated: false };
        }
        let tail = clean(&end[continued(&end)..]);
        let text = within((&head, &tail), keep, &self.limits, written.total);
        Kept { text, truncated: true }
    }

    /// All that was kept for people.
    pub(super) fn whole(&self) -> Vec<u8> {
        self.written().head.clone()
    }
}

/// How many bytes there are up to the last whole character. What can be no character is none's beginning.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(fault) if fault.error_len().is_none() => fault.valid_up_to().max(bytes.len().saturating_sub(3)),
        _ => bytes.len(),
    }
}

/// How many bytes go on with a character that began before them.
fn continued(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count()
}

fn clean(bytes: &[u8]) -> String {
    clean::text(&String::from_utf8_lossy(bytes))
}

/// An output within limits, by its beginning and its end.
fn within((head, tail): (&str, &str), keep: Keep, limits: &OutputLimits, total: u64) -> String {
    let (bytes, lines) = (limits.bytes, limits.lines);
    let left_out = format!("({total} bytes in all, the rest is left out)");
    match keep {
        Keep::Head => format!("{}\n{left_out}", cut_head(head, bytes, lines)),
        Keep::Tail => format!("{left_out}\n{}", cut_tail(tail, bytes, lines)),
        Keep::Both => {
            let begin = cut_head(head, bytes / 2, lines / 2);
            format!("{begin}\n{left_out}\n{}", cut_tail(tail, bytes / 2, lines / 2))
        }
    }
}

/// The beginning of a text: whole characters, so many bytes, so many lines.
fn cut_head(text: &str, bytes: usize, lines: usize) -> &str {
    let end = text.char_indices().filter(|(_, c)| *c == '\n').nth(lines.saturating_sub(1));
    let by_lines = end.map_or(text.len(), |(at, _)| at);
    let cut = &text[..text.floor_char_boundary(bytes).min(by_lines)];
    // A last end of line is no line.
    if cut.len() + 1 == text.len() && text.ends_with('\n') { text } else { cut }
}

/// The end of a text: whole characters, so many bytes, so many lines.
fn cut_tail(text: &str, bytes: usize, lines: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let begin = body.char_indices().rev().filter(|(_, c)| *c == '\n').nth(lines.saturating_sub(1));
    let by_lines = begin.map_or(0, |(at, _)| at + 1);
    let by_bytes = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    &text[by_bytes.max(by_lines)..]
}
