//! Differences as values, and their messages.

use std::fmt;
use std::net::IpAddr;

use crate::chains::{Frontend, Policy};
use crate::nftables::SetKind;

/// A difference between expected rules and found ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Finding {
    /// The subject of the difference.
    pub subject: Subject,
    /// The difference.
    pub difference: Difference,
    /// The line in the found text, from 1; `None` for missing rules.
    pub line: Option<usize>,
}

/// The subject of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A service port: `namespace/name:port`, or the hash in its chains' names if no comment names it.
    Service(String),
    /// A table.
    Table(&'static str),
    /// A chain that belongs to no service.
    Chain {
        /// Its table.
        table: &'static str,
        /// Its name.
        name: String,
    },
    /// An nftables set or map.
    Set {
        /// Its table.
        table: &'static str,
        /// Set or map.
        kind: SetKind,
        /// Its name.
        name: String,
    },
}

/// The kind of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Difference {
    /// The fact is missing.
    Missing(Fact),
    /// The fact is unexpected.
    Unexpected(Fact),
    /// The fact has another value.
    Changed {
        /// The fact.
        fact: Fact,
        /// The expected value.
        expected: String,
        /// The found value.
        found: String,
    },
    /// The frontend leads to another service.
    LedElsewhere {
        /// The frontend.
        fact: Fact,
        /// The service port that it leads to.
        to: String,
    },
    /// Rules are repeated.
    Repeated {
        /// The fact that they state.
        fact: Fact,
        /// The number of copies found.
        times: usize,
        /// The number of copies expected.
        expected: usize,
    },
    /// The rules of this chain are in another order.
    Reordered(String),
}

/// A fact stated by rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// The service, or the chain, as a whole.
    Whole,
    /// The policy of the chain.
    Policy,
    /// The hook of an nftables chain, or the key type of a set.
    Kind,
    /// A frontend of the service.
    Entry(Frontend),
    /// An address in the set of cluster IPs of nftables mode.
    ClusterIp(IpAddr),
    /// A frontend with a source-range check.
    Firewall(Frontend),
    /// Rejected or dropped traffic: to a frontend, or at the end of a chain.
    RejectResponse(Option<Frontend>),
    /// The health check node port of the service.
    HealthCheck(u16),
    /// Masqueraded traffic: to a frontend, or all traffic in a chain.
    Masquerade(Option<Frontend>),
    /// A source range that a load balancer's firewall accepts.
    SourceRange(String),
    /// An endpoint that receives traffic.
    Endpoint(Policy, String),
    /// The share of an endpoint.
    Share(Policy, String),
    /// The affinity rule for an endpoint.
    Affinity(Policy, String),
    /// Masquerading of connections from an endpoint to itself.
    Hairpin(String),
    /// The DNAT to an endpoint.
    Translation(String),
    /// The rule with which an endpoint records its clients.
    Memory(String),
    /// The set of an endpoint's clients.
    Clients(String),
    /// A chain of the service's own.
    Chain(String),
    /// A jump from a base chain to kube-proxy's rules, as text, and the consequence if it is missing.
    Jump(String, &'static str),
    /// Any other rule, as text.
    Rule(String),
    /// Any other element of a set, as text.
    Element(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.difference {
            Difference::Missing(Fact::Whole) => write!(f, "{} is missing", self.subject),
            Difference::Unexpected(Fact::Whole) => write!(f, "{} is unexpected", self.subject),
            difference => write!(f, "{}: {difference}", self.subject),
        }?;
        self.line.map_or(Ok(()), |line| write!(f, " (line {line})"))
    }
}

impl Difference {
    /// Returns the fact that differs; `None` for the order of rules.
    pub fn fact(&self) -> Option<&Fact> {
        match self {
            Self::Missing(fact) | Self::Unexpected(fact) => Some(fact),
            Self::Changed { fact, .. } | Self::Repeated { fact, .. } | Self::LedElsewhere { fact, .. } => Some(fact),
            Self::Reordered(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "service {name}"),
            Self::Table(table) => write!(f, "table {table}"),
            Self::Chain { table, name } => write!(f, "chain {name} of {table}"),
            Self::Set { table, kind, name } => write!(f, "{} {name} of {table}", kind.as_str()),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(fact @ Fact::Jump(_, effect)) => write!(f, "{fact} is missing: {effect}"),
            Self::Missing(fact) => write!(f, "{fact} is missing"),
            Self::Repeated { fact, times, expected: 0 } => write!(f, "{fact} is unexpected, and appears {times} times"),
            Self::Repeated { fact, times, expected: 1 } => write!(f, "{fact} appears {times} times; expected once"),
            Self::Repeated { fact, times, expected } => {
                write!(f, "{fact} appears {times} times; expected {expected}")
            }
            Self::Unexpected(fact) => write!(f, "{fact} is unexpected"),
            // An empty value means that the rule no longer matches or does anything.
            Self::Changed { fact, found, .. } if found == "``" => write!(f, "{fact} is missing"),
            Self::Changed { fact, expected, found } => write!(f, "{fact} is {found} instead of {expected}"),
            Self::LedElsewhere { fact, to } => write!(f, "{fact} leads to service {to}"),
            Self::Reordered(chain) => write!(f, "the rules of {chain} are in a different order"),
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("all of it"),
            Self::Policy => f.write_str("the policy"),
            Self::Kind => f.write_str("it"),
            Self::Entry(address) => write!(f, "the frontend {address:#}"),
            Self::ClusterIp(ip) => write!(f, "the cluster IP {ip}"),
            Self::Firewall(address) => write!(f, "the source-range check for {address:#}"),
            Self::RejectResponse(Some(address)) => write!(f, "the rejection of traffic to {address:#}"),
            Self::RejectResponse(None) => f.write_str("the rejection of other traffic"),
            Self::HealthCheck(port) => write!(f, "the health check on port {port}"),
            Self::Masquerade(Some(address)) => write!(f, "the masquerading of traffic to {address:#}"),
            Self::Masquerade(None) => f.write_str("the masquerading of external traffic"),
            Self::SourceRange(range) => write!(f, "the source range {range}"),
            Self::Endpoint(policy, endpoint) => write!(f, "endpoint {endpoint}{policy}"),
            Self::Share(policy, endpoint) => write!(f, "the share of endpoint {endpoint}{policy}"),
            Self::Affinity(policy, endpoint) => write!(f, "the affinity to endpoint {endpoint}{policy}"),
            Self::Hairpin(endpoint) => write!(f, "the masquerading of endpoint {endpoint} to itself"),
            Self::Translation(endpoint) => write!(f, "the DNAT to endpoint {endpoint}"),
            Self::Memory(endpoint) => write!(f, "the recent list of endpoint {endpoint}"),
            Self::Clients(endpoint) => write!(f, "the set of the clients of endpoint {endpoint}"),
            Self::Chain(chain) => write!(f, "chain {chain}"),
            Self::Rule(text) if text.is_empty() => f.write_str("a rule that only counts or logs packets"),
            Self::Jump(text, _) | Self::Rule(text) => write!(f, "rule `{text}`"),
            Self::Element(text) => write!(f, "element `{text}`"),
        }
    }
}
