//! Frontends of service ports, and the chains that lead to them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;

use crate::cluster::Protocol;

/// An address and port that rules match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frontend {
    /// The address; `None` for a node port, which is on every address of the node.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// `10.96.0.10:80`, `[fd00::10]:80`, `node port 30080`; with `#`, the protocol after it: `10.96.0.10:80/tcp`.
impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address @ IpAddr::V4(_)) => write!(f, "{address}:{}", self.port)?,
            Some(address @ IpAddr::V6(_)) => write!(f, "[{address}]:{}", self.port)?,
            None => write!(f, "node port {}", self.port)?,
        }
        if f.alternate() { write!(f, "/{}", self.protocol) } else { Ok(()) }
    }
}

/// What leads to each chain: frontends in rules and map elements, and other chains.
#[derive(Default)]
pub(crate) struct Routes<'a>(HashMap<&'a str, (Vec<Frontend>, Vec<&'a str>)>);

impl<'a> Routes<'a> {
    /// Records that connections to a frontend go to a chain.
    pub(super) fn add_frontend(&mut self, to: &'a str, frontend: Frontend) {
        self.0.entry(to).or_default().0.push(frontend);
    }

    /// Records that a chain jumps to another one.
    pub(super) fn add_chain(&mut self, to: &'a str, from: &'a str) {
        self.0.entry(to).or_default().1.push(from);
    }

    /// Returns the frontends whose connections reach a chain, directly or through other chains, in the order of the rules and without
    /// duplicates.
    pub(super) fn frontends(&self, chain: &'a str) -> Vec<Frontend> {
        let (mut found, mut known, mut open) = (Vec::new(), HashSet::from([chain]), vec![chain]);
        while let Some(chain) = open.pop() {
            let Some((frontends, chains)) = self.0.get(chain) else { continue };
            for frontend in frontends {
                if !found.contains(frontend) {
                    found.push(*frontend);
                }
            }
            open.extend(chains.iter().filter(|from| known.insert(from)));
        }
        found
    }
}
