//! The lines of a flow: along links, each use of a link beside the previous ones.

use std::collections::HashMap;

use super::super::model::Place;
use super::layout::{BELOW, CHANNEL, Layout, Rect, STRIP};

/// The distance between lines that run along one link.
const BESIDE: f64 = 7.0;

/// The distance of a number from the end of a line: in front of the arrowhead, and inside a box.
const HEAD: f64 = 22.0;
const NUMBER: f64 = 14.0;

/// A point.
pub(super) type Point = (f64, f64);

/// A line from place to place, and its position at each of them.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) points: Vec<Point>,
    /// One point for each place.
    pub(super) at: Vec<Point>,
}

/// The lines that run along links so far.
pub(super) struct Wires<'a> {
    layout: &'a Layout,
    used: HashMap<Place, usize>,
    turns: usize,
    lines: usize,
}

impl<'a> Wires<'a> {
    pub(super) fn new(layout: &'a Layout) -> Self {
        Self { layout, used: HashMap::new(), turns: 0, lines: 0 }
    }

    /// Returns the line through places that are each linked to the next.
    pub(super) fn along(&mut self, places: &[Place]) -> Wire {
        let mut wire = Wire::default();
        self.lines += 1;
        let links: Vec<Vec<Point>> = places.windows(2).map(|pair| self.link(pair[0], pair[1])).collect();
        let (Some(first), Some(last)) = (links.first(), links.last()) else { return wire };
        let start = Self::start(places[0], first);
        wire.at.push(start);
        wire.points.push(if matches!(places[0], Place::Pod(..)) { first[0] } else { start });
        for (number, points) in links.iter().enumerate() {
            if let (Some(from), Some(to)) = (wire.points.last().copied().filter(|_| number > 0), points.first()) {
                let turn = self.inside(places[number], from, *to);
                wire.at.push(midpoint(turn[0], turn[1]));
                wire.points.extend(turn);
            }
            wire.points.extend(points);
        }
        wire.at.push(Self::end(last));
        wire
    }

    /// Returns the position of the number at a line's start: in its box, except for a pod's box, which has no room.
    fn start(place: Place, link: &[Point]) -> Point {
        match (place, link) {
            (Place::Pod(..), [_, second, ..]) => *second,
            (_, [(x, y), (next, _), ..]) => (x - (next - x).signum() * NUMBER, *y),
            (_, points) => points.first().copied().unwrap_or_default(),
        }
    }

    /// Returns the position of the number at a line's end: in front of the arrowhead.
    fn end(link: &[Point]) -> Point {
        match link {
            [.., (before, from), (x, y)] if (from - y).abs() < 1.0 => (x + (before - x).signum() * HEAD, *y),
            [.., before, _] => *before,
            points => points.last().copied().unwrap_or_default(),
        }
    }

    /// Returns the x coordinate of the next line through the underlay.
    fn turn(&mut self) -> f64 {
        let underlay = self.layout.underlay;
        self.turns += 1;
        underlay.x + BESIDE + ((self.turns - 1) % 4) as f64 * BESIDE
    }

    /// Returns the line along the link between two places.
    fn link(&mut self, from: Place, to: Place) -> Vec<Point> {
        let up = from.parent() == Some(to);
        let below = if up { from } else { to };
        // The links of a node's pods share the space between them.
        let shared = match below {
            Place::Pod(node, _) => Place::Pod(node, 0),
            other => other,
        };
        let used = self.used.entry(shared).or_default();
        *used += 1;
        // Beside each other, in the available space.
        let side = [-0.5, 0.5, -1.5, 1.5][(*used - 1) % 4];
        let mut points = self.upwards(below, side * BESIDE);
        if !up {
            points.reverse();
        }
        points
    }

    /// Returns the line from a place to the edge of the place that it is linked to.
    fn upwards(&self, place: Place, beside: f64) -> Vec<Point> {
        let bus = self.layout.underlay;
        match place {
            Place::Underlay => Vec::new(),
            Place::Host(host) => {
                let rect = self.layout.hosts[host];
                let y = strip(rect) + beside;
                vec![(rect.right(), y), (bus.x, y)]
            }
            Place::Node(node) => {
                let head = self.layout.nodes[node].head;
                let y = strip(head) + beside;
                vec![(head.x, y), (bus.right(), y)]
            }
            Place::Pod(node, pod) => {
                let rects = &self.layout.nodes[node];
                let (head, rect) = (rects.head, rects.pods[pod]);
                let (x, gap) = (rect.middle() + beside * 4.0, rect.bottom() + BELOW / 2.0 + beside);
                let (channel, y) = (head.right() + CHANNEL / 2.0 - beside, strip(head) + beside);
                vec![(x, rect.bottom()), (x, gap), (channel, gap), (channel, y), (head.right(), y)]
            }
        }
    }

    /// Returns the line through a place's own box, from edge to edge.
    fn inside(&mut self, place: Place, from: Point, to: Point) -> [Point; 2] {
        let rect = match place {
            Place::Node(node) => self.layout.nodes[node].head,
            Place::Host(host) => self.layout.hosts[host],
            Place::Pod(node, pod) => self.layout.nodes[node].pods[pod],
            Place::Underlay => {
                let x = self.turn();
                return [(x, from.1), (x, to.1)];
            }
        };
        // The numbers of the way there and back are side by side.
        let x = rect.x + rect.width * if self.lines == 1 { 0.35 } else { 0.6 };
        [(x, from.1), (x, to.1)]
    }
}

fn midpoint((x, y): Point, (other, below): Point) -> Point {
    (f64::midpoint(x, other), f64::midpoint(y, below))
}

/// Returns the height at which flows go through a box.
fn strip(rect: Rect) -> f64 {
    rect.bottom() - STRIP / 2.0
}
