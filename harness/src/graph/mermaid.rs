//! Renders a graph as a Mermaid flowchart.

use std::fmt::Write;

use super::dot::{MAX_EDGES, flow_words, id};
use super::model::{Graph, Place};
use crate::explain::OutcomeKind;
use crate::text::markup;

/// Renders the graph as a flowchart, which GitHub and others draw.
pub(super) fn mermaid(graph: &Graph) -> String {
    let mut chart = Chart::default();
    let mut title = vec![graph.title.clone(), graph.subtitle.clone()];
    title.extend(graph.left_out.iter().map(|words| format!("not drawn: {words}")));
    title.extend(graph.flow.iter().flat_map(flow_words));
    chart.line(format_args!("    title[{}]:::title", quoted(&title)));
    chart.line(format_args!("    {}[{}]:::underlay", id(Place::Underlay), quoted(&["underlay"])));
    for (number, host) in graph.hosts.iter().enumerate() {
        chart.line(format_args!("    h{number}[{}]", machine(&host.name, &host.lines)));
        chart.edge(&format!("h{number}"), "---", &id(Place::Underlay));
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let own = id(Place::Node(number));
        chart.line(format_args!("    subgraph c{number}[\" \"]"));
        chart.line(format_args!("        {own}[{}]:::node", machine(&node.machine.name, &node.machine.lines)));
        for (pod, one) in node.pods.iter().enumerate() {
            let words = machine(&one.machine.name, &one.machine.lines);
            chart.line(format_args!("        {}[{words}]", id(Place::Pod(number, pod))));
            chart.edge(&own, "---", &id(Place::Pod(number, pod)));
        }
        if node.more > 0 {
            chart.line(format_args!("        {own}more[{}]", quoted(&[format!("and {} more", node.more)])));
        }
        chart.line(format_args!("    end"));
        chart.edge(&id(Place::Underlay), "---", &own);
    }
    for (number, service) in graph.services.iter().enumerate() {
        let mut lines = service.lines.clone();
        lines.push(service.endpoint_words());
        chart
            .line(format_args!("    s{number}[[{}]]:::service", machine(&format!("service/{}", service.name), &lines)));
        let endpoints: Vec<Place> = graph.endpoints(number).collect();
        for place in endpoints.iter().filter(|_| endpoints.len() <= MAX_EDGES) {
            chart.edge(&id(*place), "-.-", &format!("s{number}"));
        }
    }
    if let Some(flow) = &graph.flow {
        let mut step = 0;
        for (places, arrow, colour) in [(&flow.there, "==>", "#1f6feb"), (&flow.back, "-.->", "#8250df")] {
            for pair in places.windows(2) {
                step += 1;
                chart.edge(&id(pair[0]), &format!("{arrow}|{step}|"), &id(pair[1]));
                chart.styles.push(format!("linkStyle {} stroke:{colour},color:{colour}", chart.edges.len() - 1));
            }
        }
        if let (Some(end), Some(outcome)) = (flow.there.last(), flow.outcomes.first()) {
            let class = if outcome.kind == OutcomeKind::Delivered { "good" } else { "bad" };
            chart.styles.push(format!("class {} {class}", id(*end)));
        }
    }
    chart.finish()
}

#[derive(Default)]
struct Chart {
    body: String,
    /// Edges in order: styles refer to them by number.
    edges: Vec<String>,
    styles: Vec<String>,
}

impl Chart {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{line}");
    }

    fn edge(&mut self, from: &str, arrow: &str, to: &str) {
        self.edges.push(format!("    {from} {arrow} {to}"));
    }

    fn finish(self) -> String {
        let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let styles: Vec<String> = self.styles.iter().map(|style| format!("    {style}")).collect();
        format!(
            "flowchart LR\n{}{}{}    classDef title fill:none,stroke:none,text-align:left\n    \
             classDef underlay fill:#e4e7eb,stroke:#aeb7c2,color:#123\n    \
             classDef node fill:#eef4ff,stroke:#8ab4f8,color:#123\n    \
             classDef service fill:#fff3d6,stroke:#9a5b00,color:#321\n    \
             classDef good stroke:#1a7f4b,stroke-width:3px\n    classDef bad stroke:#c0392b,stroke-width:3px\n",
            self.body,
            lines(&self.edges),
            lines(&styles)
        )
    }
}

fn machine(name: &str, lines: &[String]) -> String {
    quoted(&[std::slice::from_ref(&name.to_owned()), lines].concat())
}

/// Returns lines as a quoted label without markup: neither HTML, nor Mermaid's own `#35;`, nor Markdown, which starts with a backtick.
fn quoted(lines: &[impl AsRef<str>]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| label(line.as_ref())).collect();
    format!("\"{}\"", lines.join("<br/>"))
}

fn label(line: &str) -> String {
    markup(line).replace('#', "#35;").replace('`', "#96;")
}
