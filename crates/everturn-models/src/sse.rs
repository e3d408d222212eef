//! Server-sent events: from the bytes of a body to its events.
//!
//! No I/O and no clock, so that any body can be replayed, cut and fuzzed.

use std::{borrow::Cow, fmt, mem};

use memchr::memchr2;

/// Reads an event stream as its bytes come, however they are cut.
///
/// Shape: lines end in LF, CR LF or CR; a byte order mark in front, comments and unknown fields are skipped; invalid
/// UTF-8 becomes U+FFFD. An event without data is none.
/// Promise: the same bytes give the same events and the same end, whatever the sizes of the writes.
/// Errors: [`TooBig`], after all events in front of it; the decoder then gives nothing more.
/// Source: HTML Living Standard, 9.2.6 "Interpreting an event stream", but for the last event: see [`Event::whole`].
///
/// ```
/// use everturn_models::sse::{Decoder, Limits};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let mut data = Vec::new();
/// for piece in ["data: on", "e\r", "\n: a comment\r\ndata:two\r\n\r", "\ndata: left over"] {
///     decoder.push(piece.as_bytes(), |event| data.push(event.data.into_owned())).unwrap();
/// }
/// assert_eq!(data, ["one\ntwo"]);
/// decoder.finish(|event| assert_eq!((event.data.as_ref(), event.whole), ("left over", false))).unwrap();
/// ```
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// Bytes of the whole body so far.
    seen: usize,
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    /// The last byte was a CR, so that an LF now belongs to it.
    after_cr: bool,
    /// The first line is still to come, and a byte order mark may stand before it.
    at_start: bool,
    /// The event being read.
    event: Pending,
    /// What went over its limit, after which nothing is read.
    failed: Option<TooBig>,
}

/// How much a [`Decoder`] takes, in bytes.
///
/// ```
/// use everturn_models::sse::Limits;
/// let limits = Limits { line: 64 * 1024, ..Limits::default() };
/// assert!(limits.line < limits.body);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest line, without its end.
    pub line: usize,
    /// The most data of one event.
    pub event: usize,
    /// The longest body.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self { line: 16 * MIB, event: 16 * MIB, body: 256 * MIB }
    }
}

/// One event.
///
/// ```
/// use everturn_models::sse::{Decoder, Limits};
///
/// let body = b"event: ping\nid: 7\ndata: {}\n\n";
/// Decoder::new(Limits::default())
///     .push(body, |event| {
///         assert_eq!((event.name.as_ref(), event.id.as_ref(), event.data.as_ref()), ("ping", "7", "{}"));
///     })
///     .unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its `event` field; empty if it has none.
    pub name: Cow<'a, str>,
    /// The last `id` field up to here; empty if there was none.
    pub id: Cow<'a, str>,
    /// Its `data` fields, joined by LF.
    pub data: Cow<'a, str>,
    /// The last `retry` field up to here, in milliseconds.
    pub retry_ms: Option<u64>,
    /// Whether its blank line was seen. At the end of a body it may be missing; such an event counts if its data is
    /// complete, which only the reader of the data can tell.
    pub whole: bool,
}

/// A body that is over a [limit](Limits).
///
/// ```
/// use everturn_models::sse::{Decoder, Limits, TooBig};
///
/// let limits = Limits { line: 4, ..Limits::default() };
/// let error = Decoder::new(limits).push(b"data: long", |_| ()).unwrap_err();
/// assert_eq!(error, TooBig { what: "line", limit: 4 });
/// assert_eq!(error.to_string(), "read an event stream: a line is over the limit of 4 bytes");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// `line`, `event` or `body`.
    pub what: &'static str,
    /// The limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for TooBig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit } = self;
        write!(f, "read an event stream: a {what} is over the limit of {limit} bytes")
    }
}

impl std::error::Error for TooBig {}

impl Decoder {
    /// A decoder at the start of a body.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            seen: 0,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: Pending::default(),
            failed: None,
        }
    }

    /// Takes the next bytes and gives each event that they complete to `sink`.
    pub fn push(&mut self, bytes: &[u8], sink: impl FnMut(Event<'_>)) -> Result<(), TooBig> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = self.read(bytes, sink);
        self.failed = end.err();
        end
    }

    /// Takes the end of the body, and gives the event whose blank line is missing, if there is one, to `sink`.
    pub fn finish(mut self, mut sink: impl FnMut(Event<'_>)) -> Result<(), TooBig> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let line = mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut sink)?;
        }
        self.event.dispatch(false, &mut sink);
        Ok(())
    }

    fn read(&mut self, bytes: &[u8], mut sink: impl FnMut(Event<'_>)) -> Result<(), TooBig> {
        let room = self.limits.body - self.seen;
        let mut rest = &bytes[..bytes.len().min(room)];
        self.seen += rest.len();
        while !rest.is_empty() {
            if mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.keep(rest)?;
                break;
            };
            self.after_cr = rest[end] == b'\r';
            self.end_line(&rest[..end], &mut sink)?;
            rest = &rest[end + 1..];
        }
        // Checked last: what is within the limit counts, however the bytes are cut.
        limit("body", self.seen + bytes.len().saturating_sub(room), self.limits.body)
    }

    /// Keeps the start of a line.
    fn keep(&mut self, start: &[u8]) -> Result<(), TooBig> {
        limit("line", self.line.len() + start.len(), self.limits.line)?;
        self.line.extend_from_slice(start);
        Ok(())
    }

    /// Reads the line that ends with `rest`; a line that came in one piece is not copied.
    fn end_line(&mut self, rest: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), TooBig> {
        if self.line.is_empty() {
            limit("line", rest.len(), self.limits.line)?;
            return self.take_line(rest, sink);
        }
        self.keep(rest)?;
        let mut line = mem::take(&mut self.line);
        let end = self.take_line(&line, sink);
        line.clear();
        self.line = line;
        end
    }

    fn take_line(&mut self, line: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), TooBig> {
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(line) if self.at_start => line,
            _ => line,
        };
        self.at_start = false;
        if line.is_empty() {
            self.event.dispatch(true, sink);
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        self.event.set(field, value.strip_prefix(b" ").unwrap_or(value));
        limit("event", self.event.data.len().saturating_sub(1), self.limits.event)
    }
}

fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), TooBig> {
    if found > limit { Err(TooBig { what, limit }) } else { Ok(()) }
}

/// The event being read, and what stays from one event to the next.
#[derive(Debug, Default)]
struct Pending {
    name: Vec<u8>,
    /// Each `data` field with an LF behind it.
    data: Vec<u8>,
    id: Vec<u8>,
    retry_ms: Option<u64>,
}

impl Pending {
    /// Takes a field; a comment is a field without a name.
    fn set(&mut self, field: &[u8], value: &[u8]) {
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.name = value.to_vec(),
            b"id" if !value.contains(&0) => self.id = value.to_vec(),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).unwrap_or_default();
                self.retry_ms = digits.parse().ok().or(self.retry_ms);
            }
            _ => (),
        }
    }

    /// Gives the event, if it has data, and starts the next.
    fn dispatch(&mut self, whole: bool, sink: &mut impl FnMut(Event<'_>)) {
        if let Some(data) = self.data.strip_suffix(b"\n") {
            sink(Event {
                name: String::from_utf8_lossy(&self.name),
                id: String::from_utf8_lossy(&self.id),
                data: String::from_utf8_lossy(data),
                retry_ms: self.retry_ms,
                whole,
            });
        }
        self.name.clear();
        self.data.clear();
    }
}
