//! Differences of documents lead from one value to the other, and no operation panics.
//!
//! Input: a JSON array of the value before, the value after, and operations of any kind.

#![no_main]

use everturn_core::document::{Operation, Value, apply, diff, equal, fold, read, to_json_patch};
use everturn_fuzz::{json, mutate};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(values) = read::<Vec<Value>>(text) else { return };
    let [before, after, operations @ ..] = values.as_slice() else { return };
    check_difference(before, after);
    check_difference(after, before);
    let mut value = before.clone();
    for operation in operations {
        if let Ok(operation) = serde_json::from_value(operation.clone()) {
            check_operation(&mut value, &operation);
        }
    }
});

fuzz_mutator!(|bytes: &mut [u8], size: usize, max: usize, seed: u32| {
    mutate(bytes, size, max, seed, json::change)
});

fn check_difference(before: &Value, after: &Value) {
    let operations = diff(before, after);
    assert_eq!(
        operations.is_empty(),
        equal(before, after),
        "no operation where nothing changed, and only there"
    );

    let replacement = Operation::Replace { value: after.clone() };
    let weight: usize = operations.iter().map(Operation::weight).sum();
    assert!(weight <= 2 * replacement.weight(), "{operations:?} weigh over twice what {after} does");

    // An array around a value lets it nest deeper than a document may, and for that nothing is promised.
    if apply(&mut Value::Null, &replacement).is_err() {
        return;
    }
    let leads = |operations: &[Operation]| {
        let folded =
            fold(before.clone(), operations).expect("a difference applies to what it was taken from");
        assert!(equal(&folded, after), "{operations:?} lead to {folded}, not to {after}");
    };
    leads(&operations);
    let stored = serde_json::to_string(&operations).expect("operations have a stored form");
    leads(&read::<Vec<Operation>>(&stored).expect("the stored form is read again"));
    to_json_patch(before, &operations).expect("a difference is a patch of what it was taken from");
}

fn check_operation(value: &mut Value, operation: &Operation) {
    let stored = serde_json::to_string(operation).expect("an operation has a stored form");
    assert_eq!(stored.len(), operation.weight(), "{stored}");
    let before = value.clone();
    let is_translated = to_json_patch(value, std::slice::from_ref(operation)).is_ok();
    let is_applied = apply(value, operation).is_ok();
    assert!(
        is_applied || equal(value, &before),
        "{operation:?} was refused, and changed {before} to {value}"
    );
    assert_eq!(is_applied, is_translated, "{operation:?} on {before}");
}
