//! A serde deserializer for trees: the same result as `serde_yaml` on the same text, but in place, without a copy of the tree.
//!
//! `serde_yaml` determines the type of plain scalars, and the messages about values of the wrong type.

use std::slice;
use std::sync::Arc;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_yaml::{Error, Number, Value};

use super::tree::{Entry, Kind, Node};

/// A value of a tree.
#[derive(Clone, Copy)]
pub(super) struct Reader<'de>(pub(super) &'de Node);

/// The value of a scalar.
enum Scalar<'de> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'de str),
}

/// Words that start with a letter and are not strings.
const WORDS: [&str; 9] = ["true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"];

/// The markers between documents: a plain scalar may start with them if it is not at the start of a line, and is then a string.
const DOCUMENT_MARKERS: [&str; 2] = ["---", "..."];

/// Returns the value of a plain scalar. Most names, addresses and ports are recognised without `serde_yaml`.
fn plain(text: &str) -> Scalar<'_> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if let (true, Ok(number)) = (digits && (text == "0" || !text.starts_with('0')), text.parse::<u64>()) {
        return Scalar::Number(number.into());
    }
    let is_string = text.starts_with(|first: char| first.is_ascii_alphabetic()) && !WORDS.contains(&text)
        || text.matches('.').count() > 1
        || DOCUMENT_MARKERS.iter().any(|marker| text.starts_with(marker))
        || text.contains([':', '/', '-']) && text.len() > 8;
    if is_string {
        return Scalar::Text(text);
    }
    if text.is_empty() {
        return Scalar::Null;
    }
    match serde_yaml::from_str(text) {
        Ok(Value::Null) => Scalar::Null,
        Ok(Value::Bool(value)) => Scalar::Bool(value),
        Ok(Value::Number(number)) => Scalar::Number(number),
        _ => Scalar::Text(text),
    }
}

impl<'de> Reader<'de> {
    /// The value of a scalar.
    fn scalar(self) -> Option<Scalar<'de>> {
        match &self.0.kind {
            Kind::Scalar { text, plain: false, .. } => Some(Scalar::Text(text)),
            Kind::Scalar { text, .. } => Some(plain(text)),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }

    fn is_null(self) -> bool {
        matches!(self.scalar(), Some(Scalar::Null))
    }

    /// Returns the error for a value of an unexpected type.
    fn unexpected(self, expected: &dyn Expected) -> Error {
        let found = match (&self.0.kind, self.scalar()) {
            (Kind::List(_), _) => Unexpected::Seq,
            (Kind::Map(_), _) => Unexpected::Map,
            (_, Some(Scalar::Bool(value))) => Unexpected::Bool(value),
            (_, Some(Scalar::Text(text))) => Unexpected::Str(text),
            (_, Some(Scalar::Number(number))) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => Unexpected::Unsigned(value),
                (_, Some(value), _) => Unexpected::Signed(value),
                (.., value) => Unexpected::Float(value.unwrap_or(f64::NAN)),
            },
            (_, Some(Scalar::Null) | None) => Unexpected::Unit,
        };
        Error::invalid_type(found, expected)
    }
}

/// Passes all items of a list to a visitor.
fn list<'de, V: Visitor<'de>>(items: &'de [Arc<Node>], visitor: V) -> Result<V::Value, Error> {
    let mut rest = Items(items.iter());
    let value = visitor.visit_seq(&mut rest)?;
    if rest.0.len() == 0 { Ok(value) } else { Err(Error::invalid_length(items.len(), &"fewer elements in sequence")) }
}

/// Passes all entries of a map to a visitor.
fn map<'de, V: Visitor<'de>>(entries: &'de [Entry], visitor: V) -> Result<V::Value, Error> {
    let mut rest = Entries { entries: entries.iter(), value: None };
    let value = visitor.visit_map(&mut rest)?;
    if rest.entries.len() == 0 {
        Ok(value)
    } else {
        Err(Error::invalid_length(entries.len(), &"fewer elements in map"))
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match (&self.0.kind, self.scalar()) {
            (Kind::List(items), _) => list(items, visitor),
            (Kind::Map(entries), _) => map(entries, visitor),
            (_, Some(Scalar::Bool(value))) => visitor.visit_bool(value),
            (_, Some(Scalar::Number(number))) => number.deserialize_any(visitor),
            (_, Some(Scalar::Text(text))) => visitor.visit_borrowed_str(text),
            (_, Some(Scalar::Null) | None) => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.kind {
            Kind::List(items) => list(items, visitor),
            // An empty list is often written as an empty value.
            _ if self.is_null() => list(&[], visitor),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.kind {
            Kind::Map(entries) => map(entries, visitor),
            _ if self.is_null() => map(&[], visitor),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.scalar() {
            Some(Scalar::Text(variant)) => visitor.visit_enum(Variant(variant)),
            _ => Err(self.unexpected(&"a word")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct identifier
    }
}

/// The remaining items of a list.
struct Items<'de>(slice::Iter<'de, Arc<Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|node| seed.deserialize(Reader(node))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The remaining entries of a map, and the value of the last key.
struct Entries<'de> {
    entries: slice::Iter<'de, Entry>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        seed.deserialize(BorrowedStrDeserializer::new(&entry.name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value comes before its key"))?;
        seed.deserialize(Reader(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A variant of an enum, given as a word.
struct Variant<'de>(&'de str);

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.0))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value, Error> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &"newtype variant"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &"tuple variant"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _fields: &'static [&'static str], _visitor: V) -> Result<V::Value, Error> {
        Err(Error::invalid_type(Unexpected::UnitVariant, &"struct variant"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A value that looks like a document marker is a string, as `serde_yaml` parses it in the whole text.
    #[rstest]
    #[case::start("---")]
    #[case::start_with_more("---a")]
    #[case::end("...")]
    fn a_document_marker_within_a_line_is_a_string(#[case] text: &str) {
        assert!(matches!(plain(text), Scalar::Text(found) if found == text));
        let whole: Value = serde_yaml::from_str(&format!("{{a: {text}}}")).unwrap();
        assert_eq!(whole["a"], Value::from(text));
    }
}
