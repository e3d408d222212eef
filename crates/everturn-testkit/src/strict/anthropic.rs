//! Messages.

use std::collections::HashSet;

use serde_json::Value;

use super::{Open, Refused, demand, list, read, text};

/// Says why Anthropic would refuse a request.
///
/// Shape: the first message is the user's and the last is not the assistant's; no text is blank; results stand first in the
/// message behind their calls, each once; ids of calls are unique, of letters, digits, `_` and `-`; an input is an object;
/// thinking is signed; there are four cache marks at most, none on thinking.
///
/// ```
/// use everturn_testkit::strict::anthropic;
/// let body = br#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":" "}]}]}"#;
/// assert!(anthropic::check(body).unwrap_err().contains("blank"));
/// ```
pub fn check(body: &[u8]) -> Refused {
    let body = read(body)?;
    text(&body, "model")?;
    demand(body["max_tokens"].as_u64().is_some_and(|most| most > 0), || "max_tokens is missing".into())?;
    let messages = list(&body, "messages")?;
    demand(messages[0]["role"] == "user", || "the first message is not the user's".into())?;
    let last = &messages[messages.len() - 1];
    demand(last["role"] != "assistant", || "the last message is the assistant's".into())?;
    let marks = count(&body, "cache_control");
    demand(marks <= 4, || format!("{marks} cache marks"))?;
    if body.get("system").is_some() {
        list(&body, "system")?.iter().try_for_each(is_said)?;
    }
    let (mut open, mut seen) = (Open::default(), HashSet::new());
    for message in messages {
        check_message(message, &mut open, &mut seen)?;
    }
    open.none("the end")
}

/// How often a key stands anywhere.
fn count(value: &Value, key: &str) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(fields.contains_key(key))
                + fields.values().map(|value| count(value, key)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|value| count(value, key)).sum(),
        _ => 0,
    }
}

fn check_message(message: &Value, open: &mut Open, seen: &mut HashSet<String>) -> Refused {
    let role = text(message, "role")?;
    let mut are_results_over = false;
    for block in list(message, "content")? {
        let kind = text(block, "type")?;
        if kind == "tool_result" {
            demand(role == "user" && !are_results_over, || format!("a result is not first: {block}"))?;
            open.end(text(block, "tool_use_id")?)?;
            continue;
        }
        are_results_over = true;
        if role != "assistant" {
            open.none(&block.to_string())?;
        }
        match (role, kind) {
            (_, "text") => is_said(block)?,
            ("assistant", "tool_use") => call(block, open, seen)?,
            ("assistant", "thinking") => {
                text(block, "signature")?;
                demand(block["thinking"].is_string(), || format!("thinking without text: {block}"))?;
                demand(block.get("cache_control").is_none(), || format!("marked thinking: {block}"))?;
            }
            ("assistant", "redacted_thinking") => _ = text(block, "data")?,
            _ => return Err(format!("a block that the {role} cannot have: {block}")),
        }
    }
    Ok(())
}

fn is_said(block: &Value) -> Refused {
    demand(!text(block, "text")?.trim().is_empty(), || format!("a blank text: {block}"))
}

fn call(block: &Value, open: &mut Open, seen: &mut HashSet<String>) -> Refused {
    let id = text(block, "id")?;
    let is_legal = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    demand(is_legal, || format!("an id that is none: {block}"))?;
    demand(seen.insert(id.to_owned()), || format!("an id that was used before: {block}"))?;
    text(block, "name")?;
    demand(block["input"].is_object(), || format!("an input that is no object: {block}"))?;
    open.begin(id);
    Ok(())
}
