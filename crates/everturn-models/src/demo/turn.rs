//! The turn so far: what was asked, which tools are on offer, and what the calls gave.

use std::collections::HashMap;

use everturn_core::{
    message::{CallId, CallResult, Message},
    model::Request,
};
use serde_json::{Value, json};

use super::{Ask, Reply, question::Question};

/// How many calls are asked for at once.
const PARALLEL: usize = 8;
/// How many times calls are asked for in a turn.
const STEPS_MAX: usize = 60;
/// How many pages of one file are read.
const PAGES_MAX: usize = 50;

/// What a rule comes to: the answer, or what has to be done or said first.
pub(super) type Answer<T = String> = Result<T, Reply>;

/// The turn that is to go on.
pub(super) struct Turn<'a> {
    request: &'a Request,
    pub(super) question: Question,
    made: Vec<Made<'a>>,
    steps: usize,
}

/// A call that was made in this turn.
struct Made<'a> {
    tool: &'a str,
    arguments: Value,
    result: &'a CallResult,
}

/// What a tool printed.
pub(super) struct Output<'a> {
    pub(super) lines: Vec<&'a str>,
    /// What the tool added in parentheses, such as how much it left out.
    pub(super) note: Option<&'a str>,
}

/// A file as `read` gave it.
pub(super) struct File {
    pub(super) path: String,
    /// The lines with their numbers, or why there are none.
    pub(super) lines: Result<Vec<(usize, String)>, String>,
}

impl File {
    /// The text, each line where it stands in the file.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.iter().flatten();
        lines.map(|(_, line)| format!("{line}\n")).collect()
    }

    /// The number of its last line.
    pub(super) fn len(&self) -> usize {
        self.lines.iter().flatten().last().map_or(0, |(number, _)| *number)
    }
}

impl<'a> Turn<'a> {
    /// The turn of the newest question.
    pub(super) fn of(request: &'a Request) -> Self {
        let messages = request.messages.as_slice();
        let asked = messages.iter().rposition(|message| matches!(**message, Message::User(_)));
        let since = &messages[asked.map_or(0, |at| at + 1)..];
        let results: HashMap<&CallId, &CallResult> = since
            .iter()
            .filter_map(|message| match &**message {
                Message::Result(result) => Some((&result.call, result)),
                _ => None,
            })
            .collect();
        let answers = since.iter().filter_map(|message| match &**message {
            Message::Assistant(assistant) => Some(assistant),
            _ => None,
        });
        let made = answers.clone().flat_map(|assistant| assistant.calls()).filter_map(|call| {
            Some(Made {
                tool: &call.name,
                arguments: call.arguments.read().ok()?,
                result: results.get(&call.id)?,
            })
        });
        Self {
            request,
            question: Question::new(asked.map_or(String::new(), |at| messages[at].text())),
            made: made.collect(),
            steps: answers.count(),
        }
    }

    /// The first question of the conversation, unless it is this one.
    pub(super) fn first_question(&self) -> Option<String> {
        let questions = self.request.messages.iter().filter(|message| matches!(***message, Message::User(_)));
        let mut questions = questions.map(|message| message.text());
        let first = questions.next()?;
        questions.next().map(|_| first)
    }

    /// Makes one call and gives its output; a failed call is told.
    pub(super) fn call(&self, ask: &Ask) -> Answer<Output<'a>> {
        let result = self.calls(vec![ask.clone()])?[0];
        if result.outcome.is_error() {
            let Ask { tool, arguments } = ask;
            let (word, text) = (result.outcome.word(), result.text.trim());
            let message =
                format!("I called `{tool}` with `{arguments}`, and it did not work ({word}): {text}");
            return Err(Reply::Text(message));
        }
        Ok(Output::of(&result.text))
    }

    /// Reads whole files, several at once.
    pub(super) fn read(&self, paths: &[&str]) -> Answer<Vec<File>> {
        let mut files: Vec<File> =
            paths.iter().map(|path| File { path: (*path).into(), lines: Ok(Vec::new()) }).collect();
        let mut open: Vec<usize> = (0..files.len()).collect();
        for _ in 0..PAGES_MAX {
            let asks = open.iter().map(|&at| page(&files[at])).collect();
            let pages = self.calls(asks)?;
            let read = open.iter().zip(pages).filter(|(at, page)| take_page(&mut files[**at], page));
            open = read.map(|(at, _)| *at).collect();
            if open.is_empty() {
                break;
            }
        }
        for at in open {
            files[at].lines = Err(format!("it is longer than {PAGES_MAX} pages"));
        }
        Ok(files)
    }

    /// The results of calls, in order; those not made yet are asked for first, a few at a time.
    fn calls(&self, asks: Vec<Ask>) -> Answer<Vec<&'a CallResult>> {
        if let Some(ask) = asks.iter().find(|ask| !self.offers(ask.tool)) {
            let message = format!("For that I need the tool `{}`, and it is not on offer here.", ask.tool);
            return Err(Reply::Text(message));
        }
        let results: Vec<_> = asks.iter().filter_map(|ask| self.result(ask)).collect();
        if results.len() == asks.len() {
            return Ok(results);
        }
        if self.steps >= STEPS_MAX {
            let message =
                format!("I asked for calls {STEPS_MAX} times and still do not know, so I stop here.");
            return Err(Reply::Text(message));
        }
        let missing = asks.into_iter().filter(|ask| self.result(ask).is_none());
        Err(Reply::Calls(missing.take(PARALLEL).collect()))
    }

    fn result(&self, ask: &Ask) -> Option<&'a CallResult> {
        let made = self.made.iter().find(|made| made.tool == ask.tool && made.arguments == ask.arguments);
        made.map(|made| made.result)
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|spec| spec.name == tool)
    }
}

/// The call for the next page of a file.
fn page(file: &File) -> Ask {
    let arguments = match file.len() {
        0 => json!({"path": file.path}),
        last => json!({"path": file.path, "offset": last + 1}),
    };
    Ask::new("read", arguments)
}

/// Puts a page to a file; says whether there is another.
fn take_page(file: &mut File, page: &CallResult) -> bool {
    let Ok(lines) = &mut file.lines else { return false };
    if page.outcome.is_error() {
        file.lines = Err(format!("{}: {}", page.outcome.word(), page.text.trim()));
        return false;
    }
    let output = Output::of(&page.text);
    let before = lines.len();
    lines.extend(output.lines.into_iter().filter_map(|line| {
        let (number, text) = line.split_once('\t')?;
        Some((number.trim().parse().ok()?, text.to_owned()))
    }));
    output.note.is_some_and(|note| note.contains("more")) && lines.len() > before
}

impl<'a> Output<'a> {
    fn of(text: &'a str) -> Self {
        let mut lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let note = lines.pop_if(|line| line.starts_with('(') && line.ends_with(')'));
        Self { lines, note }
    }
}
