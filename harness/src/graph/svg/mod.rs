//! A graph as SVG: the `picture`, for whose boxes `layout` has the places and for whose flow `wires` has the lines, and a `legend`.

mod layout;
mod legend;
mod picture;
mod step_number;
mod wires;

pub(super) use picture::svg;
