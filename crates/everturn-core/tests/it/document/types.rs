//! Documents as types: reading, writing, migrating.

use std::collections::{BTreeMap, HashMap};

use everturn_core::{
    Error, ErrorKind, Result,
    document::{Document, ForkPolicy, History, Scope, ScopeKey, Value, decode, encode},
    id::{ConversationId, TaskId},
    json::RawJson,
    limits::Limits,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Document, Serialize, Deserialize, Default, Debug, PartialEq)]
#[document(kind = "test.notes", version = 3, scope = "conversation", history = "rewindable", fork = "as_of")]
#[document(migrate = bring_notes, crate = "everturn_core")]
struct Notes {
    text: String,
    marks: Vec<Mark>,
}

#[derive(Serialize, Deserialize, Default, Debug, PartialEq)]
struct Mark {
    line: u32,
}

/// Version 2 had no marks; version 1 is forgotten.
fn bring_notes(mut value: Value, from: u32) -> Result<Value> {
    if from < 2 {
        return Err(Error::invalid(format!("read document test.notes: version {from} is too old")));
    }
    value["marks"] = json!([]);
    Ok(value)
}

#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.job", version = 2, scope = "task", crate = "everturn_core")]
struct Job {}

/// A document around whatever is to be written.
#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.any", crate = "everturn_core")]
#[serde(bound = "")]
struct Any<T: Serialize + for<'a> Deserialize<'a> + Default + Send + Sync + 'static> {
    value: T,
}

#[test]
fn the_attribute_becomes_the_trait() {
    assert_eq!((Notes::KIND, Notes::VERSION), ("test.notes", 3));
    assert_eq!((Notes::HISTORY, Notes::FORK), (History::Rewindable, ForkPolicy::AsOf));
    assert_eq!((Job::HISTORY, Job::FORK), (History::Latest, ForkPolicy::Initial));

    fn key<T: Document>(scope: T::Scope) -> ScopeKey {
        scope.key()
    }
    assert_eq!(key::<Notes>(ConversationId(4)), ScopeKey::Conversation(ConversationId(4)));
    assert_eq!(key::<Job>(TaskId(5)), ScopeKey::Task(TaskId(5)));
    assert_eq!(key::<Any<u32>>(()), ScopeKey::Session);
    assert_eq!(
        serde_json::to_value([ScopeKey::Session, key::<Job>(TaskId(5))]).unwrap(),
        json!(["session", {"task": 5}])
    );
}

#[test]
fn a_value_that_does_not_fit_names_kind_version_and_field() {
    let error = decode::<Notes>(json!({"text": "", "marks": [{"line": 1}, {"line": -1}]}), 3).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid);
    let message = error.to_string();
    assert!(
        message.starts_with("read document test.notes, version 3, at marks[1].line: invalid value"),
        "{message}"
    );
}

#[test]
fn older_values_are_brought_along_and_newer_ones_are_left() {
    let notes = decode::<Notes>(json!({"text": "a"}), 2).unwrap();
    assert_eq!(notes, Notes { text: "a".into(), marks: Vec::new() });
    let message = |result: Result<Notes>| result.unwrap_err().to_string();
    assert_eq!(message(decode(json!("a"), 1)), "read document test.notes: version 1 is too old");

    let error = decode::<Notes>(json!({}), 4).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Newer { found: 4, known: 3 });
    assert_eq!(error.to_string(), "read document test.notes: it was stored by version 4, newer than 3");

    let error = decode::<Job>(json!({}), 1).err().unwrap();
    assert_eq!(error.kind(), &ErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "read document test.job: it was stored by version 1, and version 2 has no migration"
    );
}

#[test]
fn what_json_cannot_say_is_refused() {
    fn refused<T>(value: T) -> String
    where
        T: Serialize + for<'a> Deserialize<'a> + Default + Send + Sync + 'static,
    {
        let error = encode(&Any { value }, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Invalid);
        error.to_string().trim_start_matches("write document test.any: ").to_owned()
    }
    assert_eq!(refused(f64::NAN), "a number that is NaN at /value");
    assert_eq!(refused(vec![(1u8, 0.5f32), (2, f32::INFINITY)]), "a number that is inf at /value/1/1");
    assert_eq!(refused(HashMap::from([(7, Some(f64::NEG_INFINITY))])), "a number that is -inf at /value/7");
    assert_eq!(refused(BTreeMap::from([((1, 2), 3)])), "key must be a string");
    assert_eq!(refused(u128::MAX), "number out of range");
}

#[test]
fn what_json_can_say_is_written_as_serde_writes_it() {
    #[derive(Serialize, Deserialize, Default)]
    enum Shape {
        #[default]
        Unit,
        One(f64),
        Two(u8, char),
        Named {
            a: Option<()>,
            b: (),
        },
    }
    let value = vec![Shape::Unit, Shape::One(-0.0), Shape::Two(1, 'é'), Shape::Named { a: None, b: () }];
    let expected = serde_json::to_value(&value).unwrap();
    assert_eq!(encode(&Any { value }, &Limits::default()).unwrap()["value"], expected);
}

#[test]
fn a_document_keeps_to_its_limits() {
    let refused = |value: Value, weight_max: usize| {
        let error =
            encode(&Any { value }, &Limits { document: weight_max, ..Limits::default() }).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::TooLarge);
        error.to_string()
    };
    let nested = |levels: usize| (0..levels).fold(Value::Null, |value, _| json!([value]));
    // The document itself is a level.
    assert!(encode(&Any { value: nested(127) }, &Limits::default()).is_ok());
    assert!(
        refused(nested(128), 1 << 20)
            .starts_with("write document test.any: more than 128 levels at /value/0/0/")
    );
    assert_eq!(
        refused(json!("1234"), 15),
        "write document test.any: it has 16 bytes, at most 15 are allowed"
    );
    assert!(encode(&Any { value: json!("1234") }, &Limits { document: 16, ..Limits::default() }).is_ok());

    #[derive(Document, Serialize, Deserialize)]
    #[document(kind = "test.raw", crate = "everturn_core")]
    struct Raw(Vec<RawJson>);
    impl Default for Raw {
        fn default() -> Self {
            Self(vec![RawJson::parse("[".repeat(200) + &"]".repeat(200)).unwrap()])
        }
    }
    assert!(encode(&Raw::default(), &Limits::default()).is_err(), "raw JSON is no way around the limit");
}
