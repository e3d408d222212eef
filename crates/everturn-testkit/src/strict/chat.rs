//! Chat Completions.

use std::collections::HashSet;

use serde_json::Value;

use super::{Open, Refused, demand, list, read, text};

/// Says why a strict Chat Completions server would refuse a request.
///
/// Shape: each call has a unique id and arguments that are a text of JSON; the results of an answer's calls stand right
/// behind it, each once; an answer says something or calls.
///
/// ```
/// use everturn_testkit::strict::chat;
/// let body = br#"{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"b"}]}"#;
/// assert!(chat::check(body).unwrap_err().contains("no open call"));
/// ```
pub fn check(body: &[u8]) -> Refused {
    let body = read(body)?;
    text(&body, "model")?;
    let (mut open, mut seen) = (Open::default(), HashSet::new());
    for message in list(&body, "messages")? {
        match text(message, "role")? {
            "tool" => {
                demand(message["content"].is_string(), || format!("a result without text: {message}"))?;
                open.end(text(message, "tool_call_id")?)?;
                continue;
            }
            role => open.none(role)?,
        }
        let calls = message.get("tool_calls");
        if calls.is_some() {
            for call in list(message, "tool_calls")? {
                check_call(call, &mut open, &mut seen)?;
            }
        }
        let content = &message["content"];
        let is_said = content.is_string() || content.as_array().is_some_and(|parts| !parts.is_empty());
        demand(is_said || calls.is_some(), || format!("a message that says nothing: {message}"))?;
    }
    open.none("the end")
}

fn check_call(call: &Value, open: &mut Open, seen: &mut HashSet<String>) -> Refused {
    let id = text(call, "id")?;
    demand(call["type"] == "function", || format!("a call of no type: {call}"))?;
    demand(seen.insert(id.to_owned()), || format!("an id that was used before: {call}"))?;
    text(&call["function"], "name")?;
    let arguments = text(&call["function"], "arguments")?;
    let is_json = serde_json::from_str::<Value>(arguments).is_ok();
    demand(is_json, || format!("arguments that are no JSON: {call}"))?;
    open.begin(id);
    Ok(())
}
