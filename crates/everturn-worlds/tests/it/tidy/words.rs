//! Vocabulary: public names take the nouns of ARCHITECTURE.md.

use super::{check, sources};

/// Words for which we have another, with that other.
const REPLACED: &[(&str, &str)] = &[
    ("thread", "session, or conversation"),
    ("event_log", "commit"),
    ("run_id", "turn, or task"),
    ("message_id", "entry"),
    ("checkpointer", "store"),
    ("node", "step, or task"),
    ("workflow", "task"),
    ("job", "task"),
    ("plugin", "extension"),
    ("artifact", "blob"),
    ("permission", "verdict"),
    ("manager", "the noun that it manages"),
    ("util", "the noun that it helps"),
];

#[test]
fn public_names_use_our_nouns() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| source.path.contains("/src/")) {
        for name in source.text.lines().filter_map(public_name) {
            findings.extend(
                replaced(name)
                    .map(|(word, ours)| format!("{}: {name}: for {word:?} we say {ours}", source.path)),
            );
        }
    }
    check("a public name uses a word that ours replace", &findings);
}

/// The name of the public item that a line declares.
fn public_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace();
    let is_prefix = |word: &&str| ["async", "const", "unsafe"].contains(word);
    let mut word = words.next()?;
    // A constant is declared by the word that else stands before `fn`.
    let mut last = word;
    while is_prefix(&word) {
        (last, word) = (word, words.next()?);
    }
    let declares = ["fn", "struct", "enum", "trait", "type", "static", "mod", "union"].contains(&word);
    let name = if declares { words.next()? } else { word };
    let is_item = declares || last == "const" || name.ends_with(':');
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| is_item && !name.is_empty())
}

/// The words of a name for which we have another.
fn replaced(name: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let words = format!("_{}_", snake(name));
    let holds =
        move |word: &str| words.contains(&format!("_{word}_")) || words.contains(&format!("_{word}s_"));
    REPLACED.iter().filter(move |(word, _)| holds(word))
}

/// A name in lower case, words parted by `_`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[test]
fn names_are_read_and_taken_apart() {
    for (line, name) in [
        ("pub fn open(path: &str) {", Some("open")),
        ("    pub async fn commit(self) {", Some("commit")),
        ("pub const fn new() -> Self {", Some("new")),
        ("pub const ROOT: Self = Self(1);", Some("ROOT")),
        ("pub struct Store<T>(T);", Some("Store")),
        ("    pub run_id: String,", Some("run_id")),
        ("pub mod store;", Some("store")),
        ("pub use store::Store;", None),
        ("pub(crate) fn thread() {}", None),
        ("// pub fn open", None),
    ] {
        assert_eq!(public_name(line), name, "{line}");
    }
    for (name, words) in [
        ("ThreadId", vec!["thread"]),
        ("open_threads", vec!["thread"]),
        ("MESSAGE_ID", vec!["message_id"]),
        ("threaded", vec![]),
        ("Utility", vec![]),
        ("SessionId", vec![]),
    ] {
        assert_eq!(replaced(name).map(|(word, _)| *word).collect::<Vec<_>>(), words, "{name}");
    }
}
