//! Renders a graph in Graphviz's DOT language.

use std::fmt::Write;

use super::model::{Flow, Graph, Machine, Place};
use crate::explain::OutcomeKind;
use crate::text::one_line;

/// Maximum number of endpoints that a service has edges to: if there are more, its box shows their number.
pub(super) const MAX_EDGES: usize = 12;

/// Renders the graph for `dot`.
pub(super) fn dot(graph: &Graph) -> String {
    let mut text = String::from(
        "digraph svclab {\n  graph [rankdir=LR, fontname=\"Helvetica\", labelloc=t, ranksep=0.7, compound=true]\n  \
         node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"Helvetica\", fontsize=11]\n  \
         edge [fontname=\"Helvetica\", fontsize=10, color=\"#aeb7c2\", arrowhead=none]\n",
    );
    let mut title = vec![graph.title.clone(), graph.subtitle.clone()];
    title.extend(graph.left_out.iter().map(|words| format!("not drawn: {words}")));
    title.extend(graph.flow.iter().flat_map(flow_words));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  label={}", quoted(&title));
    let _ = writeln!(text, "  {} [label={}, fillcolor=\"#e4e7eb\"]", id(Place::Underlay), quoted(&["underlay"]));
    for (number, host) in graph.hosts.iter().enumerate() {
        let place = Place::Host(number);
        let _ = writeln!(text, "  {} [label={}]", id(place), machine(host));
        let _ = writeln!(text, "  {} -> {}", id(place), id(Place::Underlay));
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let own = id(Place::Node(number));
        let _ = writeln!(
            text,
            "  subgraph cluster_{number} {{\n    style=\"rounded,filled\"; color=\"#f2f1ed\"; label=\"\""
        );
        let _ = writeln!(text, "    {own} [label={}, fillcolor=\"#eef4ff\"]", machine(&node.machine));
        for (pod, one) in node.pods.iter().enumerate() {
            let place = id(Place::Pod(number, pod));
            let _ = writeln!(text, "    {place} [label={}]\n    {own} -> {place}", machine(&one.machine));
        }
        if node.more > 0 {
            let words = format!("and {} more", node.more);
            let _ = writeln!(text, "    {own}_more [shape=plaintext, style=\"\", label={}]", quoted(&[words]));
            let _ = writeln!(text, "    {own} -> {own}_more");
        }
        let _ = writeln!(text, "  }}\n  {} -> {own}", id(Place::Underlay));
    }
    for (number, service) in graph.services.iter().enumerate() {
        let mut lines = vec![format!("service/{}", service.name)];
        lines.extend(service.lines.iter().cloned());
        lines.push(service.endpoint_words());
        let _ = writeln!(text, "  s{number} [shape=component, fillcolor=\"#fff3d6\", label={}]", quoted(&lines));
        let endpoints: Vec<Place> = graph.endpoints(number).collect();
        for place in endpoints.iter().filter(|_| endpoints.len() <= MAX_EDGES) {
            let _ = writeln!(text, "  {} -> s{number} [style=dashed, dir=back, arrowtail=open]", id(*place));
        }
    }
    if let Some(flow) = &graph.flow {
        draw(&mut text, flow);
    }
    text += "}\n";
    text
}

/// Draws the edges of a flow's path, numbered.
fn draw(text: &mut String, flow: &Flow) {
    let ways = [(&flow.there, "#1f6feb", "bold"), (&flow.back, "#8250df", "dashed")];
    let mut number = 0;
    for (places, colour, style) in ways {
        for pair in places.windows(2) {
            number += 1;
            let _ = writeln!(
                text,
                "  {} -> {} [label=\"{number}\", color=\"{colour}\", fontcolor=\"{colour}\", style={style}, penwidth=2, \
                 arrowhead=normal, constraint=false]",
                id(pair[0]),
                id(pair[1])
            );
        }
    }
    if let (Some(end), Some(outcome)) = (flow.there.last(), flow.outcomes.first()) {
        let colour = if outcome.kind == OutcomeKind::Delivered { "#1a7f4b" } else { "#c0392b" };
        let _ = writeln!(text, "  {} [color=\"{colour}\", penwidth=2]", id(*end));
    }
}

/// Describes a flow and its outcomes, one line each.
pub(super) fn flow_words(flow: &Flow) -> Vec<String> {
    let outcome = |outcome: &super::model::Outcome| {
        let share = outcome.share.as_ref().map(|share| format!("{share}: ")).unwrap_or_default();
        format!("{share}{}", outcome.words)
    };
    [flow.title.clone()]
        .into_iter()
        .chain(flow.notes.iter().cloned())
        .chain(flow.outcomes.iter().map(outcome))
        .collect()
}

/// Returns the identifier of a place.
pub(super) fn id(place: Place) -> String {
    match place {
        Place::Underlay => "underlay".to_owned(),
        Place::Host(host) => format!("h{host}"),
        Place::Node(node) => format!("n{node}"),
        Place::Pod(node, pod) => format!("n{node}p{pod}"),
    }
}

fn machine(machine: &Machine) -> String {
    quoted(&[std::slice::from_ref(&machine.name), &machine.lines].concat())
}

/// Returns lines as a quoted string, in which only quotes and backslashes are special.
fn quoted(lines: &[impl AsRef<str>]) -> String {
    let escaped = |line: &str| one_line(line).replace('\\', "\\\\").replace('"', "\\\"");
    let lines: Vec<String> = lines.iter().map(|line| escaped(line.as_ref())).collect();
    format!("\"{}\"", lines.join("\\n"))
}
