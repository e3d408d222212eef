//! Responses.

use std::collections::HashSet;

use serde_json::Value;

use super::{Open, Refused, demand, list, read, text};

/// The longest id of a call.
const ID_MAX: usize = 64;

/// Says why OpenAI would refuse a stateless request.
///
/// Shape: each call has a unique id of 64 bytes at most, arguments that are a text, and one output behind it; reasoning is
/// encrypted, and stands in front of what it led to.
///
/// ```
/// use everturn_testkit::strict::openai;
/// let body = br#"{"model":"m","input":[{"type":"reasoning","summary":[],"encrypted_content":"x"}]}"#;
/// assert!(openai::check(body).unwrap_err().contains("led to"));
/// ```
pub fn check(body: &[u8]) -> Refused {
    let body = read(body)?;
    text(&body, "model")?;
    demand(body["store"] != true, || "the server is to store it".into())?;
    let (mut open, mut seen) = (Open::default(), HashSet::new());
    let mut reasoning: Option<&Value> = None;
    for item in list(&body, "input")? {
        let kind = text(item, "type")?;
        let is_of_the_model = kind == "function_call" || (kind == "message" && item["role"] == "assistant");
        if let Some(reasoning) = reasoning.filter(|_| kind != "reasoning") {
            demand(is_of_the_model, || format!("reasoning without what it led to: {reasoning}"))?;
        }
        reasoning = None;
        match kind {
            "message" => _ = list(item, "content")?,
            "function_call" => call(item, &mut open, &mut seen)?,
            "function_call_output" => {
                demand(item["output"].is_string(), || format!("an output without text: {item}"))?;
                open.end(text(item, "call_id")?)?;
            }
            "reasoning" => {
                text(item, "encrypted_content")?;
                reasoning = Some(item);
            }
            _ => return Err(format!("an item that nobody knows: {item}")),
        }
    }
    demand(reasoning.is_none(), || "reasoning without what it led to, at the end".into())?;
    open.none("the end")
}

fn call(item: &Value, open: &mut Open, seen: &mut HashSet<String>) -> Refused {
    let id = text(item, "call_id")?;
    demand(id.len() <= ID_MAX, || format!("an id that is too long: {item}"))?;
    demand(seen.insert(id.to_owned()), || format!("an id that was used before: {item}"))?;
    text(item, "name")?;
    demand(item["arguments"].is_string(), || format!("arguments that are no text: {item}"))?;
    open.begin(id);
    Ok(())
}
