//! Renders the paths of a packet as a Mermaid flowchart, which GitHub and others draw.

use std::fmt::Write;

use super::model::{Explanation, Matched, OutcomeKind, Path, RuleVisit};
use crate::text::markup;

/// Maximum number of paths drawn.
const MAX_PATHS: usize = 8;

/// Returns a flowchart of all paths, from the sender to their outcomes; common parts are drawn once.
pub fn mermaid(explanation: &Explanation) -> String {
    let packet = &explanation.packet;
    let mut chart = Chart::default();
    let words = format!("{}\nsends {} to {}", packet.from, packet.protocol, packet.to);
    let sender = chart.node(None, String::new(), Shape::End, &words);
    for (kind, words) in explanation.doubts() {
        chart.node(None, String::new(), Shape::Bad, &format!("{kind}\n{words}"));
    }
    for path in explanation.paths.iter().take(MAX_PATHS) {
        chart.path(sender, path);
    }
    let left_out = explanation.paths.len().saturating_sub(MAX_PATHS);
    if left_out > 0 {
        let more = chart.node(Some(sender), "more".to_owned(), Shape::End, &format!("{left_out} more paths"));
        chart.edge(sender, more, None);
    }
    chart.render()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    End,
    Good,
    Bad,
    HookVisit,
}

struct Node {
    parent: Option<usize>,
    /// The key among its parent's children.
    key: String,
    shape: Shape,
    text: String,
}

#[derive(Default)]
struct Chart {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize, Option<String>)>,
}

impl Chart {
    /// Returns the child of a node with a key, and adds it if it does not exist.
    fn node(&mut self, parent: Option<usize>, key: String, shape: Shape, text: &str) -> usize {
        let known = self.nodes.iter().position(|node| parent.is_some() && node.parent == parent && node.key == key);
        known.unwrap_or_else(|| {
            self.nodes.push(Node { parent, key, shape, text: text.to_owned() });
            self.nodes.len() - 1
        })
    }

    fn edge(&mut self, from: usize, to: usize, label: Option<String>) {
        if !self.edges.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
            self.edges.push((from, to, label));
        }
    }

    fn path(&mut self, sender: usize, path: &Path) {
        let mut at = sender;
        for visit in &path.original {
            // All paths are the same until the first random choice.
            let first_chance = visit.rules.iter().position(|line| line.chance.is_some());
            let (before, after) = visit.rules.split_at(first_chance.unwrap_or(visit.rules.len()));
            let heading = format!("{} {}", visit.place, visit.hook);
            let changes = visit.changes.iter().map(|change| format!("{} becomes {}", change.what, change.to)).collect();
            if first_chance.is_none() {
                at = self.step(at, (heading, &visit.packet), before, changes, None);
            } else {
                at = self.step(at, (heading, &visit.packet), before, Vec::new(), None);
                let heading = "random choice".to_owned();
                at = self.step(at, (heading, &visit.packet), after, changes, Some(path.share.text.clone()));
            }
        }
        let shape = if path.outcome_kind == OutcomeKind::Delivered { Shape::Good } else { Shape::Bad };
        let end = self.node(Some(at), path.outcome.clone(), shape, &path.outcome.replace(", ", ",\n"));
        self.edge(at, end, None);
    }

    /// Adds a box with rules and changes after another box.
    fn step(
        &mut self,
        from: usize,
        (heading, packet): (String, &str),
        rules: &[RuleVisit],
        changes: Vec<String>,
        label: Option<String>,
    ) -> usize {
        let taken = rules.iter().filter(|line| line.matched != Matched::NotChosen);
        let words: Vec<String> = std::iter::once(heading).chain(taken.map(rule_words)).chain(changes).collect();
        let words = words.join("\n");
        let to = self.node(Some(from), format!("{packet} {words}"), Shape::HookVisit, &words);
        self.edge(from, to, label);
        to
    }

    fn render(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        for (number, node) in self.nodes.iter().enumerate() {
            let words = escaped(&node.text);
            let _ = match node.shape {
                Shape::End => writeln!(text, "    n{number}([\"{words}\"])"),
                Shape::Good => writeln!(text, "    n{number}([\"{words}\"]):::good"),
                Shape::Bad => writeln!(text, "    n{number}([\"{words}\"]):::bad"),
                Shape::HookVisit => writeln!(text, "    n{number}[\"{words}\"]"),
            };
        }
        for (from, to, label) in &self.edges {
            let _ = match label {
                Some(label) => writeln!(text, "    n{from} -->|\"{}\"| n{to}", escaped(label)),
                None => writeln!(text, "    n{from} --> n{to}"),
            };
        }
        text += "    classDef good fill:#e6f4ea,stroke:#2e7d4f,color:#123\n";
        text += "    classDef bad fill:#fdecea,stroke:#b3372f,color:#311\n";
        text
    }
}

fn rule_words(line: &RuleVisit) -> String {
    let does = line.effect.split([',', '(']).next().unwrap_or_default().trim();
    format!("{} {} {}: {does}", line.table, line.chain, line.number)
}

/// Escapes text for use in quotes.
fn escaped(text: &str) -> String {
    text.lines().map(markup).collect::<Vec<_>>().join("<br/>")
}
