//! An operation: one change to a document's value, as a delta stores it and a watcher sees it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{
    path::Path,
    value::{digits, list_overhead, text_weight, weight},
};

static ROOT: Path = Path::root();

/// One change to a document's value.
///
/// Shape: stored as an object with one key, `{"append":[["text"],"more"]}`; the path comes first, the rest in the
/// order of the fields. `remove` holds the path alone, `replace` the value alone.
///
/// ```
/// use everturn_core::document::{Operation, Path, apply};
/// use serde_json::json;
///
/// let more = Operation::Append { path: Path::from(["text"]), text: " more".into() };
/// assert_eq!(serde_json::to_string(&more).unwrap(), r#"{"append":[["text"]," more"]}"#);
///
/// let mut value = json!({"text": "some"});
/// apply(&mut value, &more).unwrap();
/// assert_eq!(value, json!({"text": "some more"}));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Gives the key of an object a value, there or not; or an item of an array that is there; or the root.
    Set {
        /// Where.
        path: Path,
        /// The new value.
        value: Value,
    },
    /// Takes away a key of an object, or an item of an array; what comes behind the item moves up.
    Remove {
        /// Where; not the root.
        path: Path,
    },
    /// Adds to the end of a string.
    Append {
        /// Where.
        path: Path,
        /// What is added.
        text: String,
    },
    /// Cuts off the front of a string.
    Trim {
        /// Where.
        path: Path,
        /// How many characters (Unicode scalar values) go; at most as many as there are.
        characters: usize,
    },
    /// Takes items out of an array and puts others in their place.
    Splice {
        /// The array.
        path: Path,
        /// The index of the first item that goes, and where the new ones come; at most the array's length.
        at: usize,
        /// How many items go; at most as many as there are from `at` on.
        remove: usize,
        /// What comes.
        insert: Vec<Value>,
    },
    /// Gives the document a new value.
    Replace {
        /// The new value.
        value: Value,
    },
}

impl Operation {
    /// The path that it changes.
    pub fn path(&self) -> &Path {
        match self {
            Self::Set { path, .. }
            | Self::Remove { path }
            | Self::Append { path, .. }
            | Self::Trim { path, .. }
            | Self::Splice { path, .. } => path,
            Self::Replace { .. } => &ROOT,
        }
    }

    /// What it weighs: the bytes of its stored form.
    ///
    /// ```
    /// use everturn_core::document::{Operation, Path};
    ///
    /// let remove = Operation::Remove { path: Path::from(["text"]) };
    /// assert_eq!(remove.weight(), r#"{"remove":["text"]}"#.len());
    /// ```
    pub fn weight(&self) -> usize {
        // `{"name":` and `}`, and where there are several parts `[`, `,` and `]`.
        let named = |name: &str| name.len() + 5;
        match self {
            Self::Set { path, value } => named("set") + 3 + path.weight() + weight(value),
            Self::Remove { path } => named("remove") + path.weight(),
            Self::Append { path, text } => named("append") + 3 + path.weight() + text_weight(text),
            Self::Trim { path, characters } => named("trim") + 3 + path.weight() + digits(*characters),
            Self::Splice { path, at, remove, insert } => {
                let items: usize = insert.iter().map(weight).sum::<usize>() + list_overhead(insert.len());
                named("splice") + 5 + path.weight() + digits(*at) + digits(*remove) + items
            }
            Self::Replace { value } => named("replace") + weight(value),
        }
    }

    /// What it attempts, in words that a path may follow.
    pub(super) fn attempt(&self) -> &'static str {
        match self {
            Self::Set { .. } => "set",
            Self::Remove { .. } => "remove",
            Self::Append { .. } => "append to",
            Self::Trim { .. } => "trim",
            Self::Splice { .. } => "splice",
            Self::Replace { .. } => "replace",
        }
    }
}

/// The stored form, with the parts in their order.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Set(Path, Value),
    Remove(Path),
    Append(Path, String),
    Trim(Path, usize),
    Splice(Path, usize, usize, Vec<Value>),
    Replace(Value),
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn named<S: Serializer>(
            serializer: S,
            number: u32,
            name: &'static str,
            parts: &impl Serialize,
        ) -> Result<S::Ok, S::Error> {
            serializer.serialize_newtype_variant("Operation", number, name, parts)
        }
        match self {
            Self::Set { path, value } => named(serializer, 0, "set", &(path, value)),
            Self::Remove { path } => named(serializer, 1, "remove", path),
            Self::Append { path, text } => named(serializer, 2, "append", &(path, text)),
            Self::Trim { path, characters } => named(serializer, 3, "trim", &(path, characters)),
            Self::Splice { path, at, remove, insert } => {
                named(serializer, 4, "splice", &(path, at, remove, insert))
            }
            Self::Replace { value } => named(serializer, 5, "replace", value),
        }
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Set(path, value) => Self::Set { path, value },
            Stored::Remove(path) => Self::Remove { path },
            Stored::Append(path, text) => Self::Append { path, text },
            Stored::Trim(path, characters) => Self::Trim { path, characters },
            Stored::Splice(path, at, remove, insert) => Self::Splice { path, at, remove, insert },
            Stored::Replace(value) => Self::Replace { value },
        })
    }
}
