//! Random values and random operations.

use everturn_core::document::{Operation, Path, PathPart, Value, apply, equal, read, weight};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, json};

use super::check_difference;

const KEYS: [&str; 10] = ["a", "b", "", "0", "-", "a/b", "~1", "é", "e\u{301}", "🦊"];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(select(vec!['a', 'b', 'é', '🦊', '池', '"', '\\', '\n', '\0']), 0..12)
            .prop_map(String::from_iter),
        vec(any::<char>(), 0..8).prop_map(String::from_iter),
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<u64>().prop_map(|bits| json!(Some(f64::from_bits(bits)).filter(|float| float.is_finite()))),
        select(vec![json!(i64::MIN), json!(u64::MAX), json!(0.0), json!(-0.0), json!(1.0), json!(5e-324)]),
        text().prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let tree = leaf().prop_recursive(5, 48, 8, |inner| {
        let key = prop_oneof![4 => select(KEYS.to_vec()).prop_map(String::from), 1 => text()];
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::Array),
            vec((key, inner), 0..8).prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    });
    // Mostly as it is, now and then far down.
    (tree, prop_oneof![9 => Just(0usize), 1 => 1..120usize]).prop_map(|(value, levels)| {
        (0..levels).fold(
            value,
            |value, level| {
                if level % 2 == 0 { json!([value]) } else { json!({"k": value}) }
            },
        )
    })
}

fn path() -> impl Strategy<Value = Path> {
    let part = prop_oneof![
        select(KEYS.to_vec()).prop_map(PathPart::from),
        (0..4usize).prop_map(PathPart::from),
        any::<usize>().prop_map(PathPart::from),
    ];
    prop_oneof![9 => vec(part, 0..4), 1 => vec(Just(PathPart::from(0)), 120..140)].prop_map(Path::from_iter)
}

fn operation() -> impl Strategy<Value = Operation> {
    let number = || prop_oneof![9 => 0..5usize, 1 => any::<usize>()];
    prop_oneof![
        (path(), value()).prop_map(|(path, value)| Operation::Set { path, value }),
        path().prop_map(|path| Operation::Remove { path }),
        (path(), text()).prop_map(|(path, text)| Operation::Append { path, text }),
        (path(), number()).prop_map(|(path, characters)| Operation::Trim { path, characters }),
        (path(), number(), number(), vec(value(), 0..4))
            .prop_map(|(path, at, remove, insert)| { Operation::Splice { path, at, remove, insert } }),
        value().prop_map(|value| Operation::Replace { value }),
    ]
}

/// A path to a random place that is there, with its value: `choices` say which way to go.
fn place<'v>(mut value: &'v Value, choices: &[usize]) -> (Path, &'v Value) {
    let mut path = Path::root();
    for choice in choices {
        match value {
            Value::Array(items) if !items.is_empty() => {
                let index = choice % items.len();
                (path, value) = (path.index(index), &items[index]);
            }
            Value::Object(map) if !map.is_empty() => {
                let (key, inner) = map.iter().nth(choice % map.len()).unwrap();
                (path, value) = (path.key(key), inner);
            }
            _ => break,
        }
    }
    (path, value)
}

/// An operation that changes a place that is there.
fn change(value: &Value, choices: &[usize], new: &Value, text: &str) -> Operation {
    let (path, found) = place(value, choices);
    let choice = choices.iter().fold(0usize, |sum, choice| sum.wrapping_add(*choice));
    match found {
        Value::Array(items) => {
            let at = choice % (items.len() + 1);
            let remove = choice / 7 % (items.len() - at + 1);
            Operation::Splice { path, at, remove, insert: vec![new.clone(); choice / 11 % 3] }
        }
        Value::String(old) if choice % 3 == 0 => {
            Operation::Trim { path, characters: choice % (old.chars().count() + 1) }
        }
        Value::String(_) if choice % 3 == 1 => Operation::Append { path, text: text.into() },
        Value::Object(_) => Operation::Set { path: path.key(KEYS[choice % KEYS.len()]), value: new.clone() },
        _ => Operation::Set { path, value: new.clone() },
    }
}

proptest! {
    #[test]
    fn a_difference_leads_from_any_value_to_any_other(before in value(), after in value()) {
        check_difference(&before, &after);
    }

    #[test]
    fn a_difference_finds_what_operations_did(
        before in value(),
        changes in vec((vec(0..100usize, 0..6), leaf(), text()), 1..6),
    ) {
        let mut after = before.clone();
        for (choices, new, text) in &changes {
            let operation = change(&after, choices, new, text);
            apply(&mut after, &operation).unwrap();
        }
        check_difference(&before, &after);
        check_difference(&after, &before);
    }

    #[test]
    fn any_operation_applies_or_leaves_the_value_as_it_was(value in value(), operation in operation()) {
        let stored = serde_json::to_string(&operation).unwrap();
        prop_assert_eq!(stored.len(), operation.weight());
        let stored: Operation = read(&stored).unwrap();

        let mut after = value.clone();
        let result = apply(&mut after, &operation);
        if result.is_err() {
            prop_assert!(equal(&after, &value));
        }
        let mut again = value;
        prop_assert_eq!(apply(&mut again, &stored).is_ok(), result.is_ok());
        prop_assert!(equal(&again, &after));
    }

    #[test]
    fn a_value_survives_its_stored_form_and_weighs_as_much(value in value()) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(text.len(), weight(&value));
        prop_assert!(equal(&read::<Value>(&text).unwrap(), &value));
    }
}
