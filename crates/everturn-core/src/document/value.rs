//! What a document's value is: when two are equal, how deep one may nest, what it weighs, how it is read.

use std::fmt::{self, Write};

use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Number, Value};

use crate::error::{Error, Result};

/// How many objects and arrays of a document may stand inside one another, and how many parts a path may have.
pub const DEPTH_MAX: usize = 128;

/// What may stand around a stored value: a list of operations, the operation, its parts, and some room.
const ENVELOPE_MAX: usize = 8;

/// Whether two values are the same value of a document.
///
/// Promise: an integer is no float, zero has a sign, floats are compared by bits, strings by code points; the order
/// of keys does not count. No depth overflows the stack.
///
/// ```
/// use everturn_core::document::equal;
/// use serde_json::json;
///
/// assert!(equal(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})));
/// assert!(!equal(&json!(1), &json!(1.0)));
/// assert!(!equal(&json!(0.0), &json!(-0.0)));
/// ```
pub fn equal(a: &Value, b: &Value) -> bool {
    let mut pairs = vec![(a, b)];
    while let Some(pair) = pairs.pop() {
        match pair {
            (Value::Object(a), Value::Object(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                for (key, a) in a {
                    let Some(b) = b.get(key) else { return false };
                    pairs.push((a, b));
                }
            }
            (Value::Array(a), Value::Array(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                pairs.extend(a.iter().zip(b));
            }
            (Value::Number(a), Value::Number(b)) if same_number(a, b) => {}
            (Value::Number(_), Value::Number(_)) => return false,
            (a, b) if a == b => {}
            _ => return false,
        }
    }
    true
}

/// What a value weighs: the bytes of its JSON, without white space.
///
/// ```
/// use everturn_core::document::weight;
/// use serde_json::json;
///
/// assert_eq!(weight(&json!({"text": "a\n", "n": [1, 2.5]})), r#"{"text":"a\n","n":[1,2.5]}"#.len());
/// ```
pub fn weight(value: &Value) -> usize {
    weight_within(value, usize::MAX).unwrap_or(usize::MAX)
}

/// Reads stored JSON of a document: a value, or a list of operations.
///
/// Promise: whatever nests within [`DEPTH_MAX`] is read, the operations around it included. (serde_json alone reads
/// 127 levels.) Deeper text is refused, and never overflows the stack.
/// Errors: `Invalid`, saying where it does not fit.
///
/// ```
/// use everturn_core::document::{DEPTH_MAX, Value, read};
///
/// let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
/// assert!(read::<Value>(&nested(DEPTH_MAX)).is_ok());
/// assert!(read::<Value>(&nested(100_000)).is_err());
/// ```
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    let depth = nesting_of_text(text);
    if depth > DEPTH_MAX + ENVELOPE_MAX {
        return Err(Error::invalid(format!("read JSON: it nests {depth} levels; the limit is {DEPTH_MAX}")));
    }
    let mut deserializer = Deserializer::from_str(text);
    // The depth is known to be small.
    deserializer.disable_recursion_limit();
    T::deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|fault| Error::invalid(format!("read JSON: {fault}")).caused_by(fault))
}

/// The weight of a value, or none when it is over `limit`; stops counting there.
pub(super) fn weight_within(value: &Value, limit: usize) -> Option<usize> {
    let mut total = 0;
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        total += match value {
            Value::Null | Value::Bool(true) => 4,
            Value::Bool(false) => 5,
            Value::Number(number) => number_weight(number),
            Value::String(text) => text_weight(text),
            Value::Array(items) => {
                rest.extend(items);
                list_overhead(items.len())
            }
            Value::Object(map) => {
                rest.extend(map.values());
                let keys: usize = map.keys().map(|key| text_weight(key) + 1).sum();
                keys + list_overhead(map.len())
            }
        };
        // Each value that waits weighs a byte at least.
        if total + rest.len() > limit {
            return None;
        }
    }
    Some(total)
}

/// The weight of a list's brackets and commas.
pub(super) fn list_overhead(items: usize) -> usize {
    2 + items.saturating_sub(1)
}

/// The weight of a string: quotes, text and escapes.
pub(super) fn text_weight(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    });
    2 + text.len() + escapes.sum::<usize>()
}

/// How many digits an index has.
pub(super) fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Whether objects and arrays stand inside one another at most `limit` deep.
pub(super) fn nests_within(value: &Value, limit: usize) -> bool {
    let mut rest = vec![(value, limit)];
    while let Some((value, left)) = rest.pop() {
        match value {
            Value::Array(_) | Value::Object(_) if left == 0 => return false,
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, left - 1))),
            Value::Object(map) => rest.extend(map.values().map(|item| (item, left - 1))),
            _ => {}
        }
    }
    true
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (a.is_f64(), b.is_f64()) {
        (true, true) => a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits),
        (false, false) => a == b,
        _ => false,
    }
}

fn number_weight(number: &Number) -> usize {
    struct Count(usize);

    impl Write for Count {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }

    let mut count = Count(0);
    write!(count, "{number}").expect("counting does not fail");
    count.0
}

/// How deep brackets stand inside one another, strings left out.
fn nesting_of_text(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string) = (0usize, 0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // Whatever is escaped ends no string.
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
