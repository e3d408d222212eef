//! JSON as servers have it: they differ in nearly every field, and a field that is not understood must not cost the answer.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;

/// A call's arguments where they have to be an object: anything else stands in one.
pub(crate) fn object(arguments: &str) -> Cow<'_, RawValue> {
    if arguments.trim_start().starts_with('{') {
        Cow::Borrowed(serde_json::from_str(arguments).expect("arguments are kept as JSON"))
    } else {
        let object = RawValue::from_string(format!(r#"{{"arguments":{arguments}}}"#));
        Cow::Owned(object.expect("JSON in an object is JSON"))
    }
}

/// The value if it has the form we know, else none.
pub(crate) fn known<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Known<T> {
        Yes(T),
        No(IgnoredAny),
    }
    Ok(match Known::deserialize(from)? {
        Known::Yes(value) => Some(value),
        Known::No(_) => None,
    })
}

/// The value; its default, where it is null.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
