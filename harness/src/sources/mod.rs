//! Three sources about one flow: what is promised, what the rules say, what was seen.
//!
//! - `seen`: what came of a flow, in one form for prediction and observation;
//! - `compare`: whether a promise admits it, and whether two of the sources say the same;
//! - `part`: who disagrees with whom;
//! - `question`: how a probe is put to promise and prediction;
//! - `words`: a promise in a line.

mod compare;
mod disagreement;
mod part;
mod question;
mod seen;
mod words;

pub use disagreement::Disagreement;

pub(crate) use compare::Comparison;
pub(crate) use part::{Elsewhere, Sources};
pub(crate) use question::{in_order, question, sent};
pub(crate) use seen::{Seen, outcome_words};
pub(crate) use words::promise_words;
