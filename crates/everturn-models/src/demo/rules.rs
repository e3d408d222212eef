//! The rules: what the demo can do, and how it finds an answer.
//!
//! A rule reads as if every call had been made. What is still missing leaves it early by `?`, as the calls to make; when
//! their results are there, the same rule runs again from its start and comes further.

use serde_json::json;

use super::{
    Ask, Reply,
    source::{self, LANGUAGES},
    turn::{Answer, File, Output, Turn},
};

/// One thing that the demo can do.
struct Rule {
    /// In words, as it is listed.
    can: &'static str,
    /// It applies where all words of one of these are in the question.
    when: &'static [&'static str],
    answer: fn(&Turn<'_>) -> Answer,
}

const RULES: &[Rule] = &[
    Rule {
        can: "say what your first question was",
        when: &["first question", "ask first", "asked first", "first ask", "first asked"],
        answer: first_question,
    },
    Rule {
        can: "tell which function under a folder returns the largest number",
        when: &["function largest", "function biggest", "function highest", "function greatest"],
        answer: largest,
    },
    Rule { can: "count the lines of a file", when: &["how many lines"], answer: lines },
    Rule {
        can: "count the files under a folder",
        when: &["how many files", "count files"],
        answer: count_files,
    },
    Rule { can: "find a word in the files", when: &["find", "search", "grep", "where"], answer: search },
    Rule {
        can: "list the files in a folder",
        when: &["which files", "what files", "list", "ls"],
        answer: list,
    },
    Rule { can: "show a file", when: &["show", "read", "print", "open", "cat"], answer: show },
];

const GREETINGS: &[&str] = &["hello", "hi", "hey", "good morning", "help", "who you", "what you"];

/// Behind each answer, so that nobody takes it for more.
const NOTE: &str = "(I am the demo: a few rules, no language model.)";

/// How many files are read for one answer.
const FILES_MAX: usize = 200;
/// How many lines of a file, and how many places, are shown.
const SHOWN_MAX: usize = 40;

/// What comes next in a turn.
pub(super) fn apply(turn: &Turn<'_>) -> Reply {
    let question = &turn.question;
    let rule = RULES.iter().find(|rule| rule.when.iter().any(|words| question.has(words)));
    match rule.map(|rule| (rule.answer)(turn)) {
        Some(Ok(text) | Err(Reply::Text(text))) => Reply::Text(format!("{text}\n\n{NOTE}")),
        Some(Err(calls)) => calls,
        None if GREETINGS.iter().any(|words| question.has(words)) => {
            Reply::Text(format!("Hello! {}", abilities()))
        }
        None => Reply::Text(format!("That is more than I can do. {}", abilities())),
    }
}

fn abilities() -> String {
    let list: String = RULES.iter().map(|rule| format!("\n- {}", rule.can)).collect();
    format!(
        "I am the demo: a few rules that use real tools, and no language model. I can{list}\n\nTry: which function under \
         src returns the largest number?"
    )
}

fn first_question(turn: &Turn<'_>) -> Answer {
    Ok(match turn.first_question() {
        Some(first) => format!("Your first question was: {first}"),
        None => "This is your first question.".into(),
    })
}

fn largest(turn: &Turn<'_>) -> Answer {
    let (place, sources) = sources(turn)?;
    let paths = &sources.lines[..sources.lines.len().min(FILES_MAX)];
    let files = turn.read(paths)?;
    let mut found = Vec::new();
    for file in &files {
        let functions = source::functions(&file.path, &file.text());
        found.extend(functions.into_iter().map(|function| (&file.path, function)));
    }
    // The last of equals is taken, so that turned round it is the first.
    let largest = found.iter().rev().max_by_key(|(_, function)| function.largest);
    let read = counted(files.iter().filter(|file| file.lines.is_ok()).count(), "file");
    let answer = match largest {
        Some((path, function)) => format!(
            "`{}` returns the largest number: {} ({path}, line {}). I read {read} and saw {} with a number to return as \
             it stands.",
            function.name,
            function.largest,
            function.line,
            counted(found.len(), "function")
        ),
        None => format!("I read {read} and saw no function {place} that returns a number as it stands."),
    };
    let left_out = left_out(sources.lines.len() - paths.len(), &files);
    Ok(format!("{answer}{left_out}{}", added(&sources)))
}

/// What an answer about files does not cover.
fn left_out(more: usize, files: &[File]) -> String {
    const NAMED_MAX: usize = 3;
    let mut words = String::new();
    if more > 0 {
        words += &format!(" I did not read {}.", counted(more, "more file"));
    }
    let unread: Vec<_> =
        files.iter().filter_map(|file| Some((&file.path, file.lines.as_ref().err()?))).collect();
    for (path, why) in unread.iter().take(NAMED_MAX) {
        words += &format!(" I could not read {path} ({why}).");
    }
    if unread.len() > NAMED_MAX {
        words += &format!(" Nor could I read {}.", counted(unread.len() - NAMED_MAX, "more file"));
    }
    words
}

/// What a tool said of its output.
fn added(output: &Output<'_>) -> String {
    let note = output.note.filter(|_| !output.lines.is_empty());
    note.map_or(String::new(), |note| format!(" The tool adds: {note}"))
}

/// Where the question wants to look, in words, and the source files there.
fn sources<'a>(turn: &Turn<'a>) -> Answer<(String, Output<'a>)> {
    let extensions: Vec<_> = LANGUAGES.iter().flat_map(|language| language.extensions).copied().collect();
    let sources = format!("*.{{{}}}", extensions.join(","));
    let (place, patterns) = match turn.question.folder() {
        Some(folder) => (
            format!("under {folder}"),
            // A folder of that name may also be further down: crates/NAME/src.
            vec![format!("{folder}/**/{sources}"), format!("**/{folder}/**/{sources}")],
        ),
        None => ("here".into(), vec![format!("**/{sources}")]),
    };
    for pattern in patterns {
        let output = turn.call(&Ask::new("glob", json!({"pattern": pattern})))?;
        if !output.lines.is_empty() {
            return Ok((place, output));
        }
    }
    Err(Reply::Text(format!("I found no source files {place}.")))
}

fn lines(turn: &Turn<'_>) -> Answer {
    let file = file(turn, "how many lines are in README.md?")?;
    Ok(format!("{} has {}.", file.path, counted(file.len(), "line")))
}

fn show(turn: &Turn<'_>) -> Answer {
    let file = file(turn, "show README.md")?;
    let lines = file.lines.iter().flatten().map(|(_, line)| line.as_str());
    let shown: Vec<_> = lines.clone().take(SHOWN_MAX).collect();
    let more = match lines.count() - shown.len() {
        0 => String::new(),
        more => format!("\n\nand {}.", counted(more, "more line")),
    };
    Ok(format!("{}:\n\n```\n{}\n```{more}", file.path, shown.join("\n")))
}

/// The file that the question names, read; `example` shows how to name one.
fn file(turn: &Turn<'_>, example: &str) -> Answer<File> {
    let missing = || Reply::Text(format!("Which file? Ask for example: {example}"));
    let path = turn.question.path().ok_or_else(missing)?;
    let file = turn.read(&[path])?.pop().expect("one path gives one file");
    match &file.lines {
        Ok(_) => Ok(file),
        Err(why) => Err(Reply::Text(format!("I could not read {path} ({why})."))),
    }
}

fn count_files(turn: &Turn<'_>) -> Answer {
    let named = LANGUAGES.iter().find(|language| turn.question.has(language.name));
    let kind = named.map_or("*".into(), |language| format!("*.{{{}}}", language.extensions.join(",")));
    let (pattern, place) = match turn.question.folder() {
        Some(folder) => (format!("{folder}/**/{kind}"), format!("under {folder}")),
        None => (format!("**/{kind}"), "here".into()),
    };
    let output = turn.call(&Ask::new("glob", json!({"pattern": pattern})))?;
    let files = counted(output.lines.len(), "file");
    Ok(format!("I count {files} {place}.{}", added(&output)))
}

fn list(turn: &Turn<'_>) -> Answer {
    let folder = turn.question.folder().or(turn.question.path()).unwrap_or(".");
    let output = turn.call(&Ask::new("list", json!({"path": folder})))?;
    let place = if folder == "." { "here".into() } else { format!("in {folder}") };
    let names = counted(output.lines.len(), "name");
    Ok(format!("I see {names} {place}.{}{}", added(&output), bullets(&output.lines)))
}

fn search(turn: &Turn<'_>) -> Answer {
    let missing = || Reply::Text("Which word? Ask for example: find \"main\"".into());
    let wanted = turn.question.wanted().ok_or_else(missing)?;
    let output = turn.call(&Ask::new("grep", json!({"pattern": literal(wanted)})))?;
    let places = match output.lines.as_slice() {
        [] => return Ok(format!("I found `{wanted}` nowhere.")),
        places => places,
    };
    let shown = bullets(&places[..places.len().min(SHOWN_MAX)]);
    Ok(format!("I found `{wanted}` in {}.{}{shown}", counted(places.len(), "place"), added(&output)))
}

fn bullets(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("\n- {line}")).collect()
}

/// A pattern that matches just this text.
fn literal(text: &str) -> String {
    let escape = |c: char| {
        if c.is_ascii_punctuation() && c != '_' { format!("\\{c}") } else { c.to_string() }
    };
    text.chars().map(escape).collect()
}

fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
