//! Requests on the wire, refused as the providers refuse them.
//!
//! Each checker takes the bytes of a body and says why its provider would answer with status 400. They know no more than what
//! the providers say of histories: which model there is, and what it costs, is no matter of theirs.

pub mod anthropic;
pub mod chat;
pub mod gemini;
pub mod openai;

use serde_json::Value;

/// Why a request would be refused.
type Refused = Result<(), String>;

fn read(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|fault| format!("the body is no JSON: {fault}"))
}

/// A list that must not be empty.
fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], String> {
    match value.get(name).and_then(Value::as_array) {
        Some(list) if !list.is_empty() => Ok(list),
        _ => Err(format!("{name} is no list, or an empty one, in {value}")),
    }
}

/// A text that must not be empty.
fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    match value.get(name).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(format!("{name} is no text, or an empty one, in {value}")),
    }
}

fn demand(holds: bool, why: impl FnOnce() -> String) -> Refused {
    if holds { Ok(()) } else { Err(why()) }
}

/// Calls that have no result yet.
#[derive(Default)]
struct Open(Vec<String>);

impl Open {
    fn begin(&mut self, id: &str) {
        self.0.push(id.to_owned());
    }

    fn end(&mut self, id: &str) -> Refused {
        let at = self.0.iter().position(|open| open == id);
        self.0.remove(at.ok_or_else(|| format!("a result for {id:?}, which is no open call"))?);
        Ok(())
    }

    fn none(&self, before: &str) -> Refused {
        demand(self.0.is_empty(), || format!("calls without a result before {before}: {:?}", self.0))
    }
}
