//! A cluster as a picture: nodes, pods, services and addresses, and the path of a flow on it.
//!
//! [`Graph::of`] takes a scenario in one of its states, and an [`Explanation`](crate::explain::Explanation) for the flow. A graph is plain values, in `model`:
//!
//! - `plan`: machines and services; `flow`: the path of a flow, from place to place;
//! - `svg`, `dot`, `mermaid`: a renderer each, chosen by a [`Format`]. None of them decides what is shown.

mod dot;
mod flow;
mod format;
mod mermaid;
mod model;
mod plan;
mod svg;

pub use format::Format;
pub use model::Graph;
