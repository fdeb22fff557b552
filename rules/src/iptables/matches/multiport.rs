//! `multiport`: several ports in one rule.

use super::{Extension, Listed, Match, Parsed};
use crate::iptables::text::{Options, Printer, values};
use crate::iptables::{Negatable, PortRange};
use crate::walk::{Edges, Field, Trace, Walker};

/// Options of `multiport`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multiport {
    /// The port that is compared.
    pub side: Side,
    /// Ports and ranges, one of which must hold.
    pub ports: Negatable<Vec<PortRange>>,
}

/// One or either of a packet's two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// `--sports`.
    Source,
    /// `--dports`.
    Destination,
    /// `--ports`.
    Either,
}

pub(super) const MULTIPORT: Extension = Extension {
    name: "multiport",
    options: &["--sports", "--dports", "--ports", "--source-ports", "--destination-ports"],
    parse,
    parse_listed,
};

fn parse(options: &Options<'_>) -> Parsed {
    let mut found = None;
    for option in options.iter() {
        let ports = option.negatable("list of ports", list)?;
        let side = match option.name {
            "--sports" | "--source-ports" => Side::Source,
            "--dports" | "--destination-ports" => Side::Destination,
            _ => Side::Either,
        };
        found = Some(Match::Multiport(Box::new(Multiport { side, ports })));
    }
    Ok(found)
}

/// `80,8000:8080`.
fn list(text: &str) -> Option<Vec<PortRange>> {
    text.split(',').map(|part| values::ports(part, ':')).collect()
}

/// `multiport dports 80,8000:8080`, `multiport sports !53`.
fn parse_listed(words: &[&str], negated: bool) -> Listed {
    let ["multiport", side, ports, ..] = words else { return None };
    let side = match *side {
        "sports" => Side::Source,
        "dports" => Side::Destination,
        "ports" => Side::Either,
        _ => return None,
    };
    let (is_not, ports) = ports.strip_prefix('!').map_or((false, *ports), |ports| (true, ports));
    let ports = Negatable { negated: is_not, value: list(ports).filter(|_| !negated)? };
    Some((Match::Multiport(Box::new(Multiport { side, ports })), 3))
}

impl Multiport {
    pub(super) fn print(&self, out: &mut Printer) {
        out.push(" -m multiport");
        let name = match self.side {
            Side::Source => " --sports ",
            Side::Destination => " --dports ",
            Side::Either => " --ports ",
        };
        out.option(name, self.ports.negated);
        for (index, range) in self.ports.value.iter().enumerate() {
            if index > 0 {
                out.push(",");
            }
            out.port_range(*range, ":");
        }
    }

    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> bool {
        if walker.ports().is_none() {
            return false;
        }
        let ranges = || self.ports.value.iter().map(|range| (range.first.into(), range.last.into()));
        let listed = |field: Field| walker.is_among(field, ranges);
        let found = match self.side {
            Side::Source => listed(Field::SourcePort),
            Side::Destination => listed(Field::DestinationPort),
            Side::Either => listed(Field::SourcePort) || listed(Field::DestinationPort),
        };
        found ^ self.ports.negated
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        for range in &self.ports.value {
            if self.side != Side::Destination {
                Edges::ports(&mut edges.source_ports, range.first, range.last);
            }
            if self.side != Side::Source {
                Edges::ports(&mut edges.destination_ports, range.first, range.last);
            }
        }
    }

    pub(super) fn explain(&self) -> String {
        let list: Vec<String> = self.ports.value.iter().map(|port| port.explain()).collect();
        let side = match self.side {
            Side::Source => "from",
            Side::Destination => "to",
            Side::Either => "from or to",
        };
        format!("{}{side} one of the ports {}", self.ports.negation(), list.join(", "))
    }
}
