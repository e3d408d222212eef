//! Escapes of JSON strings that are half a character.

use std::borrow::Cow;

/// Replaces each lone surrogate (`\ud83d` without the other half) by `\ufffd`, which every reader takes.
///
/// Shape: `json` is JSON text; what is no lone surrogate keeps its bytes.
pub(crate) fn mend(json: &str) -> Cow<'_, str> {
    let lone = lone_surrogates(json);
    if lone.is_empty() {
        return Cow::Borrowed(json);
    }
    let mut mended = String::with_capacity(json.len());
    let mut from = 0;
    for at in lone {
        mended.push_str(&json[from..at]);
        mended.push_str("\\ufffd");
        from = at + 6;
    }
    mended.push_str(&json[from..]);
    Cow::Owned(mended)
}

/// Where lone surrogates begin.
fn lone_surrogates(json: &str) -> Vec<usize> {
    let mut lone = Vec::new();
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'\\', &json.as_bytes()[from..]) {
        let at = from + found;
        from = match (surrogate(json, at), surrogate(json, at + 6)) {
            (Some(Half::High), Some(Half::Low)) => at + 12,
            (Some(_), _) => {
                lone.push(at);
                at + 6
            }
            // An escape is at least two bytes, so that the second of `\\` is not taken for a first one.
            (None, _) => at + 2,
        };
        if from >= json.len() {
            break;
        }
    }
    lone
}

enum Half {
    High,
    Low,
}

/// The half that stands at `at` as an escape.
fn surrogate(json: &str, at: usize) -> Option<Half> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}
