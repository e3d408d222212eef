//! What waits for a decision, in words: for lists, and for whoever is asked at once.

use everturn::{
    approval::{ApprovalRecord, Decision, Question},
    clean,
    clock::Timestamp,
    id::{ConversationId, SessionId},
    json::RawJson,
};
use serde_json::{Value, json};

use crate::screen::moment;

/// How much of a call's arguments is shown, in characters.
const ARGUMENTS_MAX: usize = 2_000;
/// How many lines of a difference are shown.
const LINES_MAX: usize = 200;

/// What is asked, in one line.
pub(crate) fn headline(question: &Question) -> String {
    match question {
        Question::Call { tool, acts, .. } if acts.is_empty() => format!("may {tool} run?"),
        Question::Call { tool, acts, .. } => {
            let acts: Vec<_> = acts.iter().map(ToString::to_string).collect();
            format!("may {tool} run? {}", acts.join(", "))
        }
        Question::Unknown { tool, .. } => {
            format!("{tool} was cut off, and nobody knows whether it has run: has it?")
        }
        Question::Person { text, .. } => text.clone(),
    }
}

/// What is asked and all that a person needs for an answer, in lines that are clean.
pub(crate) fn lines(record: &ApprovalRecord) -> Vec<String> {
    let mut lines = vec![clean::line(&headline(&record.question))];
    match &record.question {
        Question::Call { arguments, directory, verdict, preview, .. } => {
            lines.push(format!("arguments {}", shown(arguments)));
            lines.extend(directory.as_ref().map(|directory| format!("in {}", clean::line(directory))));
            lines.push(format!("because: {} ({} layer)", clean::line(&verdict.rule), verdict.layer));
            lines.extend(preview.iter().flat_map(previewed));
        }
        Question::Unknown { arguments, .. } => lines.push(format!("arguments {}", shown(arguments))),
        Question::Person { choices, .. } => {
            let choices = choices.iter().enumerate();
            lines.extend(choices.map(|(at, choice)| format!("{}. {}", at + 1, clean::line(choice))));
        }
    }
    if record.conversation != ConversationId::ROOT {
        lines.push(format!("asked in conversation {}", record.conversation));
    }
    lines.extend(record.until.map(|until| format!("it expires at {} UTC", moment(until))));
    lines
}

/// Arguments, as JSON escapes them: nothing in them reaches a terminal as it stands.
fn shown(arguments: &RawJson) -> String {
    let text = clean::line(arguments.get());
    match text.char_indices().nth(ARGUMENTS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What would happen, as the tool showed it: the difference in its lines, anything else as JSON.
fn previewed(preview: &RawJson) -> Vec<String> {
    let Some(diff) = difference(preview) else { return Vec::new() };
    let mut lines: Vec<_> = diff.lines().map(clean::line).take(LINES_MAX).collect();
    let left = diff.lines().count() - lines.len();
    lines.extend((left > 0).then(|| format!("({left} more lines)")));
    lines
}

fn difference(preview: &RawJson) -> Option<String> {
    preview.read::<Value>().ok()?.get("diff")?.as_str().map(str::to_owned)
}

/// How long ago something was, in words.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(since).as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

/// What is asked, as JSON.
pub(crate) fn fields(session: SessionId, record: &ApprovalRecord) -> Value {
    let mut fields = json!({
        "approval": record.id, "session": session, "conversation": record.conversation, "turn": record.turn,
        "call": record.call, "asked": record.time, "until": record.until, "headline": headline(&record.question),
    });
    let more = match &record.question {
        Question::Call { tool, arguments, directory, acts, verdict, preview, .. } => json!({
            "kind": "call", "tool": tool, "arguments": arguments, "directory": directory, "acts": acts,
            "argv": argv(acts), "effect": verdict.effect, "rule": verdict.rule, "layer": verdict.layer,
            "diff": preview.as_ref().and_then(difference),
        }),
        Question::Unknown { tool, arguments } => {
            json!({"kind": "unknown", "tool": tool, "arguments": arguments})
        }
        Question::Person { text, choices } => json!({"kind": "person", "text": text, "choices": choices}),
    };
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    fields
}

/// The command that would run, where it is one.
fn argv(acts: &[everturn::policy::Act]) -> Option<&[String]> {
    acts.iter().find_map(|act| match act {
        everturn::policy::Act::Exec(argv) => Some(argv.as_slice()),
        _ => None,
    })
}

/// What can be answered, in one line.
pub(crate) fn answers(question: &Question) -> &'static str {
    match question {
        Question::Call { .. } => {
            "y allows it, a allows it for this session, n REASON denies it, e JSON allows it with these arguments"
        }
        Question::Unknown { .. } => "y TEXT says that it has run, n that it has not, s ends the turn",
        Question::Person { .. } => "type an answer, or its number; /no REASON refuses to answer",
    }
}

/// A decision as a person types it.
///
/// Errors: what can be answered.
pub(crate) fn read(question: &Question, line: &str) -> Result<Decision, String> {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let or =
        |given: &str, without: &str| if given.is_empty() { without.to_owned() } else { given.to_owned() };
    let decision = match (question, word) {
        (Question::Call { .. }, "y" | "yes") if rest.is_empty() => Decision::Allow,
        (Question::Call { .. }, "a" | "all") if rest.is_empty() => Decision::AllowForSession,
        (Question::Call { .. }, "n" | "no") => Decision::Deny { reason: or(rest, "the person said no") },
        (Question::Call { .. }, "e" | "edit") => match RawJson::parse(rest) {
            Ok(arguments) => Decision::Edit { arguments },
            Err(error) => return Err(error.to_string()),
        },
        (Question::Unknown { .. }, "y" | "yes") => {
            Decision::Happened { text: Some(rest.to_owned()).filter(|text| !text.is_empty()) }
        }
        (Question::Unknown { .. }, "n" | "no") if rest.is_empty() => Decision::DidNotHappen,
        (Question::Unknown { .. }, "s" | "stop") if rest.is_empty() => Decision::Stop,
        (Question::Person { .. }, "/no") => Decision::Deny { reason: or(rest, "the person gives no answer") },
        (Question::Person { choices, .. }, _) if !line.is_empty() => {
            let number = line.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
            Decision::Answer { text: number.map_or_else(|| line.to_owned(), Clone::clone) }
        }
        _ => return Err(answers(question).into()),
    };
    Ok(decision)
}

/// A decision in words.
pub(crate) fn said(decision: &Decision) -> String {
    clean::line(&decision.to_string())
}

#[cfg(test)]
mod tests;
