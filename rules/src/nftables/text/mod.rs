//! nft's text: words, a cursor over them, and printing shared by several expressions.

mod host_names;
mod line;
mod print;
mod vocabulary;
mod words;

pub(super) use self::host_names::name_fault;
pub(super) use self::line::{Line, number};
pub(crate) use self::print::family;
pub(super) use self::print::{join, not, one_or_braces};
pub(super) use self::vocabulary::{fault, is_keyword};
pub(super) use self::words::{Kind, Word, Words};
