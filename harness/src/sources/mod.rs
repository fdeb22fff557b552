//! The three sources for one flow: promise, prediction and observation.
//!
//! - `outcome`: the outcome of a flow, in one form for prediction and observation;
//! - `compare`: whether an outcome keeps the promise, and whether two of the sources agree;
//! - `flow_sources`: which sources disagree;
//! - `hidden_interfaces`: flows whose outcome depends on interfaces that a text does not show;
//! - `context`: the context of the sources in one state of a cluster;
//! - `words`: a promise in one line.

mod compare;
mod context;
mod disagreement;
mod flow_sources;
mod hidden_interfaces;
mod outcome;
mod rule_differences;
mod words;

pub use disagreement::Disagreement;

pub(crate) use context::{Context, question};
pub(crate) use flow_sources::{Sources, assumed};
pub(crate) use outcome::{FlowOutcome, outcome_words};
pub(crate) use rule_differences::rule_differences;
pub(crate) use words::promise_words;
