//! Rule text shared by all matches and targets: words, options and their values, and printing.

mod options;
mod printer;
pub(super) mod values;
mod words;

pub(super) use options::{Given, KeptOption, Options, Owner, kept_options};
pub(super) use printer::Printer;
pub(super) use words::{Fault, Word, split};
