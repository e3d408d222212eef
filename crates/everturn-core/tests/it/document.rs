//! Documents: operations, differences, and typed values.

mod cases;
mod operations;
mod random;
mod types;

use everturn_core::document::{Operation, Value, diff, equal, fold, read, to_json_patch};

/// Checks that a difference leads from `before` to `after` on each way that an operation may go.
fn check_difference(before: &Value, after: &Value) -> Vec<Operation> {
    let operations = diff(before, after);
    assert_eq!(
        operations.is_empty(),
        equal(before, after),
        "no operation where nothing changed, and only there"
    );

    let replacement = Operation::Replace { value: after.clone() };
    let weight: usize = operations.iter().map(Operation::weight).sum();
    assert!(weight <= 2 * replacement.weight(), "{operations:?} weigh over twice what {after} does");

    let folded = fold(before.clone(), &operations).unwrap();
    assert!(equal(&folded, after), "{operations:?} lead to {folded}, not to {after}");

    let text = serde_json::to_string(&operations).unwrap();
    let weight: usize = operations.iter().map(|operation| operation.weight() + 1).sum();
    assert_eq!(text.len(), weight.max(1) + 1, "the weight is the stored form's: {text}");
    let stored: Vec<Operation> = read(&text).unwrap();
    assert!(equal(&fold(before.clone(), &stored).unwrap(), after), "the stored form {text} does the same");

    let patch = Value::Array(to_json_patch(before, &operations).unwrap());
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    let mut patched = before.clone();
    json_patch::patch(&mut patched, &patch).unwrap();
    assert!(equal(&patched, after), "{patch} leads to {patched}, not to {after}");
    operations
}

/// The name of an operation's kind, as it is stored.
fn kind(operation: &Operation) -> String {
    let stored = serde_json::to_value(operation).unwrap();
    stored.as_object().unwrap().keys().next().unwrap().clone()
}
