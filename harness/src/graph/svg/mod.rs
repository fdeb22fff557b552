//! Renders a graph as SVG: the `picture`, with the positions of boxes from `layout` and the lines of the flow from `wires`, and a `legend`.

mod layout;
mod legend;
mod picture;
mod step_number;
mod wires;

pub(super) use picture::svg;
