//! The parts of rule text that every match and target shares: words, options and their values, and how they are printed.

mod options;
mod printer;
pub(super) mod values;
mod words;

pub(super) use options::{Given, KeptOption, Options, Owner, kept_options};
pub(super) use printer::Printer;
pub(super) use words::{Fault, Word, split};
