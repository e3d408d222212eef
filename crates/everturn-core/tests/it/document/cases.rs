//! The cases in `fixtures/documents`; its README says what each field means.

use std::{fs, path::Path};

use everturn_core::document::{Operation, Value, equal};
use serde::Deserialize;

use super::{check_difference, kind};

#[derive(Deserialize)]
struct Case {
    name: String,
    why: String,
    before: Value,
    after: Value,
    max_ops: Option<usize>,
    expect_kind: Option<Vec<String>>,
}

#[test]
fn every_case_has_its_difference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/documents");
    let mut failed = Vec::new();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|end| end == "json") {
            let case: Case = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            count += 1;
            if let Err(fault) = check(&case) {
                failed.push(format!("{} ({}): {fault}", case.name, case.why));
            }
        }
    }
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(count, 67, "no case is lost");
}

fn check(case: &Case) -> Result<(), String> {
    check_difference(&case.after, &case.before);
    let operations = check_difference(&case.before, &case.after);
    if case.max_ops.is_some_and(|max| operations.len() > max) {
        return Err(format!("too many operations: {operations:?}"));
    }
    if case.name.starts_with("key-order") && !operations.is_empty() {
        return Err(format!("only the order of keys differs: {operations:?}"));
    }
    if let Some(expected) = &case.expect_kind {
        let (mut found, mut expected): (Vec<_>, _) =
            (operations.iter().map(kind).collect(), expected.clone());
        found.sort();
        expected.sort();
        if found != expected {
            return Err(format!("other kinds: {operations:?}"));
        }
    }
    operations.iter().try_for_each(|operation| holds_the_new_text_alone(case, operation))
}

fn holds_the_new_text_alone(case: &Case, operation: &Operation) -> Result<(), String> {
    let Operation::Append { path, text } = operation else {
        return Ok(());
    };
    let string = |value: &Value| Some(value.pointer(&path.pointer())?.as_str()?.to_owned());
    // A trim in front of the append is the one reason for the old text not to be all there.
    match (string(&case.before), string(&case.after)) {
        (Some(before), Some(after)) if after.starts_with(&before) && format!("{before}{text}") != after => {
            Err(format!("an append of {text:?} to get {after:?}"))
        }
        _ => Ok(()),
    }
}

#[test]
fn equality_is_strict() {
    let value = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    for (a, b) in [
        ("1", "1.0"),
        ("0.0", "-0.0"),
        ("9007199254740992", "9007199254740993"),
        ("18446744073709551614", "18446744073709551615"),
        ("[null]", "[]"),
        (r#"{"a":null}"#, "{}"),
        ("\"é\"", "\"e\u{301}\""),
    ] {
        assert!(!equal(&value(a), &value(b)), "{a} is not {b}");
        assert!(equal(&value(a), &value(a)), "{a} is {a}");
    }
    assert!(equal(&value(r#"{"a":[1],"b":2}"#), &value(r#"{"b":2,"a":[1]}"#)));
}
