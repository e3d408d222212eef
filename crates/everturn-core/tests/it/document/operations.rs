//! What operations do, what they refuse, and what a difference is made of.

use everturn_core::{
    ErrorKind,
    document::{DEPTH_MAX, Operation, Path, Value, apply, equal, read},
};
use serde_json::json;

use super::check_difference;

/// A number inside `levels` arrays.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!([value]))
}

#[test]
fn the_stored_form_is_stable() {
    let path = || Path::root().key("a").index(0);
    for (operation, stored) in [
        (Operation::Set { path: path(), value: json!({"b": 1}) }, r#"{"set":[["a",0],{"b":1}]}"#),
        (Operation::Remove { path: path() }, r#"{"remove":["a",0]}"#),
        (Operation::Append { path: path(), text: "x".into() }, r#"{"append":[["a",0],"x"]}"#),
        (Operation::Trim { path: path(), characters: 2 }, r#"{"trim":[["a",0],2]}"#),
        (
            Operation::Splice { path: path(), at: 1, remove: 2, insert: vec![json!(3)] },
            r#"{"splice":[["a",0],1,2,[3]]}"#,
        ),
        (Operation::Replace { value: json!(null) }, r#"{"replace":null}"#),
    ] {
        assert_eq!(serde_json::to_string(&operation).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Operation>(stored).unwrap(), operation);
        assert_eq!(operation.weight(), stored.len());
    }
    for odd in
        [r#"{"set":[["a"]]}"#, r#"{"trim":[["a"],-1]}"#, r#"{"remove":[-1]}"#, r#"{"move":["a"]}"#, "[]"]
    {
        assert!(serde_json::from_str::<Operation>(odd).is_err(), "{odd}");
    }
}

#[test]
fn what_does_not_apply_names_the_path_and_changes_nothing() {
    let before = json!({"text": "né", "list": [1, {"a": 2}], "0": 0});
    let refused = |stored: &str, expected: &str| {
        let operation: Operation = serde_json::from_str(stored).unwrap();
        let mut value = before.clone();
        let error = apply(&mut value, &operation).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (&ErrorKind::Invalid, expected), "{stored}");
        assert_eq!(value, before, "{stored}");
    };
    refused(r#"{"set":[["no","a"],1]}"#, "set /no/a: there is no key \"no\"");
    refused(r#"{"set":[["list",2],1]}"#, "set /list/2: there is no item 2 in an array of 2");
    refused(r#"{"set":[["list","0"],1]}"#, "set /list/0: there is an array, without a key \"0\"");
    refused(r#"{"set":[[0],1]}"#, "set /0: there is an object, without an item 0");
    refused(r#"{"set":[["list",1,"a","b"],1]}"#, "set /list/1/a/b: there is a number, without a key \"b\"");
    refused(
        r#"{"append":[["list",1,"b","c"],"x"]}"#,
        "append to /list/1/b/c: there is no key \"b\" at /list/1",
    );
    refused(r#"{"remove":["no"]}"#, "remove /no: there is no key \"no\"");
    refused(r#"{"remove":[]}"#, "remove the root: a document has a root");
    refused(r#"{"append":[["0"],"x"]}"#, "append to /0: there is a number, not a string");
    refused(r#"{"trim":[["text"],3]}"#, "trim /text: cut 3 characters from a string of 2");
    refused(r#"{"splice":[["text"],0,0,[]]}"#, "splice /text: there is a string, not an array");
    refused(r#"{"splice":[["list"],1,2,[]]}"#, "splice /list: items 1 to 3 of an array of 2");
    let last = usize::MAX;
    refused(
        &format!(r#"{{"splice":[["list"],3,{last},[]]}}"#),
        &format!("splice /list: items 3 to {last} of an array of 2"),
    );
}

#[test]
fn a_trim_counts_characters() {
    let mut value = json!("🦊é池x");
    for (characters, left) in [(2, "池x"), (0, "池x"), (2, "")] {
        apply(&mut value, &Operation::Trim { path: Path::root(), characters }).unwrap();
        assert_eq!(value, json!(left));
    }
}

#[test]
fn a_document_nests_128_levels_and_no_more() {
    let path: Path = std::iter::repeat_n(0, DEPTH_MAX - 1).collect();
    let depth_error = |value: &mut Value, operation: &Operation| {
        let error = apply(value, operation).unwrap_err().to_string();
        assert!(error.ends_with(": the document would nest deeper than 128 levels"), "{error}");
    };
    let mut value = nested(DEPTH_MAX);
    let before = value.clone();
    depth_error(&mut value, &Operation::Replace { value: nested(DEPTH_MAX + 1) });
    depth_error(&mut value, &Operation::Set { path: path.clone().index(0), value: json!([]) });
    depth_error(
        &mut value,
        &Operation::Splice { path: path.clone(), at: 0, remove: 0, insert: vec![json!({})] },
    );
    depth_error(&mut value, &Operation::Remove { path: path.clone().index(0).index(0) });
    assert_eq!(value, before);

    apply(&mut value, &Operation::Splice { path: path.clone(), at: 0, remove: 1, insert: vec![json!(2)] })
        .unwrap();
    apply(&mut value, &Operation::Replace { value: before.clone() }).unwrap();
    apply(&mut value, &Operation::Set { path: path.index(0), value: json!("x") }).unwrap();
    check_difference(&before, &value);
    check_difference(&json!({"a": null}), &before);
    check_difference(&json!([1, 2]), &json!([1, nested(DEPTH_MAX - 1)]));
}

#[test]
fn nesting_without_end_does_not_overflow_the_stack() {
    let deep = || (0..100_000).fold(Value::Null, |value, _| Value::Array(vec![value]));
    let (a, b) = (deep(), deep());
    assert!(equal(&a, &b));
    let operation = Operation::Replace { value: a };
    assert!(apply(&mut Value::Null, &operation).is_err());
    assert!(read::<Value>(&"[".repeat(100_000)).is_err());
    // To drop such a value would overflow the stack, which is not what this test is about.
    std::mem::forget((operation, b));
}

#[test]
fn a_difference_says_what_happened() {
    let check = |before: Value, after: Value, expected: Value| {
        let operations = check_difference(&before, &after);
        assert_eq!(serde_json::to_value(operations).unwrap(), expected, "{before} to {after}");
    };
    check(
        json!({"log": "first line\nsecond line\n"}),
        json!({"log": "second line\nthird line\n"}),
        json!([{"trim": [["log"], 11]}, {"append": [["log"], "third line\n"]}]),
    );
    check(
        json!([{"id": "alpha"}, {"id": "beta"}, {"id": "gamma"}, {"id": "delta"}]),
        json!([{"id": "beta"}, {"id": "gamma"}, {"id": "delta"}, {"id": "epsilon"}]),
        json!([{"splice": [[], 0, 1, []]}, {"splice": [[], 3, 0, [{"id": "epsilon"}]]}]),
    );
    check(
        json!([{"id": 1, "state": "doing", "text": "Measure twice"}]),
        json!([{"id": 1, "state": "done", "text": "Measure twice"}, {"id": 2}]),
        json!([{"set": [[0, "state"], "done"]}, {"splice": [[], 1, 0, [{"id": 2}]]}]),
    );
    check(json!([1, 2, 3, 4]), json!([1, 8, 9, 4]), json!([{"splice": [[], 1, 2, [8, 9]]}]));
    check(
        json!({"a": {"b": 1, "c": 2, "d": 3, "e": 4, "f": 5}}),
        json!({"a": {"g": 1}}),
        json!([{"set": [["a"], {"g": 1}]}]),
    );
}

// The half of an odd weight was rounded down, so that a difference of 51 bytes stood for a replacement of 25.
// Guards that a difference weighs at most twice what a replacement does, to the byte.
#[test]
fn a_difference_of_an_odd_weight_is_not_over_the_limit() {
    let after = json!({"-": 0, "s": 0});
    let operations = check_difference(&json!({"~1": 1}), &after);
    assert_eq!(operations, [Operation::Replace { value: after }]);
}

#[test]
fn long_values_are_compared_in_a_time_that_grows_with_them() {
    let list = |from: usize, to: usize| -> Vec<Value> { (from..to).map(|n| json!({"n": n})).collect() };
    let (before, mut after) = (list(0, 100_000), list(10, 100_010));
    after[50_000] = json!({"n": "other"});
    assert_eq!(check_difference(&Value::Array(before), &Value::Array(after)).len(), 3);

    let log = |from: usize, to: usize| -> Value {
        (from..to).map(|n| format!("line {n}\n")).collect::<String>().into()
    };
    assert_eq!(check_difference(&log(0, 100_000), &log(10, 100_010)).len(), 2);
    assert_eq!(check_difference(&"ab".repeat(500_000).into(), &"ba".repeat(500_000).into()).len(), 2);
    assert_eq!(check_difference(&json!(vec![0; 100_000]), &json!(vec![1; 100_000])).len(), 1);
}
