//! Checking what is about to become a document's value: all that JSON cannot say, and would lose in silence.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};
use serde_json::Value;

use super::{
    path::{Path, PathPart},
    value::DEPTH_MAX,
};

/// Walks through what a type writes; finds floats that are not finite, and nesting deeper than a document may have.
pub(crate) fn check(document: &impl Serialize) -> Result<(), Fault> {
    document.serialize(Check { depth: 0 })
}

/// What was found, and where.
#[derive(Debug)]
pub(crate) struct Fault {
    what: String,
    /// The path's parts, the innermost first.
    path: Vec<PathPart>,
    /// Whether it is a limit that was passed.
    pub(crate) is_limit: bool,
}

impl Fault {
    fn new(what: String, is_limit: bool) -> Self {
        Self { what, path: Vec::new(), is_limit }
    }

    fn at(mut self, part: PathPart) -> Self {
        self.path.push(part);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Path = self.path.iter().rev().cloned().collect();
        match self.path.is_empty() {
            true => f.write_str(&self.what),
            false => write!(f, "{} at {path}", self.what),
        }
    }
}

impl std::error::Error for Fault {}

impl ser::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string(), false)
    }
}

/// A serializer that writes nothing.
#[derive(Clone, Copy)]
struct Check {
    /// How many objects and arrays are around it.
    depth: usize,
}

/// Inside an object or an array.
struct Inside {
    check: Check,
    items: usize,
}

impl Check {
    fn float(self, float: f64) -> Result<(), Fault> {
        if float.is_finite() { Ok(()) } else { Err(Fault::new(format!("a number that is {float}"), false)) }
    }

    fn open(self) -> Result<Inside, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(format!("more than {DEPTH_MAX} levels"), true));
        }
        Ok(Inside { check: Self { depth: self.depth + 1 }, items: 0 })
    }
}

impl Inside {
    fn item<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
        self.items += 1;
        value.serialize(self.check).map_err(|fault| fault.at(PathPart::Index(self.items - 1)))
    }

    fn field<T: ?Sized + Serialize>(&self, name: &str, value: &T) -> Result<(), Fault> {
        value.serialize(self.check).map_err(|fault| fault.at(name.into()))
    }
}

macro_rules! fine {
    ($($method:ident($kind:ty);)*) => {
        $(fn $method(self, _: $kind) -> Result<(), Fault> {
            Ok(())
        })*
    };
}

impl Serializer for Check {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Inside;
    type SerializeTuple = Inside;
    type SerializeTupleStruct = Inside;
    type SerializeTupleVariant = Inside;
    type SerializeMap = Inside;
    type SerializeStruct = Inside;
    type SerializeStructVariant = Inside;

    fine! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_unit_struct(&'static str);
    }

    fn serialize_f32(self, float: f32) -> Result<(), Fault> {
        self.float(float.into())
    }

    fn serialize_f64(self, float: f64) -> Result<(), Fault> {
        self.float(float)
    }

    fn serialize_none(self) -> Result<(), Fault> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Fault> {
        Ok(())
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.open()?.field(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside, Fault> {
        self.open()
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside, Fault> {
        self.open()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside, Fault> {
        self.open()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Inside, Fault> {
        self.open()?.check.open()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside, Fault> {
        self.open()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Inside, Fault> {
        self.open()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Inside, Fault> {
        self.open()?.check.open()
    }
}

macro_rules! items {
    ($($kind:ident::$method:ident;)*) => {
        $(impl ser::$kind for Inside {
            type Ok = ();
            type Error = Fault;

            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
                self.item(value)
            }

            fn end(self) -> Result<(), Fault> {
                Ok(())
            }
        })*
    };
}

macro_rules! fields {
    ($($kind:ident;)*) => {
        $(impl ser::$kind for Inside {
            type Ok = ();
            type Error = Fault;

            fn serialize_field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), Fault> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Fault> {
                Ok(())
            }
        })*
    };
}

items! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

fields! {
    SerializeStruct;
    SerializeStructVariant;
}

impl ser::SerializeMap for Inside {
    type Ok = ();
    type Error = Fault;

    // Keys that are no text are found when the value is written.
    fn serialize_key<T: ?Sized + Serialize>(&mut self, _: &T) -> Result<(), Fault> {
        Ok(())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Fault> {
        value.serialize(self.check)
    }

    fn serialize_entry<K: ?Sized + Serialize, V: ?Sized + Serialize>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), Fault> {
        value.serialize(self.check).map_err(|fault| fault.at(key_part(key)))
    }

    fn end(self) -> Result<(), Fault> {
        Ok(())
    }
}

fn key_part<K: ?Sized + Serialize>(key: &K) -> PathPart {
    match serde_json::to_value(key) {
        Ok(Value::String(text)) => text.into(),
        Ok(other) => other.to_string().into(),
        Err(_) => "?".into(),
    }
}
