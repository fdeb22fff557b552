//! The rules that lead to a service port's endpoints, in terms common to both modes.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::{Chance, Copies, Frontend, Naming};
use crate::cluster::Protocol;

/// A chain that balances connections among endpoints.
pub(crate) struct Group<'a> {
    pub(crate) chain: &'a str,
    /// The service port as in comments, `default/web:http`; else the chain's name.
    pub(crate) service: Cow<'a, str>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) frontends: Vec<Frontend>,
    /// The rules that lead to endpoints, in order. A rule that leads to several endpoints is listed once for each.
    pub(crate) leads: Vec<Lead<'a>>,
    /// Duplicates among these rules.
    pub(crate) copies: Vec<Copies>,
    /// Rules with a `numgen` whose map lacks values, by rule number: the number of missing values, and the modulus.
    pub(crate) gaps: Vec<(usize, (u32, u32))>,
    /// The lists to which rules of the chain itself add clients, by rule number.
    pub(crate) notes: Vec<(usize, Note<'a>)>,
    /// Rules of the chain itself that translate to a port without matching a protocol with ports.
    pub(crate) without_protocol: Vec<usize>,
}

/// A rule of a group that leads to an endpoint.
pub(crate) struct Lead<'a> {
    /// Its number in the chain, from 1.
    pub(crate) rule: usize,
    pub(crate) to: To<'a>,
    /// Its lookup in a list of clients; `None` for a rule of new connections.
    pub(crate) recall: Option<Recall<'a>>,
    /// The endpoint named in its comment.
    pub(crate) named: Option<SocketAddr>,
}

/// The target of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To<'a> {
    /// An endpoint's chain.
    Chain(&'a str),
    /// The endpoint itself: the rule has the DNAT.
    Address(SocketAddr),
}

impl<'a> Lead<'a> {
    /// The endpoint's chain.
    pub(crate) fn chain(&self) -> Option<&'a str> {
        match self.to {
            To::Chain(chain) => Some(chain),
            To::Address(_) => None,
        }
    }
}

/// The lookup of returning clients in a list, by a rule of a group's chain.
#[derive(Debug, Clone)]
pub(crate) struct Recall<'a> {
    pub(crate) list: &'a str,
    pub(crate) key: Key,
    /// The timeout of clients in seconds; `None` for no timeout.
    pub(crate) seconds: Option<u32>,
    /// The size of the list, if the rules state it.
    pub(crate) size: Option<u32>,
    /// Whether the rule has no other matches.
    pub(crate) is_plain: bool,
}

/// A rule that adds clients to a list.
#[derive(Debug, Clone)]
pub(crate) struct Note<'a> {
    pub(crate) list: &'a str,
    pub(crate) key: Key,
    /// Whether it adds every client: the rule has no other matches, and no rule before it translates.
    pub(crate) is_plain: bool,
}

/// The part of a packet that identifies a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Whether it is the destination, which all clients share.
    pub(crate) destination: bool,
    /// The mask of the address; `None` for all bits.
    pub(crate) mask: Option<IpAddr>,
}

/// An endpoint's chain.
pub(crate) struct Endpoint<'a> {
    pub(crate) chain: &'a str,
    /// The destination of its DNAT.
    pub(crate) destination: Option<SocketAddr>,
    /// A DNAT destination that is not one address with one port, in words.
    pub(crate) no_endpoint: Option<String>,
    /// The protocol that each of its DNAT rules matches.
    pub(crate) protocols: Vec<Option<Protocol>>,
    /// The source whose packets it marks for masquerading, normally the endpoint itself.
    pub(crate) masqueraded: Option<Masqueraded>,
    /// The lists to which it adds clients.
    pub(crate) notes: Vec<Note<'a>>,
    /// Whether it translates to a port without matching a protocol with ports.
    pub(crate) lacks_protocol: bool,
}

/// The sources whose packets an endpoint's chain marks for masquerading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masqueraded {
    /// Packets of one source.
    Only(IpAddr),
    /// Packets of all sources but one.
    AllBut(IpAddr),
}

impl Masqueraded {
    /// Returns packets of a source or, if negated, of all others.
    pub(crate) fn of(negated: bool, source: IpAddr) -> Self {
        if negated { Self::AllBut(source) } else { Self::Only(source) }
    }

    /// The one source.
    pub(crate) fn only(self) -> Option<IpAddr> {
        match self {
            Self::Only(source) => Some(source),
            Self::AllBut(_) => None,
        }
    }
}

impl fmt::Display for Masqueraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(source) => write!(f, "{source}"),
            Self::AllBut(source) => write!(f, "all sources but {source}"),
        }
    }
}

/// An endpoint name or comment that contradicts the DNAT destination of the endpoint's chain.
pub(crate) struct Mismatch {
    /// The endpoint that the chain is meant for.
    pub(crate) named: String,
    /// The source of that: `its masquerade rule`.
    pub(crate) by: &'static str,
}

/// A reader of a table's chains, one for each mode.
pub(crate) trait Reading<'a> {
    /// Returns the naming scheme of chains.
    fn naming(&self) -> &'static Naming;

    /// Returns the chains that balance connections, in the table's order.
    fn groups(&self) -> Vec<&'a str>;

    /// Reads a chain that balances connections.
    fn group(&self, chain: &str) -> Option<Group<'a>>;

    /// Reads the chain of this name as an endpoint's; `None` if the text does not contain it.
    fn endpoint(&self, chain: &str) -> Option<Endpoint<'a>>;

    /// Returns the endpoint written in the name of its chain, as in nftables mode.
    fn named_endpoint(&self, _chain: &str) -> Option<SocketAddr> {
        None
    }

    /// Returns the endpoint written in the name of its chain if the hash in the name confirms it: the chain was created for this one.
    fn confirmed_endpoint(&self, _chain: &str) -> Option<SocketAddr> {
        None
    }

    /// Returns the endpoint that names and comments give instead, for each endpoint of a group; `None` if they agree with the destination.
    fn misnamed(&self, group: &Group<'a>, endpoints: &[(&Lead<'a>, Endpoint<'a>)]) -> Vec<Option<Mismatch>>;

    /// Returns the probability of rule number `rule` of a group (from 1), for one of several choices; `None` if the rule is for returning
    /// clients.
    fn chance(&self, group: &Group<'a>, rule: usize, choice: u32) -> Option<Chance>;

    /// Returns the target chain of a rule if the text does not contain it.
    fn missing(&self, chain: &str, rule: usize) -> Option<&'a str>;
}
