//! What leads to a cascade.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;

use crate::cluster::Protocol;
use crate::iptables::{Match, Network, Rule, Table};

/// Where a connection must be sent for a cascade to decide about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frontend {
    /// The address; `None` for a node port, which is one of every address of the node.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// `10.96.0.10:80`, `[fd00::10]:80`, `node port 30080`.
impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address @ IpAddr::V4(_)) => write!(f, "{address}:{}", self.port),
            Some(address @ IpAddr::V6(_)) => write!(f, "[{address}]:{}", self.port),
            None => write!(f, "node port {}", self.port),
        }
    }
}

/// The rules that jump to chains of services, by the chain that they jump to.
pub(super) struct Leads<'a>(HashMap<&'a str, Vec<(&'a str, &'a Rule)>>);

impl<'a> Leads<'a> {
    /// Those of a table, but for rules that lead to the chains that are left out.
    pub(super) fn of(table: &'a Table, left_out: impl Fn(&str) -> bool) -> Self {
        let mut leads: HashMap<&str, Vec<(&str, &Rule)>> = HashMap::new();
        for chain in &table.chains {
            for rule in &chain.rules {
                if let Some(next) = rule.next_chain().filter(|next| !left_out(next)) {
                    leads.entry(next).or_default().push((&chain.name, rule));
                }
            }
        }
        Self(leads)
    }

    /// The addresses and ports whose connections come to a chain, also by way of others, in the order of rules; each once.
    pub(super) fn frontends(&self, chain: &str) -> Vec<Frontend> {
        let (mut found, mut known) = (Vec::new(), HashSet::from([chain]));
        let mut open = vec![chain];
        while let Some(chain) = open.pop() {
            for (from, rule) in self.0.get(chain).into_iter().flatten() {
                match frontend(rule) {
                    Some(frontend) if !found.contains(&frontend) => found.push(frontend),
                    Some(_) => {}
                    None if known.insert(from) => open.push(from),
                    None => {}
                }
            }
        }
        found
    }
}

/// The frontend that a rule asks for.
pub(super) fn frontend(rule: &Rule) -> Option<Frontend> {
    let (protocol, port) = rule.matches.iter().find_map(|one| match one {
        Match::Ports(ports) => {
            let port = ports.destination.filter(|port| !port.negated && port.value.first == port.value.last)?;
            Some((ports.protocol, port.value.first))
        }
        _ => None,
    })?;
    let address = match &rule.destination {
        None => None,
        Some(network) if !network.negated => match &network.value {
            Network::Prefix(range) if range.prefix_len() == range.max_prefix_len() => Some(range.addr()),
            // Node ports of releases that bind them to the addresses of an interface, or of loopback.
            _ => None,
        },
        Some(_) => return None,
    };
    Some(Frontend { address, port, protocol })
}
