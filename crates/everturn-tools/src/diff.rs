//! What a change does to a text, as people read it: a unified difference.

use std::{fmt::Write, ops::Range};

use everturn_core::json::RawJson;
use imara_diff::{Algorithm, Diff, InternedInput};
use serde::Serialize;

use crate::text;

/// How many bytes a text may have whose changes are shown.
pub(crate) const TEXT: usize = 1024 * 1024;

/// How many bytes a difference may have.
const SHOWN: usize = 128 * 1024;

/// How many lines are shown before and behind a change.
const CONTEXT: u32 = 3;

/// What people are told about a change.
#[derive(Serialize)]
struct Details<'a> {
    path: &'a str,
    diff: String,
}

/// The change of a file as details of a result; none where either text is binary or huge.
pub(crate) fn details(path: &str, before: &[u8], after: &[u8]) -> Option<RawJson> {
    if before.len() > TEXT || after.len() > TEXT || text::is_binary(before) || text::is_binary(after) {
        return None;
    }
    let diff = unified(std::str::from_utf8(before).ok()?, std::str::from_utf8(after).ok()?);
    RawJson::of(&Details { path, diff }).ok().filter(|details| details.get().len() <= SHOWN)
}

/// The difference of two texts, in hunks; empty where there is none.
pub(crate) fn unified(before: &str, after: &str) -> String {
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let mut hunks: Vec<Vec<(Range<u32>, Range<u32>)>> = Vec::new();
    for hunk in diff.hunks() {
        match hunks.last_mut() {
            Some(near) if near.last().is_some_and(|last| hunk.before.start - last.0.end <= 2 * CONTEXT) => {
                near.push((hunk.before, hunk.after));
            }
            _ => hunks.push(vec![(hunk.before, hunk.after)]),
        }
    }
    let mut shown = String::new();
    for hunk in hunks {
        write_hunk(&mut shown, &input, &hunk);
    }
    shown
}

/// Writes changes that are near one another, with the lines around them.
fn write_hunk(shown: &mut String, input: &InternedInput<&str>, changes: &[(Range<u32>, Range<u32>)]) {
    let ((first_before, first_after), (last_before, last_after)) = (&changes[0], &changes[changes.len() - 1]);
    let lead = CONTEXT.min(first_before.start);
    let tail = CONTEXT.min(count(&input.before) - last_before.end);
    let before = first_before.start - lead..last_before.end + tail;
    let after = first_after.start - lead..last_after.end + tail;
    let _ = writeln!(shown, "@@ -{} +{} @@", place(&before), place(&after));
    let mut at = before.start;
    for (removed, added) in changes {
        write_lines(shown, ' ', input, &input.before, at..removed.start);
        write_lines(shown, '-', input, &input.before, removed.clone());
        write_lines(shown, '+', input, &input.after, added.clone());
        at = removed.end;
    }
    write_lines(shown, ' ', input, &input.before, at..before.end);
}

fn write_lines(
    shown: &mut String,
    sign: char,
    input: &InternedInput<&str>,
    tokens: &[imara_diff::Token],
    lines: Range<u32>,
) {
    for token in &tokens[lines.start as usize..lines.end as usize] {
        let line = input.interner[*token];
        shown.push(sign);
        shown.push_str(line);
        if !line.ends_with('\n') {
            shown.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn count(tokens: &[imara_diff::Token]) -> u32 {
    u32::try_from(tokens.len()).unwrap_or(u32::MAX)
}

/// A range of lines as a hunk's head says it: the first line, counted from 1, and how many. No lines stand behind the
/// line that it names.
fn place(lines: &Range<u32>) -> String {
    let count = lines.end - lines.start;
    let first = if count == 0 { lines.start } else { lines.start + 1 };
    format!("{first},{count}")
}

#[cfg(test)]
mod tests;
