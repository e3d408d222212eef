//! Applying operations: from a value and what changes to the value after.

use std::ops::Range;

use serde_json::Value;

use super::{
    operation::Operation,
    path::{Path, PathPart, pointer},
    value::{DEPTH_MAX, nests_within},
};
use crate::error::{Error, Result};

/// Changes a value by one operation.
///
/// Promise: all of the operation or nothing; an error leaves the value as it was. Nothing panics, and no depth
/// overflows the stack.
/// Errors: `Invalid`, naming the path: it does not resolve, something of another kind is there, a position is out of
/// bounds, or the result would nest deeper than [`DEPTH_MAX`].
///
/// ```
/// use everturn_core::document::{Operation, Path, apply};
/// use serde_json::json;
///
/// let mut value = json!({"turns": [{"out": 1}]});
/// let path = Path::root().key("turns").index(0).key("out");
/// let error = apply(&mut value, &Operation::Append { path, text: "x".into() }).unwrap_err();
/// assert_eq!(error.to_string(), "append to /turns/0/out: there is a number, not a string");
/// ```
pub fn apply(value: &mut Value, operation: &Operation) -> Result<()> {
    let result = check_depth(operation).and_then(|()| match operation {
        Operation::Set { path, value: new } => set(value, path, new),
        Operation::Remove { path } => remove(value, path),
        Operation::Append { path, text } => string(value, path).map(|found| found.push_str(text)),
        Operation::Trim { path, characters } => trim(value, path, *characters),
        Operation::Splice { path, at, remove, insert } => {
            splice(value, path, *at..at.saturating_add(*remove), insert)
        }
        Operation::Replace { value: new } => {
            *value = new.clone();
            Ok(())
        }
    });
    result.map_err(|fault| Error::invalid(format!("{} {}: {fault}", operation.attempt(), operation.path())))
}

/// Folds operations into a value, in their order.
///
/// Errors: `Invalid`, as [`apply`] says it, with the number of the operation (from 0) that does not apply.
///
/// ```
/// use everturn_core::document::{Operation, Path, fold};
/// use serde_json::json;
///
/// let log = [
///     Operation::Append { path: Path::from(["log"]), text: "c".into() },
///     Operation::Trim { path: Path::from(["log"]), characters: 1 },
/// ];
/// assert_eq!(fold(json!({"log": "ab"}), &log).unwrap(), json!({"log": "bc"}));
/// ```
pub fn fold(base: Value, operations: &[Operation]) -> Result<Value> {
    let mut value = base;
    for (number, operation) in operations.iter().enumerate() {
        apply(&mut value, operation).map_err(|error| error.while_(format!("operation {number}")))?;
    }
    Ok(value)
}

/// What is wrong, to be led in by what was attempted.
type Fault = String;

fn check_depth(operation: &Operation) -> Result<(), Fault> {
    let depth = operation.path().parts().len();
    let fits = depth <= DEPTH_MAX
        && match operation {
            Operation::Set { value, .. } | Operation::Replace { value } => {
                nests_within(value, DEPTH_MAX - depth)
            }
            Operation::Splice { insert, .. } => {
                // The array itself is a level.
                insert.is_empty()
                    || depth < DEPTH_MAX
                        && insert.iter().all(|item| nests_within(item, DEPTH_MAX - depth - 1))
            }
            Operation::Remove { .. } | Operation::Append { .. } | Operation::Trim { .. } => true,
        };
    if fits { Ok(()) } else { Err(format!("the document would nest deeper than {DEPTH_MAX} levels")) }
}

fn set(value: &mut Value, path: &Path, new: &Value) -> Result<(), Fault> {
    let Some((last, parents)) = path.parts().split_last() else {
        *value = new.clone();
        return Ok(());
    };
    match (resolve(value, parents)?, last) {
        (Value::Object(map), PathPart::Key(key)) => drop(map.insert(key.clone(), new.clone())),
        (parent, last) => *step(parent, last)? = new.clone(),
    }
    Ok(())
}

fn remove(value: &mut Value, path: &Path) -> Result<(), Fault> {
    let Some((last, parents)) = path.parts().split_last() else {
        return Err("a document has a root".into());
    };
    let parent = resolve(value, parents)?;
    step(parent, last)?;
    match (parent, last) {
        (Value::Object(map), PathPart::Key(key)) => drop(map.remove(key)),
        (Value::Array(items), PathPart::Index(index)) => drop(items.remove(*index)),
        _ => unreachable!("the last step was just taken"),
    }
    Ok(())
}

fn trim(value: &mut Value, path: &Path, characters: usize) -> Result<(), Fault> {
    let text = string(value, path)?;
    // The end of the text is a place to cut too.
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let Some(end) = ends.clone().nth(characters) else {
        return Err(format!("cut {characters} characters from a string of {}", ends.count() - 1));
    };
    text.drain(..end);
    Ok(())
}

fn splice(value: &mut Value, path: &Path, range: Range<usize>, insert: &[Value]) -> Result<(), Fault> {
    let items = match resolve(value, path.parts())? {
        Value::Array(items) => items,
        found => return Err(format!("there is {}, not an array", kind(found))),
    };
    if range.end > items.len() {
        return Err(format!("items {} to {} of an array of {}", range.start, range.end, items.len()));
    }
    items.splice(range, insert.iter().cloned());
    Ok(())
}

fn string<'v>(value: &'v mut Value, path: &Path) -> Result<&'v mut String, Fault> {
    match resolve(value, path.parts())? {
        Value::String(text) => Ok(text),
        found => Err(format!("there is {}, not a string", kind(found))),
    }
}

fn resolve<'v>(value: &'v mut Value, parts: &[PathPart]) -> Result<&'v mut Value, Fault> {
    let mut found = value;
    for (depth, part) in parts.iter().enumerate() {
        found = step(found, part).map_err(|fault| match depth {
            0 => fault,
            _ => format!("{fault} at {}", pointer(&parts[..depth])),
        })?;
    }
    Ok(found)
}

fn step<'v>(value: &'v mut Value, part: &PathPart) -> Result<&'v mut Value, Fault> {
    match (value, part) {
        (Value::Object(map), PathPart::Key(key)) => {
            map.get_mut(key).ok_or_else(|| format!("there is no key {key:?}"))
        }
        (Value::Array(items), PathPart::Index(index)) => {
            let length = items.len();
            items.get_mut(*index).ok_or_else(|| format!("there is no item {index} in an array of {length}"))
        }
        (found, PathPart::Key(key)) => Err(format!("there is {}, without a key {key:?}", kind(found))),
        (found, PathPart::Index(index)) => Err(format!("there is {}, without an item {index}", kind(found))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
