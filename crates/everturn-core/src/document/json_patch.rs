//! Operations as a JSON Patch (RFC 6902), for those who apply changes with a library of their own.

use serde_json::{Value, json};

use super::{
    apply::apply,
    operation::Operation,
    path::{Path, PathPart},
};
use crate::error::Result;

/// The JSON Patch (RFC 6902) that does to `before` what the operations do.
///
/// Shape: one object per operation of the patch, to be put into an array. The format knows neither appends nor trims:
/// they become a replacement of the whole string.
/// Errors: `Invalid`, when an operation does not apply.
///
/// ```
/// use everturn_core::document::{Operation, Path, to_json_patch};
/// use serde_json::json;
///
/// let more = Operation::Append { path: Path::from(["text"]), text: "er".into() };
/// let patch = to_json_patch(&json!({"text": "long"}), &[more]).unwrap();
/// assert_eq!(patch, [json!({"op": "replace", "path": "/text", "value": "longer"})]);
/// ```
pub fn to_json_patch(before: &Value, operations: &[Operation]) -> Result<Vec<Value>> {
    let mut value = before.clone();
    let mut patch = Vec::new();
    for operation in operations {
        apply(&mut value, operation)?;
        translate(operation, &value, &mut patch);
    }
    Ok(patch)
}

/// Adds what one operation becomes; `after` is the value that it led to.
fn translate(operation: &Operation, after: &Value, patch: &mut Vec<Value>) {
    let path = operation.path().pointer();
    match operation {
        Operation::Set { path: at, value } => {
            // On a key that is there, `add` replaces; in an array it would insert.
            let verb = if matches!(at.parts().last(), Some(PathPart::Key(_))) { "add" } else { "replace" };
            patch.push(json!({"op": verb, "path": path, "value": value}));
        }
        Operation::Remove { .. } => patch.push(json!({"op": "remove", "path": path})),
        Operation::Append { .. } | Operation::Trim { .. } => {
            patch.push(json!({"op": "replace", "path": path, "value": found(after, operation.path())}));
        }
        Operation::Splice { at, remove, insert, .. } => {
            let replaced = insert.len().min(*remove);
            for (index, value) in (*at..).zip(insert) {
                let verb = if index < at + replaced { "replace" } else { "add" };
                patch.push(json!({"op": verb, "path": format!("{path}/{index}"), "value": value}));
            }
            for _ in replaced..*remove {
                patch.push(json!({"op": "remove", "path": format!("{path}/{}", at + replaced)}));
            }
        }
        Operation::Replace { value } => patch.push(json!({"op": "replace", "path": path, "value": value})),
    }
}

fn found<'v>(value: &'v Value, path: &Path) -> &'v Value {
    path.parts().iter().fold(value, |value, part| match part {
        PathPart::Index(index) => &value[*index],
        PathPart::Key(key) => &value[key],
    })
}
