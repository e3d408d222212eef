//! Structured answers: whether a text is the JSON value that was asked for.

use everturn_core::{document::Value, json::RawJson};

/// How many faults are named.
const NAMED_MAX: usize = 3;

/// The value in an answer; a fence around it is no part of it.
///
/// Errors: what is wrong with it, in words for the model.
pub(crate) fn value(text: &str) -> Result<RawJson, String> {
    RawJson::parse(unfenced(text)).map_err(|error| format!("it is no JSON value ({error})"))
}

/// Proves that an answer fits a schema.
///
/// Errors: what is wrong with it, in words for the model.
pub(crate) fn check(schema: &RawJson, text: &str) -> Result<(), String> {
    let value: Value = value(text)?.read().map_err(|error| error.to_string())?;
    let schema: Value = schema.read().map_err(|error| error.to_string())?;
    // A schema that says nothing sensible cannot be failed.
    let Ok(validator) = jsonschema::validator_for(&schema) else { return Ok(()) };
    let faults: Vec<_> = validator
        .iter_errors(&value)
        .take(NAMED_MAX)
        .map(|fault| match fault.instance_path().as_str() {
            "" => fault.to_string(),
            path => format!("{fault} at {path}"),
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// The text without a Markdown fence around all of it.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((_, value)) => value.trim(),
        None => text,
    }
}
