//! Draws a cluster: nodes, pods, services and addresses, and the path of a flow through it.
//!
//! [`Graph::of`] takes a scenario in one of its states, and an [`Explanation`](crate::explain::Explanation) for the flow. A graph consists
//! of plain values, in `model`:
//!
//! - `plan`: machines and services; `flow`: the path of a flow, from place to place;
//! - `svg`, `dot`, `mermaid`: the renderers, chosen by a [`Format`]. They do not decide what is shown.

mod dot;
mod flow;
mod format;
mod mermaid;
mod model;
mod plan;
mod svg;

pub use format::Format;
pub use model::Graph;
