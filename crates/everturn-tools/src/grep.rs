//! The tool that searches in files.

use everturn_core::{
    env::{FileKind, ReadFile},
    policy::Act,
    tool::{CallContext, Contract, Tool, ToolError, ToolResult},
};
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, sinks};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{at, check_cancel, limit::Output, near, pattern::Pattern, text, walk::Walk};

/// How many bytes of a file are searched at once.
const WINDOW: usize = 256 * 1024;

/// How long a line may be, in bytes, before it is searched in pieces.
const PIECE: usize = 4 * WINDOW;

/// How many bytes of a matching line are shown, and how many of them in front of the match.
const LINE: usize = 400;
const LEAD: usize = 80;

/// How many hits are shown of one file, and in all.
const FILE_HITS: usize = 100;
const HITS: usize = 1_000;

/// Searches files for a regular expression, line by line.
///
/// Shape: `path:line:text`, sorted by the bytes of the path. Ignore files are respected; hidden files are passed
/// over unless the glob names them, binary ones and links always are. What was left out stands in the last line, in
/// parentheses.
///
/// ```
/// use everturn_core::{policy::Act, tool::Tool};
/// use everturn_tools::Grep;
///
/// let arguments = serde_json::from_str(r#"{"pattern":"fn main","path":"src"}"#).unwrap();
/// assert_eq!(Grep.acts(&arguments), [Act::Read("src".into())]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Grep;

/// What [`Grep`] is called with.
///
/// ```
/// let json = r#"{"pattern":"todo","glob":"*.rs","ignore_case":true}"#;
/// let arguments: everturn_tools::GrepArguments = serde_json::from_str(json).unwrap();
/// assert_eq!(arguments.ignore_case, Some(true));
/// ```
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepArguments {
    /// The regular expression; it is held against one line at a time.
    pub pattern: String,
    /// The file or directory to search; the root if absent.
    pub path: Option<String>,
    /// Only files that match, as `*.rs` or `src/**`; with `!` in front, only those that do not.
    pub glob: Option<String>,
    /// Whether upper and lower case are the same; they are not if absent.
    pub ignore_case: Option<bool>,
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    type Arguments = GrepArguments;

    fn description(&self) -> &str {
        "Search files for a regular expression, line by line. Answers path:line:text, sorted. Ignored, hidden and \
         binary files are left out."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    fn acts(&self, arguments: &GrepArguments) -> Vec<Act> {
        vec![Act::Read(at(arguments.path.as_ref()))]
    }

    async fn run(&self, cx: &CallContext, arguments: GrepArguments) -> ToolResult {
        let path = at(arguments.path.as_ref());
        let filter = Pattern::filter(arguments.glob.as_deref().unwrap_or("**"))?;
        let mut search = Search::new(cx, &arguments)?;
        let stat = match cx.env.stat(path.clone()).await {
            Ok(stat) => stat,
            Err(error) => return Err(near::explain(cx, &path, error).await),
        };
        if stat.kind != FileKind::Directory {
            search.file(&path).await?;
            return Ok(search.finish());
        }
        let mut walk = Walk::new(cx, &path, &filter).await?;
        while !search.is_full
            && let Some(file) = walk.next().await?
        {
            // What a link inside the root leads to is searched where it is.
            if file.kind == FileKind::File {
                search.file(&file.path).await?;
            }
        }
        search.unreadable += walk.unreadable();
        Ok(search.finish())
    }
}

/// A search through one file after the other.
struct Search<'a> {
    cx: &'a CallContext,
    matcher: RegexMatcher,
    searcher: Searcher,
    output: Output,
    is_full: bool,
    /// How many hits were left out because their file has too many.
    more: usize,
    binary: usize,
    unreadable: usize,
}

impl<'a> Search<'a> {
    fn new(cx: &'a CallContext, arguments: &GrepArguments) -> Result<Self, ToolError> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(arguments.ignore_case == Some(true))
            .crlf(true)
            .build(&arguments.pattern)
            .map_err(|fault| ToolError::new(format!("read pattern {:?}: {fault}", arguments.pattern)))?;
        let searcher =
            SearcherBuilder::new().line_terminator(LineTerminator::crlf()).bom_sniffing(false).build();
        Ok(Self {
            cx,
            matcher,
            searcher,
            output: Output::default(),
            is_full: false,
            more: 0,
            binary: 0,
            unreadable: 0,
        })
    }

    async fn file(&mut self, path: &str) -> Result<(), ToolError> {
        let (mut offset, mut line, mut hits) = (0, 1, 0);
        let mut held = Vec::new();
        while !self.is_full {
            check_cancel(self.cx)?;
            let read = ReadFile { path: path.into(), offset, limit: WINDOW };
            let Ok(window) = self.cx.env.read(read).await else {
                self.unreadable += 1;
                break;
            };
            let mut new = window.as_slice();
            if offset == 0 {
                if text::is_binary(new) {
                    self.binary += 1;
                    break;
                }
                new = new.strip_prefix("\u{feff}".as_bytes()).unwrap_or(new);
            }
            offset += window.len() as u64;
            held.extend_from_slice(new);
            let is_last = window.len() < WINDOW;
            let lines = if is_last || held.len() >= PIECE { held.len() } else { whole_lines(&held) };
            line += self.lines(path, &held[..lines], line, &mut hits)?;
            held.drain(..lines);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Searches lines of a file, the first of which has this number; says how many lines ended.
    fn lines(&mut self, path: &str, lines: &[u8], first: u64, hits: &mut usize) -> Result<u64, ToolError> {
        let (matcher, output) = (&self.matcher, &mut self.output);
        let (more, is_full) = (&mut self.more, &mut self.is_full);
        let sink = sinks::Bytes(|number, line| {
            *hits += 1;
            if *hits > FILE_HITS {
                *more += 1;
                return Ok(true);
            }
            let shown = excerpt(matcher, &text::line(line));
            let hit = format!("{}:{}:{shown}", text::name(path), first + number - 1);
            *is_full = output.lines() == HITS || !output.push(&hit);
            Ok(!*is_full)
        });
        self.searcher.search_slice(matcher, lines, sink)?;
        Ok(lines.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    fn finish(mut self) -> everturn_core::tool::ToolOutput {
        if self.is_full {
            self.output.note("more hits follow: narrow the pattern, the glob or the path");
        } else if self.output.lines() == 0 {
            self.output.note("no line matches");
        }
        let notes = [
            (self.more, "more hits in files with over 100"),
            (self.binary, "binary files passed over"),
            (self.unreadable, "files or directories could not be read"),
        ];
        for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
            self.output.note(format!("{count} {what}"));
        }
        self.output.finish().into()
    }
}

fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// The part of a line that is shown: all of it, or what is around the match.
fn excerpt(matcher: &RegexMatcher, line: &str) -> String {
    if line.len() <= LINE {
        return line.into();
    }
    let found = matcher.find(line.as_bytes()).ok().flatten();
    let start = found.map_or(0, |found| found.start().saturating_sub(LEAD));
    let rest = &line[line.floor_char_boundary(start)..];
    let shown = text::head(rest, LINE);
    let before = if rest.len() < line.len() { "… " } else { "" };
    let after = if shown.len() < rest.len() { " …" } else { "" };
    format!("{before}{shown}{after}")
}
