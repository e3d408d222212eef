//! The tool that reads a text file.

use std::num::NonZeroUsize;

use everturn_core::{
    env::{FileKind, ReadFile},
    policy::Act,
    tool::{CallContext, Contract, Tool, ToolError, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    check_cancel,
    limit::{self, Output},
    near, text,
};

/// How many bytes are asked for at once.
const CHUNK: usize = 64 * 1024;

/// How many bytes of one line are shown.
const LINE: usize = 2_000;

/// Reads a text file, its lines numbered from 1.
///
/// Shape: each line as its number in six columns, a tab, and its text without the end of line; long lines are cut
/// at a whole character. What was left out, and where to read on, stands in the last line, in parentheses. A binary
/// file is named as one instead of shown.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::Read;
///
/// let arguments = serde_json::from_str(r#"{"path":"a.txt","offset":10}"#).unwrap();
/// assert_eq!(Read.acts(&arguments), [Act::Read("a.txt".into())]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Read;

/// What [`Read`] is called with.
///
/// ```
/// let json = r#"{"path":"a.txt","limit":5}"#;
/// let arguments: everturn_tools::ReadArguments = serde_json::from_str(json).unwrap();
/// assert_eq!(arguments.limit.unwrap().get(), 5);
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArguments {
    /// The file.
    pub path: String,
    /// The first line to show, counted from 1; the first of the file if absent.
    pub offset: Option<u64>,
    /// How many lines to show at most; 2,000 if absent or more.
    pub limit: Option<NonZeroUsize>,
}

impl Tool for Read {
    const NAME: &'static str = "read";
    type Arguments = ReadArguments;

    fn description(&self) -> &str {
        "Read a text file. Each line comes with its number and a tab in front, which are not part of the file. \
         Up to 2,000 lines or 50 KiB at once; use offset to read on."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    fn acts(&self, arguments: &ReadArguments) -> Vec<Act> {
        vec![Act::Read(arguments.path.clone())]
    }

    async fn run(&self, cx: &CallContext, arguments: ReadArguments) -> ToolResult {
        let path = &arguments.path;
        let stat = match cx.env.stat(path.clone()).await {
            Ok(stat) => stat,
            Err(error) => return Err(near::explain(cx, path, error).await),
        };
        if stat.kind == FileKind::Directory {
            return Err(ToolError::new(format!(
                "read {path:?}: it is a directory; list shows what is in it"
            )));
        }
        let mut page = Page::new(&arguments);
        let mut offset = 0;
        loop {
            check_cancel(cx)?;
            let read = ReadFile { path: path.clone(), offset, limit: CHUNK };
            let chunk = cx.env.read(read).await?;
            if offset == 0 && text::is_binary(&chunk) {
                return Ok(format!("(a binary file of {} bytes, not shown)", stat.size).into());
            }
            offset += chunk.len() as u64;
            if page.take(&chunk) || chunk.len() < CHUNK {
                return page.finish(path);
            }
        }
    }
}

/// The lines that were asked for, as they come out of the file.
struct Page {
    first: u64,
    limit: usize,
    /// The number of the line that is coming in.
    number: u64,
    /// What is kept of that line, and how long it is so far.
    line: Vec<u8>,
    line_bytes: u64,
    /// How many of the lines shown end with CR LF, and how many with LF.
    crlf: usize,
    lf: usize,
    is_full: bool,
    output: Output,
}

impl Page {
    fn new(arguments: &ReadArguments) -> Self {
        Self {
            first: arguments.offset.unwrap_or(1).max(1),
            limit: arguments.limit.map_or(limit::LINES, NonZeroUsize::get).min(limit::LINES),
            number: 1,
            line: Vec::new(),
            line_bytes: 0,
            crlf: 0,
            lf: 0,
            is_full: false,
            output: Output::default(),
        }
    }

    /// Takes the next bytes of the file; true when it wants no more.
    fn take(&mut self, chunk: &[u8]) -> bool {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.output.lines() == self.limit {
                self.is_full = true;
            }
            if self.is_full {
                break;
            }
            if self.number >= self.first {
                self.keep(piece);
            }
            self.line_bytes += piece.len() as u64;
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        self.is_full
    }

    fn keep(&mut self, piece: &[u8]) {
        // Enough to cut at a character, and to see how the line ends.
        let room = (LINE + 8).saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room && piece.ends_with(b"\n") {
            let end: &[u8] = if piece.ends_with(b"\r\n") { b"\r\n" } else { b"\n" };
            self.line.extend_from_slice(end);
        }
    }

    fn end_line(&mut self) {
        if self.number >= self.first {
            if !self.output.push(&self.numbered()) {
                self.is_full = true;
                return;
            }
            let is_crlf = self.line.ends_with(b"\r\n");
            self.crlf += usize::from(is_crlf);
            self.lf += usize::from(self.line.ends_with(b"\n") && !is_crlf);
        }
        self.number += 1;
        self.line.clear();
        self.line_bytes = 0;
    }

    fn numbered(&self) -> String {
        let line = text::line(&self.line);
        let line = if self.number == 1 { line.trim_start_matches('\u{feff}') } else { &line };
        let head = text::head(line, LINE);
        let more = if head.len() == line.len() {
            String::new()
        } else {
            format!(" … (line of {} bytes, cut)", self.line_bytes)
        };
        format!("{:>6}\t{head}{more}", self.number)
    }

    fn finish(mut self, path: &str) -> ToolResult {
        if !self.is_full && self.line_bytes > 0 {
            self.end_line();
        }
        let lines = self.number - 1;
        if !self.is_full && lines == 0 {
            return Ok("(the file is empty)".into());
        }
        if !self.is_full && lines < self.first {
            return Err(ToolError::new(format!(
                "read {path:?} from line {}: it has {lines} lines",
                self.first
            )));
        }
        if self.is_full {
            self.output.note(format!("more lines follow: read on with offset {}", self.number));
        }
        if self.crlf > 0 {
            let which = if self.lf == 0 { "the" } else { "some" };
            self.output.note(format!("{which} lines end with CR LF"));
        }
        Ok(self.output.finish().into())
    }
}
