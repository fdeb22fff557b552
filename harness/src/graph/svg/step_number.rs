//! The numbers of a flow's steps, on its path and in the legend.

use super::super::model::Direction;
use super::wires::Point;
use crate::svg::{Canvas, Text, width_of};

/// The radius of a step's number.
pub(super) const NUMBER: f64 = 8.0;

/// Draws a step's number in a circle.
pub(super) fn numbered(canvas: &mut Canvas, (x, y): Point, number: usize, way: Direction) {
    let class = match way {
        Direction::There => "step-there",
        Direction::Back => "step-back",
    };
    canvas.circle((x, y), NUMBER, class);
    let words = number.to_string();
    let width = width_of(&words, 11.0);
    canvas.text(Text { x: x - width / 2.0, y: y + 4.0, class: "on" }, &words);
}
