//! The layout: outside hosts on the left, then the underlay, then each node in a row with its pods; services above.

use super::super::model::{Graph, Machine, Pod, Service};
use crate::svg::{width_of, wrapped};

/// The space around everything.
pub(super) const MARGIN: f64 = 28.0;
/// The space below the head.
const HEAD: f64 = 8.0;
/// The space inside a box.
pub(super) const PADDING: f64 = 10.0;
/// The distance between lines of text.
pub(super) const LINE: f64 = 15.0;
/// The size of text.
pub(super) const NAME: f64 = 14.0;
pub(super) const SMALL: f64 = 11.0;
/// The height of a line of chips, which name the services of a pod.
pub(super) const CHIP: f64 = 17.0;
/// The height of the strip in a node's box that flows run through.
pub(super) const STRIP: f64 = 30.0;
/// The space for flows: between a node and its pods, below each row of pods, and in the underlay.
pub(super) const CHANNEL: f64 = 34.0;
pub(super) const BELOW: f64 = 36.0;
pub(super) const BUS: f64 = 34.0;
/// The widths of boxes.
const NODE: (f64, f64) = (200.0, 320.0);
const SERVICE: f64 = 264.0;
const POD: (f64, f64) = (118.0, 250.0);
/// Maximum width of a row of pods, and maximum number of pods in it.
const ROW: f64 = 1000.0;
const COLUMNS: usize = 6;
/// Maximum number of chips in a pod's row; the last one stands for the others.
pub(super) const CHIPS: usize = 5;

/// A box.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(self) -> f64 {
        self.y + self.height
    }

    pub(super) fn middle(self) -> f64 {
        self.x + self.width / 2.0
    }
}

/// A node's boxes.
pub(super) struct NodeRects {
    /// The whole box.
    pub(super) card: Rect,
    /// Its own box.
    pub(super) head: Rect,
    /// The boxes of its pods.
    pub(super) pods: Vec<Rect>,
}

/// All boxes.
pub(super) struct Layout {
    pub(super) services: Vec<Rect>,
    pub(super) hosts: Vec<Rect>,
    pub(super) underlay: Rect,
    pub(super) nodes: Vec<NodeRects>,
    /// The width of everything, margins included.
    pub(super) width: f64,
    /// The bottom edge of the machines.
    pub(super) bottom: f64,
    /// The width of nodes.
    node: f64,
    /// Whether a flow is drawn.
    has_flow: bool,
}

/// Returns the lines of the head: the class of each, its text, and the distance to the next line.
pub(super) fn head(graph: &Graph, width: f64) -> Vec<(&'static str, String, f64)> {
    let room = width - 2.0 * MARGIN;
    let left_out = graph.left_out.join(", ");
    let left_out = if left_out.is_empty() { left_out } else { format!("not drawn: {left_out}") };
    let parts =
        [("title", &graph.title, 18.0, 22.0), ("soft", &graph.subtitle, 12.0, 17.0), ("bad", &left_out, 12.0, 17.0)];
    let shown = parts.into_iter().filter(|(_, text, ..)| !text.is_empty());
    let lines = |(class, text, size, distance): (&'static str, &String, f64, f64)| {
        wrapped(text, size, room).into_iter().map(move |line| (class, line, distance))
    };
    shown.flat_map(lines).collect()
}

/// Returns the lines of a service's box.
pub(super) fn service_lines(service: &Service) -> Vec<String> {
    let lines = service.lines.iter().cloned().chain([service.endpoint_words()]);
    lines.flat_map(|line| wrapped(&line, SMALL, SERVICE - 2.0 * PADDING)).collect()
}

/// Returns the lines of a node's box.
pub(super) fn head_lines(machine: &Machine) -> Vec<String> {
    machine.lines.iter().flat_map(|line| wrapped(line, SMALL, NODE.0 - 2.0 * PADDING)).collect()
}

impl Layout {
    /// Places all boxes, below the head.
    pub(super) fn of(graph: &Graph) -> Self {
        let pods = || graph.nodes.iter().flat_map(|node| &node.pods);
        let pod = pods().map(pod_width).fold(POD.0, f64::max).min(POD.1);
        let most = graph.nodes.iter().map(|node| node.pods.len()).max().unwrap_or(0);
        let columns = most.clamp(1, COLUMNS.min((ROW / (pod + PADDING)) as usize));
        let has_flow = graph.flow.is_some();
        let hosts = graph.hosts.iter().map(host_width).fold(0.0, f64::max);
        let bus = MARGIN + if hosts > 0.0 { hosts + CHANNEL } else { PADDING };
        let left = bus + BUS + CHANNEL;
        let names = graph.nodes.iter().map(|node| width_of(&node.machine.name, NAME) + 2.0 * PADDING);
        let node = names.fold(NODE.0, f64::max).min(NODE.1);
        let card = node + if most == 0 { 0.0 } else { CHANNEL + columns as f64 * (pod + PADDING) } + 2.0 * PADDING;
        let width = (left + card + MARGIN).max(2.0 * (SERVICE + PADDING) + 2.0 * MARGIN).max(760.0);
        let top = MARGIN + head(graph, width).iter().map(|(.., distance)| distance).sum::<f64>() + HEAD;
        let mut layout = Self {
            services: Vec::new(),
            hosts: Vec::new(),
            underlay: Rect::default(),
            nodes: Vec::new(),
            width,
            bottom: top,
            node,
            has_flow,
        };
        let machines = layout.services(graph, top);
        for node in &graph.nodes {
            layout.node(&node.machine, &node.pods, (left, card), (pod, columns));
        }
        layout.hosts(graph, machines, hosts);
        let bottom = layout.bottom.max(machines + 60.0);
        layout.underlay = Rect { x: bus, y: machines, width: BUS, height: bottom - machines };
        layout.bottom = bottom;
        layout
    }

    /// Places services in rows, and returns where the machines start.
    fn services(&mut self, graph: &Graph, top: f64) -> f64 {
        let (mut x, mut y, mut height) = (MARGIN, top, 0.0_f64);
        for service in &graph.services {
            if x + SERVICE > self.width - MARGIN + 0.5 {
                (x, y, height) = (MARGIN, y + height + PADDING, 0.0);
            }
            let own = text_height(1 + service_lines(service).len());
            self.services.push(Rect { x, y, width: SERVICE, height: own });
            (x, height) = (x + SERVICE + PADDING, height.max(own));
        }
        if !graph.services.is_empty() {
            y += height;
        }
        // The underlay's name is above it.
        y += LINE + 12.0;
        if graph.services.is_empty() {
            y -= LINE;
        }
        self.bottom = y;
        y
    }

    fn node(&mut self, machine: &Machine, pods: &[Pod], (left, width): (f64, f64), (pod, columns): (f64, usize)) {
        let y = self.bottom;
        let strip = if self.has_flow { STRIP } else { 0.0 };
        let lines = 1 + head_lines(machine).len();
        let (x, top) = (left + PADDING, y + PADDING);
        let head = Rect { x, y: top, width: self.node, height: text_height(lines) + strip };
        let below = if self.has_flow { BELOW } else { PADDING };
        let mut rects = Vec::new();
        let mut row = top;
        for pods in pods.chunks(columns) {
            let height = pods.iter().map(pod_height).fold(0.0, f64::max);
            for number in 0..pods.len() {
                let x = head.right() + CHANNEL + number as f64 * (pod + PADDING);
                rects.push(Rect { x, y: row, width: pod, height });
            }
            row += height + below;
        }
        let bottom = head.bottom().max(row - if self.has_flow { 0.0 } else { below }) + PADDING;
        self.nodes.push(NodeRects { card: Rect { x: left, y, width, height: bottom - y }, head, pods: rects });
        self.bottom = bottom + PADDING;
    }

    fn hosts(&mut self, graph: &Graph, top: f64, width: f64) {
        let mut y = top;
        for host in &graph.hosts {
            let strip = if self.has_flow { STRIP } else { 0.0 };
            let height = text_height(1 + host.lines.len()) + strip;
            self.hosts.push(Rect { x: MARGIN, y, width, height });
            y += height + PADDING;
        }
        self.bottom = self.bottom.max(y);
    }
}

/// Returns the height of a box with this many lines.
fn text_height(lines: usize) -> f64 {
    lines as f64 * LINE + 12.0
}

fn pod_height(pod: &Pod) -> f64 {
    let chips = if pod.services.is_empty() { 0.0 } else { CHIP + 3.0 };
    text_height(1 + pod.machine.lines.len()) + chips
}

fn pod_width(pod: &Pod) -> f64 {
    let lines = pod.machine.lines.iter().map(|line| width_of(line, SMALL));
    lines.fold(width_of(&pod.machine.name, NAME), f64::max) + 2.0 * PADDING
}

fn host_width(host: &Machine) -> f64 {
    let lines = host.lines.iter().map(|line| width_of(line, SMALL));
    (lines.fold(width_of(&host.name, NAME), f64::max) + 2.0 * PADDING).clamp(130.0, NODE.0)
}

/// Shortens text to a width: the middle is omitted, because names differ at their ends.
pub(super) fn fitted(text: &str, size: f64, width: f64) -> String {
    let most = (width / width_of("m", size)) as usize;
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let (start, end) = (kept - kept / 2, kept / 2);
    letters[..start].iter().chain(&['…']).chain(&letters[letters.len() - end..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_start_and_its_end() {
        let width = width_of("pod/web-7c5ddb", NAME) + 0.1;
        assert_eq!(fitted("pod/web", NAME, width), "pod/web");
        assert_eq!(fitted("pod/web-7c5ddbdf54-x2k4j", NAME, width), "pod/web…-x2k4j");
        assert_eq!(fitted("pod/web", NAME, 0.0), "…");
    }
}
