//! Evidence as findings look at it.

use std::borrow::Cow;

use serde_json::Value;
use svclab_rules::infer::{Infer, Inferred, InferredPort, InferredProxy};
use svclab_rules::iptables::{self, Chain, Rule, TableName};
use svclab_rules::ruleset::Rules;

use super::finding::Place;
use super::lines::ChainLines;
use crate::evidence::{Connection, Contents, Evidence, NodeRules, Piece, shown_objects};
use crate::infer::Deviation;

/// What findings are made of.
pub(super) struct View<'e> {
    pub(super) evidence: &'e Evidence,
    pub(super) nodes: &'e [NodeRules],
    /// The lines of each node's chains.
    pub(super) chain_lines: Vec<ChainLines<'e>>,
    /// The service ports that the rules of each node show.
    pub(super) ports: Vec<Vec<InferredPort>>,
    /// What they show of kube-proxy's configuration.
    pub(super) proxies: Vec<InferredProxy>,
    /// In the namespaces that the evidence shows.
    objects: Vec<(Place, Cow<'e, Value>)>,
    pub(super) connections: Vec<(Place, &'e Connection)>,
    pub(super) settings: Vec<(Place, &'e str, &'e str)>,
    /// The differences from the rules that kube-proxy writes for the cluster that the evidence shows; `None` if they are not compared.
    pub(super) deviations: Option<&'e [Deviation]>,
}

impl<'e> View<'e> {
    pub(super) fn of(evidence: &'e Evidence, nodes: &'e [NodeRules], deviations: Option<&'e [Deviation]>) -> Self {
        let inferred = nodes.iter().map(|node| node.rules.infer()).map(|Inferred { ports, proxy }| (ports, proxy));
        let (ports, proxies): (Vec<Vec<InferredPort>>, Vec<InferredProxy>) = inferred.unzip();
        let shown = shown_objects(evidence, || ports.concat());
        let place = |piece: &Piece| Place { file: piece.file.clone(), line: piece.first };
        let objects = shown.into_iter().map(|(piece, object)| (place(piece), object)).collect();
        let (connections, settings) = (Vec::new(), Vec::new());
        let chain_lines = nodes.iter().map(ChainLines::of).collect();
        let mut view =
            Self { evidence, nodes, chain_lines, ports, proxies, objects, connections, settings, deviations };
        for piece in &evidence.pieces {
            let place = |line: usize| Place { file: piece.file.clone(), line };
            if let Contents::Connections(entries) = &piece.contents {
                let entries = entries.iter().filter(|entry| entry.is_current);
                view.connections.extend(entries.map(|entry| (place(entry.line), entry)));
            }
            let settings = piece.contents.settings().iter();
            view.settings.extend(settings.map(|one| (place(one.line), one.name.as_str(), one.value.as_str())));
        }
        view
    }

    /// The lines of a node's chains.
    pub(super) fn chain_lines_of(&self, node: &NodeRules) -> Option<&ChainLines<'e>> {
        let at = self.nodes.iter().position(|own| std::ptr::eq(own, node))?;
        self.chain_lines.get(at)
    }

    /// The rule sets of iptables.
    pub(super) fn tables(&self) -> impl Iterator<Item = Tables<'e>> + '_ {
        self.nodes.iter().filter_map(|node| match &node.rules {
            Rules::Iptables(parsed) => Some(Tables { node, parsed }),
            _ => None,
        })
    }

    /// The rule sets of iptables, each with the service ports that it shows.
    pub(super) fn tables_with_ports(&self) -> impl Iterator<Item = (Tables<'e>, &[InferredPort])> + '_ {
        self.nodes.iter().zip(&self.ports).filter_map(|(node, ports)| match &node.rules {
            Rules::Iptables(parsed) => Some((Tables { node, parsed }, ports.as_slice())),
            _ => None,
        })
    }

    /// Whether files are of one rule set.
    pub(super) fn are_of_one_set(&self, one: &Place, other: Option<&str>) -> bool {
        let one = one.file.as_deref();
        one == other || self.nodes.iter().any(|node| node.has_file(one) && node.has_file(other))
    }

    /// The objects of a kind.
    pub(super) fn objects_of_kind<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = (&'s Place, &'s Value)> + 's {
        self.objects.iter().filter(move |(_, object)| object["kind"] == kind).map(|(place, object)| (place, &**object))
    }
}

/// One rule set of iptables.
#[derive(Clone, Copy)]
pub(super) struct Tables<'e> {
    pub(super) node: &'e NodeRules,
    pub(super) parsed: &'e iptables::Parsed,
}

/// A rule with its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'e> {
    pub(super) table: TableName,
    pub(super) chain: &'e Chain,
    pub(super) rule: &'e Rule,
    pub(super) line: Line,
}

/// A line of a table of iptables, in the file that the table is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    table: TableName,
    /// 0 if it is not known.
    pub(super) number: usize,
}

impl Line {
    /// The line of a table that is not known.
    pub(super) fn unknown(table: TableName) -> Self {
        Self { table, number: 0 }
    }
}

impl<'e> Tables<'e> {
    /// Whether all of its tables are shown whole.
    pub(super) fn is_whole(&self) -> bool {
        self.node.is_whole()
    }

    /// Whether all rules of a chain are shown.
    pub(super) fn shows(&self, table: TableName, chain: &str) -> bool {
        self.node.coverage.has_chain(table.as_str(), chain)
    }

    /// Whether the rules of a chain may have interfaces that are not shown.
    pub(super) fn hides_interfaces(&self, table: TableName, chain: &str) -> bool {
        self.node.coverage.hides_interfaces(table.as_str(), chain)
    }

    /// The place of a line; that of its table if it is not known.
    pub(super) fn place(&self, line: Line) -> Place {
        let (file, first) = self.node.line_of_table(line.table.as_str());
        Place { file, line: if line.number == 0 { first } else { line.number } }
    }

    /// The place at which these rules start.
    pub(super) fn start(&self) -> Place {
        Place { file: self.node.file.clone(), line: self.node.first }
    }

    /// All rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = Placed<'e>> + use<'e> {
        let parsed = self.parsed;
        parsed.rules.tables.iter().enumerate().flat_map(move |(table_at, table)| {
            table.chains.iter().enumerate().flat_map(move |(chain_at, chain)| {
                chain.rules.iter().enumerate().map(move |(at, rule)| {
                    let number = parsed.lines.line(table_at, chain_at, at).unwrap_or_default();
                    Placed { table: table.name, chain, rule, line: Line { table: table.name, number } }
                })
            })
        })
    }

    pub(super) fn chain(&self, table: TableName, name: &str) -> Option<&'e Chain> {
        self.parsed.rules.table(table)?.chain(name)
    }

    /// The line of a chain's rule, from 0.
    pub(super) fn line(&self, table: TableName, chain: &str, at: usize) -> Line {
        let tables = &self.parsed.rules.tables;
        let number = || {
            let table_at = tables.iter().position(|own| own.name == table)?;
            let chain_at = tables[table_at].chains.iter().position(|own| *own.name == *chain)?;
            self.parsed.lines.line(table_at, chain_at, at)
        };
        Line { table, number: number().unwrap_or_default() }
    }
}
