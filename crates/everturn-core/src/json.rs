//! JSON kept as the bytes it came as.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    document::check,
    error::{Error, Result},
    limits::Limits,
};

/// A JSON value kept byte for byte: order of keys, spelling of numbers and white space included.
///
/// ```
/// use everturn_core::json::RawJson;
///
/// let json = RawJson::parse(r#"{"b":1,"a":1.0}"#).unwrap();
/// assert_eq!(json.get(), r#"{"b":1,"a":1.0}"#);
/// assert!(RawJson::parse("{").is_err());
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes text that is one JSON value.
    ///
    /// Errors: `Invalid`, quoting the fault, when it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self> {
        RawValue::from_string(text.into())
            .map(Self)
            .map_err(|fault| Error::invalid(format!("read JSON: {fault}")).caused_by(fault))
    }

    /// Writes a value as JSON.
    ///
    /// Errors: `Invalid` when the value has no JSON form (a map with keys that are not strings).
    pub fn of(value: &impl Serialize) -> Result<Self> {
        serde_json::value::to_raw_value(value)
            .map(Self)
            .map_err(|fault| Error::invalid(format!("write JSON: {fault}")).caused_by(fault))
    }

    /// Writes a value that is going to be kept as JSON, proven to say what the value says.
    ///
    /// Errors: `Invalid` for what JSON cannot say: a float that is not finite, a key that is no text. `TooLarge` for one
    /// that nests deeper than `limits.depth` or has more bytes than `limits.entry`. Both name `what` it is.
    ///
    /// ```
    /// use everturn_core::{json::RawJson, limits::Limits};
    /// let error = RawJson::checked("the checkpoint", &f64::NAN, &Limits::default()).unwrap_err();
    /// assert_eq!(error.to_string(), "write the checkpoint: a number that is NaN");
    /// ```
    pub fn checked(what: &str, value: &impl Serialize, limits: &Limits) -> Result<Self> {
        check(value).map_err(|fault| {
            let told = if fault.is_limit { Error::too_large } else { Error::invalid };
            told(format!("write {what}: {fault}"))
        })?;
        let json = Self::of(value).map_err(|error| error.while_(format!("write {what}")))?;
        limits.check(what, json.get().len(), limits.entry)?;
        limits.check_depth(what, json.get())?;
        Ok(json)
    }

    /// An empty object: `{}`.
    pub fn empty() -> Self {
        Self(RawValue::from_string("{}".into()).expect("two braces are JSON"))
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a `T`.
    ///
    /// Errors: `Invalid`, saying where it does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        crate::document::read(self.get())
    }
}

/// Whether a field says what it says when it is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}
