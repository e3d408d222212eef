//! Why a piece of text is not the one that was meant.

use crate::text;

/// How many lines are compared with one that was not found.
const COMPARED: usize = 10_000;

/// How many bytes of a line are compared and shown.
const LINE: usize = 200;

/// How alike two lines are, from 0 to 1, where one may have been meant for the other.
const ALIKE: f64 = 0.6;

/// How many lines are named.
const NAMED: usize = 10;

/// Why a piece stands nowhere: what is there that differs from it only in looks, or the line that is nearest.
pub(super) fn not_found(text: &str, old: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.trim_matches(['\n', '\r']).lines().collect();
    for (looks, what) in [
        (without_quotes as fn(&str) -> String, "the style of its quotes"),
        (without_space, "white space"),
        (without_both, "white space and the style of its quotes"),
    ] {
        if let Some(at) = find(&lines, &wanted, looks) {
            let there = shown(&lines[at..(at + wanted.len().max(1)).min(lines.len())]);
            return format!(
                "old was not found: what stands at line {} differs in {what}; it is {there}",
                at + 1
            );
        }
    }
    match nearest(&lines, &wanted) {
        Some((number, line)) => {
            format!("old was not found; the nearest to its first line is line {number}: {:?}", head(line))
        }
        None => "old was not found, nor a line like its first".into(),
    }
}

/// That a piece stands in several places, and where.
pub(super) fn found_often(text: &str, old: &str) -> String {
    let mut numbers = Vec::new();
    let (mut line, mut from) = (1, 0);
    for (at, _) in text.match_indices(old) {
        line += text[from..at].matches('\n').count();
        from = at;
        numbers.push(line.to_string());
    }
    let count = numbers.len();
    let more = if count > NAMED { " and more" } else { "" };
    numbers.truncate(NAMED);
    format!(
        "old was found {count} times, at lines {}{more}; take in more of what is around the one that is meant, or say \
         all",
        numbers.join(", ")
    )
}

/// The first place where as many lines, or the end of a line and the beginning of another, look the same.
fn find(lines: &[&str], wanted: &[&str], looks: fn(&str) -> String) -> Option<usize> {
    let wanted: Vec<_> = wanted.iter().map(|line| looks(line)).collect();
    let (first, last) = (wanted.first()?, wanted.last()?);
    if wanted.iter().all(String::is_empty) {
        return None;
    }
    let lines: Vec<_> = lines.iter().map(|line| looks(line)).collect();
    let count = wanted.len();
    lines.windows(count).position(|window| match window {
        [one] => one.contains(first),
        [head, middle @ .., tail] => {
            head.ends_with(first) && tail.starts_with(last) && middle == &wanted[1..count - 1]
        }
        [] => false,
    })
}

fn without_space(line: &str) -> String {
    line.split_whitespace().collect()
}

fn without_quotes(line: &str) -> String {
    let plain = |c| match c {
        '\'' | '`' | '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}' => '"',
        c => c,
    };
    line.chars().map(plain).collect()
}

fn without_both(line: &str) -> String {
    without_quotes(&without_space(line))
}

/// The line that is most like the first that has anything in it, with its number.
fn nearest<'a>(lines: &[&'a str], wanted: &[&str]) -> Option<(usize, &'a str)> {
    let first = head(wanted.iter().find(|line| !line.trim().is_empty())?.trim());
    let alike = |line: &str| {
        let line = head(line.trim());
        let (short, long) = (first.len().min(line.len()), first.len().max(line.len()));
        // What is that much shorter is not alike, and need not be compared.
        if (short as f64) < ALIKE * long as f64 { 0.0 } else { strsim::normalized_levenshtein(first, line) }
    };
    let compared = lines.iter().take(COMPARED).enumerate();
    let near = compared.map(|(at, line)| (alike(line), at)).filter(|(likeness, _)| *likeness >= ALIKE);
    // Of lines that are equally like it the first is named.
    let best = near.max_by(|(a, a_at), (b, b_at)| a.total_cmp(b).then_with(|| b_at.cmp(a_at)));
    best.map(|(_, at)| (at + 1, lines[at]))
}

fn head(line: &str) -> &str {
    text::head(line, LINE)
}

/// Lines as they are, in quotes, so that their white space is seen.
fn shown(lines: &[&str]) -> String {
    let text = lines.join("\n");
    let head = text::head(&text, 5 * LINE);
    format!("{head:?}{}", if head.len() < text.len() { " and more" } else { "" })
}
