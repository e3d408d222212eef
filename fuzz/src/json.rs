//! Changes to JSON that leave it JSON.

use everturn_core::document::{Value, read};
use serde_json::{Map, json};

use crate::Random;

/// Keys and texts that are hard to get right.
const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "0",
    "-",
    "a/b",
    "~1",
    "é",
    "e\u{301}",
    "🦊",
    "\"",
    "\\",
    "\n",
    "\0",
    "池池池池",
    "aaaaaaaaaaaaaaaa",
];

/// JSON text with one to four changes somewhere in it; none where it is no JSON.
pub fn change(text: &str, random: &mut Random) -> Option<String> {
    let mut root: Value = read(text).ok()?;
    for _ in 0..=random.below(4) {
        // What is there already is the best material: the rest of the input speaks of it.
        let piece = match random.below(3) {
            0 => leaf(random),
            _ => {
                let number = random.below(count(&root));
                nth(&mut root, number).clone()
            }
        };
        let number = random.below(count(&root));
        change_value(nth(&mut root, number), piece, random);
    }
    Some(root.to_string())
}

fn change_value(value: &mut Value, piece: Value, random: &mut Random) {
    match value {
        _ if random.below(4) == 0 => *value = piece,
        _ if random.below(16) == 0 => wrap(value, random),
        Value::Array(items) => change_items(items, piece, random),
        Value::Object(map) => change_fields(map, piece, random),
        Value::String(text) => change_text(text, random),
        _ => *value = leaf(random),
    }
}

fn wrap(value: &mut Value, random: &mut Random) {
    // Mostly once, now and then about as deep as a document may nest.
    let levels = if random.below(4) == 0 { 110 + random.below(20) } else { 1 };
    for _ in 0..levels {
        let inner = value.take();
        *value = if random.below(2) == 0 { json!([inner]) } else { json!({"a": inner}) };
    }
}

fn change_items(items: &mut Vec<Value>, piece: Value, random: &mut Random) {
    let at = random.below(items.len() + 1);
    match random.below(5) {
        0 if at < items.len() => drop(items.remove(at)),
        1 => items.truncate(at),
        2 => items.rotate_left(at),
        3 if at < items.len() => {
            let item = items[at].clone();
            items.splice(at..at, vec![item; random.below(8)]);
        }
        _ => items.insert(at, piece),
    }
}

fn change_fields(map: &mut Map<String, Value>, piece: Value, random: &mut Random) {
    let chosen = map.keys().nth(random.below(map.len() + 1)).cloned();
    let new = TEXTS[random.below(TEXTS.len())];
    match (random.below(3), chosen) {
        (0, Some(key)) => drop(map.remove(&key)),
        (1, Some(key)) => {
            let value = map.remove(&key).unwrap_or_default();
            map.insert(new.into(), value);
        }
        _ => drop(map.insert(new.into(), piece)),
    }
}

fn change_text(text: &mut String, random: &mut Random) {
    let at = text.floor_char_boundary(random.below(text.len() + 1));
    match random.below(4) {
        0 => text.truncate(at),
        1 => drop(text.drain(..at)),
        2 => text.extend_from_within(at..),
        _ => text.insert_str(at, TEXTS[random.below(TEXTS.len())]),
    }
}

fn leaf(random: &mut Random) -> Value {
    match random.below(10) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(i64::MIN),
        3 => json!(u64::MAX),
        4 => json!(-0.0),
        5 => json!(random.below(100) as f64 / 8.0),
        6 => json!([]),
        7 => json!({}),
        8 => json!(TEXTS[random.below(TEXTS.len())]),
        _ => json!(random.below(12)),
    }
}

/// How many values there are in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The value of that number, counted from a value on into it.
fn nth(value: &mut Value, number: usize) -> &mut Value {
    let Some(mut number) = number.checked_sub(1) else { return value };
    let inside: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => unreachable!("the number is below the count"),
    };
    for inner in inside {
        let many = count(inner);
        if number < many {
            return nth(inner, number);
        }
        number -= many;
    }
    unreachable!("the number is below the count")
}
