//! Differences as values, and their words.

use std::fmt;
use std::net::IpAddr;

use crate::chains::{Frontend, Policy};
use crate::nftables::SetKind;

/// A difference between the rules that should be there and those that were found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Finding {
    /// Whose difference it is.
    pub subject: Subject,
    /// What is different.
    pub difference: Difference,
    /// The line in the text that was found, from 1; `None` for what is missing.
    pub line: Option<usize>,
}

/// Whose a difference is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A service port: `namespace/name:port`, or the hash in its chains' names where no comment names it.
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
    /// A set of nftables, or a map.
    Set {
        /// Its table.
        table: &'static str,
        /// Which of both.
        kind: SetKind,
        /// Its name.
        name: String,
    },
}

/// How a fact is different.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Difference {
    /// It should be there and is not.
    Missing(Fact),
    /// It exists but should not.
    Unexpected(Fact),
    /// It is there, in another way.
    Changed {
        /// Which fact.
        fact: Fact,
        /// How it should be.
        expected: String,
        /// How it is.
        found: String,
    },
    /// Rules are repeated.
    Repeated {
        /// What they say.
        fact: Fact,
        /// How often they are there.
        times: usize,
        /// How often they should be there.
        expected: usize,
    },
    /// The rules of this chain are in another order.
    Reordered(String),
}

/// What rules say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// The service, or the chain, as a whole.
    Whole,
    /// What the kernel does at the end of the chain.
    Policy,
    /// What a chain or set of nftables is: where packets enter it, of what type its keys are.
    Kind,
    /// An address that leads to the service.
    Entry(Frontend),
    /// An address that kube-proxy of nftables mode knows for a cluster IP.
    ClusterIp(IpAddr),
    /// An address before which sources are checked.
    Firewall(Frontend),
    /// Traffic that is rejected or dropped: that to an address, or what is left at the end of a chain.
    RejectResponse(Option<Frontend>),
    /// The port that a load balancer asks for the service's health.
    HealthCheck(u16),
    /// Traffic that is masqueraded: that to an address, or what comes to a chain.
    Masquerade(Option<Frontend>),
    /// A range of sources that a load balancer's firewall lets in.
    SourceRange(String),
    /// An endpoint that gets traffic.
    Endpoint(Policy, String),
    /// How much of the traffic an endpoint gets.
    Share(Policy, String),
    /// The rule that returns clients to their endpoint.
    Affinity(Policy, String),
    /// Masquerading of what an endpoint sends to its own service.
    Hairpin(String),
    /// The translation of addresses to an endpoint's.
    Translation(String),
    /// The rule with which an endpoint records its clients.
    Memory(String),
    /// The set in which an endpoint's clients are noted.
    Clients(String),
    /// A chain of the service's own.
    Chain(String),
    /// A jump from a chain of the kernel's hooks to kube-proxy's rules, as text, and what follows where it is missing.
    Jump(String, &'static str),
    /// A rule that is none of these, as text.
    Rule(String),
    /// An element of a set that is none of these, as text.
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
            // A rule that says nothing any more.
            Self::Changed { fact, found, .. } if found == "``" => write!(f, "{fact} is missing"),
            Self::Changed { fact, expected, found } => write!(f, "{fact} is {found} instead of {expected}"),
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
            Self::Jump(text, _) | Self::Rule(text) => write!(f, "rule `{text}`"),
            Self::Element(text) => write!(f, "element `{text}`"),
        }
    }
}
