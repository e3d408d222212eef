//! Gemini.

use serde_json::Value;

use super::{Refused, demand, list, read, text};

/// Says why Gemini would refuse a request.
///
/// Shape: no content is without parts, and no part without data; behind a content with calls comes one with as many
/// results, by the same names. With `signed`, as models from 3 on have it, the first call of each answer behind the last
/// text of the user is signed, or says that it is not.
///
/// ```
/// use everturn_testkit::strict::gemini;
/// let body = br#"{"contents":[{"role":"user","parts":[]}]}"#;
/// assert!(gemini::check(body, false).unwrap_err().contains("parts"));
/// ```
pub fn check(body: &[u8], signed: bool) -> Refused {
    let body = read(body)?;
    let contents = list(&body, "contents")?;
    let mut open: Vec<&str> = Vec::new();
    for content in contents {
        let (role, parts) = (text(content, "role")?, list(content, "parts")?);
        let names = |key: &'static str| parts.iter().filter_map(move |part| part.get(key)?["name"].as_str());
        parts.iter().try_for_each(|part| check_part(part, role))?;
        let results: Vec<_> = names("functionResponse").collect();
        demand(sorted(&results) == sorted(&open), || format!("results {results:?} for calls {open:?}"))?;
        open = names("functionCall").collect();
    }
    demand(open.is_empty(), || format!("calls without results: {open:?}"))?;
    if signed { check_signed(contents) } else { Ok(()) }
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

fn check_part(part: &Value, role: &str) -> Refused {
    let is_signed = part.get("thoughtSignature").is_some();
    let is_said = part["text"].as_str().is_some_and(|text| is_signed || !text.is_empty());
    let is_call = part["functionCall"]["args"].is_object() && role == "model";
    let is_result = part["functionResponse"]["response"].is_object() && role == "user";
    demand(is_said || is_call || is_result, || format!("a part that the {role} cannot have: {part}"))
}

fn check_signed(contents: &[Value]) -> Refused {
    let is_asked = |content: &Value| {
        content["role"] == "user"
            && content["parts"].as_array().is_some_and(|parts| parts.iter().any(is_text))
    };
    let turn = contents.iter().rposition(is_asked).unwrap_or(0);
    for content in &contents[turn..] {
        let calls = list(content, "parts")?.iter().filter(|part| part.get("functionCall").is_some());
        if let Some(first) = calls.take(1).next() {
            demand(first.get("thoughtSignature").is_some(), || {
                format!("a call without its signature: {first}")
            })?;
        }
    }
    Ok(())
}

fn is_text(part: &Value) -> bool {
    part.get("text").is_some()
}
