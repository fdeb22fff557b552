//! YAML as typed values, with the place of every value and all errors at once.
//!
//! 1. `document`: text → a `tree` of values with their places, within limits;
//! 2. `decode`: tree → types that implement serde's `Deserialize`; `value` lets serde read the tree in place;
//! 3. `print`: values → text.

mod decode;
mod document;
mod lines;
mod print;
mod tree;
mod value;

pub(crate) use decode::{Decoded, decode};
pub(crate) use document::parse;
pub(crate) use print::{Fields, Item, document, texts};
pub(crate) use tree::{At, Kind, Node, Place};
