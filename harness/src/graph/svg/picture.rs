//! Draws boxes, links, and the path of a flow over them.

use super::super::model::{Direction, Flow, Graph, Machine, Place, Service};
use super::layout::{CHIP, CHIPS, LINE, Layout, MARGIN, NAME, PADDING, Rect, SMALL, fitted, head_lines, service_lines};
use super::step_number::numbered;
use super::wires::{Point, Wire, Wires};
use super::{layout, legend};
use crate::explain::OutcomeKind;
use crate::svg::{Canvas, Text};
use crate::text::counted;

/// Renders the graph as a picture.
pub(in crate::graph) fn svg(graph: &Graph) -> String {
    let layout = Layout::of(graph);
    let mut picture = Picture { canvas: Canvas::default(), graph, layout: &layout };
    picture.head();
    picture.boxes();
    let mut height = layout.bottom;
    if let Some(flow) = &graph.flow {
        picture.flow(flow);
        height = legend::draw(&mut picture.canvas, graph, flow, &layout);
    }
    picture.canvas.finish(&graph.title, layout.width, height + MARGIN)
}

struct Picture<'a> {
    canvas: Canvas,
    graph: &'a Graph,
    layout: &'a Layout,
}

impl Picture<'_> {
    fn text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        self.canvas.text(Text { x, y, class }, words);
    }

    fn head(&mut self) {
        let mut y = MARGIN + 10.0;
        for (class, line, distance) in layout::head(self.graph, self.layout.width) {
            self.text(MARGIN, y, class, &line);
            y += distance;
        }
    }

    fn boxes(&mut self) {
        for (number, (service, rect)) in self.graph.services.iter().zip(&self.layout.services).enumerate() {
            self.service(number, service, *rect);
        }
        for (host, rect) in self.graph.hosts.iter().zip(&self.layout.hosts) {
            self.link(host, rect.right(), self.layout.underlay.x, *rect);
            self.machine(host, &host.lines, *rect);
        }
        for (node, rects) in self.graph.nodes.iter().zip(&self.layout.nodes) {
            self.link(&node.machine, self.layout.underlay.right(), rects.card.x, rects.head);
            self.rectangle(rects.card, "lane");
            self.machine(&node.machine, &head_lines(&node.machine), rects.head);
            for (pod, rect) in node.pods.iter().zip(&rects.pods) {
                self.machine(&pod.machine, &pod.machine.lines, *rect);
                self.chips(&pod.services, *rect);
            }
            if node.more > 0 {
                let words = format!("and {}", counted(node.more, "more pod"));
                self.text(rects.head.x, rects.card.bottom() - 6.0, "soft", &words);
            }
        }
        let underlay = self.layout.underlay;
        self.canvas.bar((underlay.x, underlay.y), (underlay.width, underlay.height), "track", "underlay");
        let width = crate::svg::width_of("underlay", 12.0);
        self.text(underlay.middle() - width / 2.0, underlay.y - 6.0, "soft", "underlay");
    }

    /// Draws the link of a machine to the underlay, red if it is down.
    fn link(&mut self, machine: &Machine, from: f64, to: f64, rect: Rect) {
        let y = rect.y + PADDING + LINE / 2.0;
        self.canvas.path(&[(from, y), (to, y)], if machine.is_cut_off { "outline-bad" } else { "link" });
    }

    fn rectangle(&mut self, Rect { x, y, width, height }: Rect, class: &str) {
        self.canvas.rectangle((x, y), (width, height), 8.0, class);
    }

    fn machine(&mut self, machine: &Machine, lines: &[String], rect: Rect) {
        let Rect { x, y, width, height } = rect;
        self.canvas.bar((x, y), (width, height), "card", &format!("{}\n{}", machine.name, machine.lines.join("\n")));
        let room = width - 2.0 * PADDING;
        self.text(x + PADDING, y + PADDING + 8.0, "name", &fitted(&machine.name, NAME, room));
        for (number, line) in lines.iter().enumerate() {
            let y = y + PADDING + 8.0 + (number + 1) as f64 * LINE;
            self.text(x + PADDING, y, "small", &fitted(line, SMALL, room));
        }
    }

    fn service(&mut self, number: usize, service: &Service, rect: Rect) {
        self.canvas.bar((rect.x, rect.y), (rect.width, rect.height), "card", &service.name);
        self.chip(number, (rect.x + PADDING, rect.y + PADDING - 4.0), &(number + 1).to_string());
        let room = rect.width - 2.0 * PADDING - 34.0;
        let name = fitted(&format!("service/{}", service.name), NAME, room);
        self.text(rect.x + PADDING + 34.0, rect.y + PADDING + 8.0, "name", &name);
        for (line, words) in service_lines(service).iter().enumerate() {
            let y = rect.y + PADDING + 8.0 + (line + 1) as f64 * LINE;
            self.text(rect.x + PADDING, y, "small", words);
        }
    }

    /// Draws the services of a pod, in the lower part of its box.
    fn chips(&mut self, services: &[usize], rect: Rect) {
        let y = rect.bottom() - CHIP - 5.0;
        for (position, service) in services.iter().take(CHIPS).enumerate() {
            let x = rect.x + PADDING + position as f64 * 32.0;
            let is_last = position + 1 == CHIPS && services.len() > CHIPS;
            let words = if is_last { "…".to_owned() } else { (service + 1).to_string() };
            if x + 28.0 < rect.right() {
                self.chip(*service, (x, y), &words);
            }
        }
    }

    /// Draws the number of a service in its colour.
    fn chip(&mut self, service: usize, (x, y): Point, words: &str) {
        self.canvas.rectangle((x, y), (28.0, CHIP - 2.0), 7.0, &format!("tag{}", service % 6));
        let width = crate::svg::width_of(words, 11.0);
        self.text(x + 14.0 - width / 2.0, y + 11.5, "on", words);
    }

    fn flow(&mut self, flow: &Flow) {
        let mut wires = Wires::new(self.layout);
        let there = wires.along(&flow.there);
        let back = wires.along(&flow.back);
        for outcome in flow.outcomes.iter().skip(1) {
            let other = Wires::new(self.layout).along(&outcome.places);
            self.canvas.path(&other.points, "other");
        }
        for (wire, class) in [(&back, "back"), (&there, "there")] {
            if wire.points.len() > 1 {
                self.canvas.path(&wire.points, class);
            }
        }
        for outcome in flow.outcomes.iter().rev() {
            if let (Some(end), Some(share)) = (outcome.places.last(), &outcome.rounded) {
                self.share(*end, share);
            }
        }
        if let (Some(end), Some(outcome)) = (flow.there.last(), flow.outcomes.first()) {
            let class = if outcome.kind == OutcomeKind::Delivered { "outline-good" } else { "outline-bad" };
            self.outline(*end, class);
        }
        self.numbers(flow, &there, &back);
    }

    fn rect(&self, place: Place) -> Rect {
        match place {
            Place::Underlay => self.layout.underlay,
            Place::Host(host) => self.layout.hosts[host],
            Place::Node(node) => self.layout.nodes[node].head,
            Place::Pod(node, pod) => self.layout.nodes[node].pods[pod],
        }
    }

    fn outline(&mut self, place: Place, class: &str) {
        self.rectangle(self.rect(place), class);
    }

    /// Draws the share of flows that ends at a place.
    fn share(&mut self, place: Place, share: &str) {
        let rect = self.rect(place);
        let width = crate::svg::width_of(share, 11.0) + 10.0;
        let x = rect.right() - width - 4.0;
        self.canvas.rectangle((x, rect.bottom() - 21.0), (width, 16.0), 7.0, "pill");
        self.text(x + 5.0, rect.bottom() - 9.5, "rule", share);
    }

    /// Draws the numbers of steps, on the lines.
    fn numbers(&mut self, flow: &Flow, there: &Wire, back: &Wire) {
        let mut next = [0, 0];
        for (number, step) in flow.steps.iter().enumerate() {
            let (wire, places, from) = match step.way {
                Direction::There => (there, &flow.there, &mut next[0]),
                Direction::Back => (back, &flow.back, &mut next[1]),
            };
            let found = places.iter().skip(*from).position(|place| *place == step.place);
            let Some(at) = found.map(|position| position + *from) else { continue };
            *from = at;
            if let Some(point) = wire.at.get(at) {
                numbered(&mut self.canvas, *point, number + 1, step.way);
            }
        }
    }
}
