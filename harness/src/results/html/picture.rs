//! The topology of a scenario: outside hosts, the underlay, nodes with their pods. Machines that a failed flow passed are marked.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use super::super::model::Suite;
use crate::report::{Machine, Machines, NodeMachine, Status};
use crate::svg::width_of;
use crate::text::{counted, markup};

/// The number of nodes or hosts in a row.
const COLUMNS: usize = 3;
const WIDTH: f64 = 250.0;
const GAP: f64 = 24.0;
const LINE: f64 = 17.0;
const SIZE: f64 = 12.0;

/// The diagram, with the services in a table below.
pub(super) fn render(machines: &Machines, suite: &Suite) -> String {
    let used = used(suite);
    let mut picture = Picture { body: String::new(), used: &used };
    let hosts = picture.row(&machines.hosts, 8.0, Picture::host);
    let wire = if machines.hosts.is_empty() { 8.0 } else { hosts + GAP };
    let nodes: Vec<&NodeMachine> = machines.nodes.iter().collect();
    let mut y = wire + 20.0 + GAP;
    for row in nodes.chunks(COLUMNS) {
        y = picture.row(row, y, |picture, node, at| picture.node(node, at)) + GAP;
    }
    let columns = nodes.len().max(machines.hosts.len()).clamp(1, COLUMNS) as f64;
    let width = columns * (WIDTH + GAP) - GAP + 16.0;
    picture.underlay(wire, width);
    let what = format!(
        "{}, {}, {}",
        counted(machines.hosts.len(), "outside host"),
        counted(machines.all_nodes, "node"),
        counted(machines.all_services, "service")
    );
    let more = machines.all_nodes - machines.nodes.len().min(machines.all_nodes);
    let more =
        if more > 0 { format!("<p class=\"soft\">and {} more</p>\n", counted(more, "node")) } else { String::new() };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Topology\"><svg role=\"img\" aria-label=\"{what}\" \
         viewBox=\"0 0 {width:.0} {y:.0}\" width=\"{width:.0}\" height=\"{y:.0}\">{}</svg></div>\n{more}{}",
        picture.body,
        services(machines)
    )
}

/// The machines that a failed flow was captured at or delivered to.
fn used(suite: &Suite) -> BTreeSet<&str> {
    let failed = suite.cases.iter().flat_map(|case| &case.checks).filter(|check| check.status != Status::Ok);
    failed.filter_map(|check| check.flow.as_ref()).flat_map(|flow| &flow.path).map(|seen| seen.place.as_str()).collect()
}

struct Picture<'p> {
    body: String,
    used: &'p BTreeSet<&'p str>,
}

impl Picture<'_> {
    /// Draws machines next to each other, and returns the bottom of the row.
    fn row<T>(&mut self, all: &[T], y: f64, draw: impl Fn(&mut Self, &T, (f64, f64)) -> f64) -> f64 {
        let mut end = y;
        for (column, one) in all.iter().enumerate() {
            let (column, line) = (column % COLUMNS, column / COLUMNS);
            let x = 8.0 + column as f64 * (WIDTH + GAP);
            end = f64::max(end, draw(self, one, (x, y + line as f64 * (3.0 * LINE + GAP))));
        }
        end
    }

    fn host(&mut self, host: &Machine, (x, y): (f64, f64)) -> f64 {
        let height = LINE * (1 + host.addresses.len()) as f64 + 10.0;
        self.wire(x + WIDTH / 2.0, y + height, GAP, &host.name);
        self.machine(&host.name, &host.addresses, (x, y), (WIDTH, height), "box");
        y + height
    }

    fn node(&mut self, node: &NodeMachine, (x, y): (f64, f64)) -> f64 {
        let pod_height = |pod: &Machine| LINE * (1 + pod.addresses.len()) as f64 + 8.0;
        let pods: f64 = node.pods.iter().map(|pod| pod_height(pod) + 6.0).sum();
        let hidden = node.all_pods - node.pods.len().min(node.all_pods);
        let head = LINE * (1 + node.addresses.len()) as f64 + 8.0;
        let height = head + pods + if hidden > 0 { LINE } else { 0.0 } + 6.0;
        self.wire(x + WIDTH / 2.0, y - GAP, GAP, &node.name);
        self.machine(&node.name, &node.addresses, (x, y), (WIDTH, height), "group");
        let mut at = y + head;
        for pod in &node.pods {
            self.machine(&pod.name, &pod.addresses, (x + 8.0, at), (WIDTH - 16.0, pod_height(pod)), "box");
            at += pod_height(pod) + 6.0;
        }
        if hidden > 0 {
            self.text(x + 12.0, at + SIZE, "small", &format!("and {hidden} more"));
        }
        y + height
    }

    fn machine(
        &mut self,
        name: &str,
        addresses: &[IpAddr],
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
    ) {
        let hot = if self.used.contains(name) { " hot" } else { "" };
        let _ = write!(
            self.body,
            "<rect class=\"{class}{hot}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\"/>"
        );
        self.text(x + 8.0, y + LINE, "", &fitted(name, width));
        for (line, address) in (2..).zip(addresses) {
            self.text(x + 8.0, y + LINE * f64::from(line), "small", &fitted(&address.to_string(), width));
        }
    }

    fn text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        let _ = write!(self.body, "<text class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", markup(words));
    }

    fn wire(&mut self, x: f64, y: f64, length: f64, name: &str) {
        let used = if self.used.contains(name) { " used" } else { "" };
        let _ = write!(self.body, "<path class=\"wire{used}\" d=\"M{x:.0} {y:.0}v{length:.0}\"/>");
    }

    fn underlay(&mut self, y: f64, width: f64) {
        let hot = if self.used.contains("underlay") { " hot" } else { "" };
        let _ = write!(
            self.body,
            "<rect class=\"group{hot}\" x=\"8\" y=\"{y:.0}\" width=\"{:.0}\" height=\"20\" rx=\"6\"/>",
            width - 16.0
        );
        self.text(16.0, y + 14.0, "small", "underlay");
    }
}

/// A name, shortened to fit into a box.
fn fitted(name: &str, width: f64) -> String {
    if width_of(name, SIZE) <= width - 16.0 {
        return name.to_owned();
    }
    let letters = ((width - 16.0) / width_of("x", SIZE)) as usize;
    name.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

fn services(machines: &Machines) -> String {
    if machines.services.is_empty() {
        return String::new();
    }
    let list = |addresses: &[IpAddr]| {
        let words: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    };
    let rows: String = machines
        .services
        .iter()
        .map(|service| {
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                markup(&service.name),
                list(&service.addresses),
                markup(&service.ports.join(", ")),
                list(&service.endpoints)
            )
        })
        .collect();
    let more = machines.all_services - machines.services.len().min(machines.all_services);
    let more =
        if more > 0 { format!("<p class=\"soft\">and {} more</p>\n", counted(more, "service")) } else { String::new() };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Services\"><table>\n<tr><th scope=\"col\">service</th>\
         <th scope=\"col\">addresses</th><th scope=\"col\">ports</th><th scope=\"col\">endpoints</th></tr>\n{rows}</table></div>\n{more}"
    )
}
