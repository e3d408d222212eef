//! A path: the way from a document's root to a value inside it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::value::{digits, text_weight};

/// The way from a document's root to a value: keys and indexes, each as it is.
///
/// Shape: stored as a JSON array, keys as strings and indexes as numbers, so that index `0` and key `"0"` differ.
/// It prints as a JSON pointer (RFC 6901).
///
/// ```
/// use everturn_core::document::Path;
///
/// let path = Path::root().key("turns").index(1).key("in/out");
/// assert_eq!(path.to_string(), "/turns/1/in~1out");
/// assert_eq!(serde_json::to_string(&path).unwrap(), r#"["turns",1,"in/out"]"#);
/// assert_eq!(Path::from(["a", "b"]), Path::root().key("a").key("b"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Path(Vec<PathPart>);

/// One part of a path: what to look up in an object, or in an array.
///
/// ```
/// use everturn_core::document::PathPart;
/// assert_ne!(PathPart::from("0"), PathPart::from(0), "a key that is a number is no index");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathPart {
    /// The place in an array, from 0.
    Index(usize),
    /// The key in an object, unescaped.
    Key(String),
}

impl Path {
    /// The path of the root.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// The path of `key` in the object at this path.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.push(PathPart::Key(key.into()));
        self
    }

    /// The path of the item at `index` in the array at this path.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(PathPart::Index(index));
        self
    }

    /// The parts, from the root on.
    pub fn parts(&self) -> &[PathPart] {
        &self.0
    }

    /// The path as a JSON pointer (RFC 6901); the root's is empty.
    pub fn pointer(&self) -> String {
        pointer(&self.0)
    }

    /// Bytes of the stored form.
    pub(super) fn weight(&self) -> usize {
        let parts: usize = self.0.iter().map(PathPart::weight).sum();
        2 + parts + self.0.len().saturating_sub(1)
    }
}

impl PathPart {
    fn weight(&self) -> usize {
        match self {
            Self::Index(index) => digits(*index),
            Self::Key(key) => text_weight(key),
        }
    }
}

/// The JSON pointer of some parts.
pub(super) fn pointer(parts: &[PathPart]) -> String {
    let mut text = String::new();
    for part in parts {
        text.push('/');
        match part {
            PathPart::Index(index) => text.push_str(&index.to_string()),
            PathPart::Key(key) => text.push_str(&key.replace('~', "~0").replace('/', "~1")),
        }
    }
    text
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the root") } else { f.write_str(&self.pointer()) }
    }
}

impl From<usize> for PathPart {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl From<&str> for PathPart {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}

impl From<String> for PathPart {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl<P: Into<PathPart>, const N: usize> From<[P; N]> for Path {
    fn from(parts: [P; N]) -> Self {
        parts.into_iter().collect()
    }
}

impl<P: Into<PathPart>> FromIterator<P> for Path {
    fn from_iter<I: IntoIterator<Item = P>>(parts: I) -> Self {
        Self(parts.into_iter().map(Into::into).collect())
    }
}
