//! The rules that lead to a service port's endpoints, in the terms of either mode.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::{Chance, Copies, Frontend, Naming};
use crate::cluster::Protocol;

/// A chain that balances connections among endpoints.
pub(crate) struct Group<'a> {
    pub(crate) chain: &'a str,
    /// The service port, as comments call it: `default/web:http`; else the chain's name.
    pub(crate) service: Cow<'a, str>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) frontends: Vec<Frontend>,
    /// The rules that lead to endpoints, in order. A rule that leads to several is there for each of them.
    pub(crate) leads: Vec<Lead<'a>>,
    /// Which of these rules the chain has several times.
    pub(crate) copies: Vec<Copies>,
    /// Rules with a `numgen` whose map lacks values, by their numbers: for how many of how many numbers.
    pub(crate) gaps: Vec<(usize, (u32, u32))>,
    /// The lists in which rules of the chain itself note clients, by the rules' numbers.
    pub(crate) notes: Vec<(usize, Note<'a>)>,
    /// Rules of the chain itself that translate to a port without asking for a protocol that has ports.
    pub(crate) without_protocol: Vec<usize>,
}

/// A rule of a group that leads to an endpoint.
pub(crate) struct Lead<'a> {
    /// Its number in the chain, from 1.
    pub(crate) rule: usize,
    pub(crate) to: To<'a>,
    /// What it asks of a list of clients; `None` for a rule of new connections.
    pub(crate) recall: Option<Recall<'a>>,
    /// The endpoint that its comment names.
    pub(crate) named: Option<SocketAddr>,
}

/// Where a rule leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To<'a> {
    /// An endpoint's chain.
    Chain(&'a str),
    /// The endpoint itself: the rule translates.
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

/// What a rule of a group's chain asks of the list by which clients are known again.
#[derive(Debug, Clone)]
pub(crate) struct Recall<'a> {
    pub(crate) list: &'a str,
    pub(crate) key: Key,
    /// For how long clients are remembered; for ever where there is none.
    pub(crate) seconds: Option<u32>,
    /// How many clients the list has room for, where the rules say it.
    pub(crate) size: Option<u32>,
    /// Whether the rule asks for nothing else.
    pub(crate) is_plain: bool,
}

/// A rule that notes clients in a list.
#[derive(Debug, Clone)]
pub(crate) struct Note<'a> {
    pub(crate) list: &'a str,
    pub(crate) key: Key,
    /// Whether it notes every client: the rule asks for nothing else, and no rule before it translates.
    pub(crate) is_plain: bool,
}

/// Which part of a packet is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Whether it is the destination, which all clients have in common.
    pub(crate) destination: bool,
    /// The bits of the address that count; `None` for all.
    pub(crate) mask: Option<IpAddr>,
}

/// An endpoint's chain.
pub(crate) struct Endpoint<'a> {
    pub(crate) chain: &'a str,
    /// Where it translates to.
    pub(crate) destination: Option<SocketAddr>,
    /// What it translates to that is not one address with one port, in words.
    pub(crate) no_endpoint: Option<String>,
    /// The protocol that each of its translating rules asks for.
    pub(crate) protocols: Vec<Option<Protocol>>,
    /// The source whose packets it marks for masquerading: the endpoint itself.
    pub(crate) masqueraded: Option<Masqueraded>,
    /// The lists in which it notes clients.
    pub(crate) notes: Vec<Note<'a>>,
    /// Whether it translates to a port without asking for a protocol that has ports.
    pub(crate) lacks_protocol: bool,
}

/// Whose packets an endpoint's chain marks for masquerading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masqueraded {
    /// Packets of one source.
    Only(IpAddr),
    /// Packets of all sources but one.
    AllBut(IpAddr),
}

impl Masqueraded {
    /// Packets of a source, or, if negated, of all others.
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

/// Another address than the one that an endpoint's chain translates to.
pub(crate) struct Mismatch {
    /// What the chain is for.
    pub(crate) named: String,
    /// What says so: `its masquerade rule`.
    pub(crate) by: &'static str,
}

/// A table's chains, read in the terms of its mode.
pub(crate) trait Reading<'a> {
    /// How chains are named.
    fn naming(&self) -> &'static Naming;

    /// The chains that balance connections, in the table's order.
    fn groups(&self) -> Vec<&'a str>;

    /// A chain that balances connections.
    fn group(&self, chain: &str) -> Option<Group<'a>>;

    /// An endpoint's chain, or whatever chain has this name; `None` if the text does not have it.
    fn endpoint(&self, chain: &str) -> Option<Endpoint<'a>>;

    /// The endpoint that the name of its chain has in clear, as that of nftables has.
    fn named_endpoint(&self, _chain: &str) -> Option<SocketAddr> {
        None
    }

    /// Which other endpoint the names and comments of a group's endpoints say, one for each; `None` if they agree with the destination.
    fn misnamed(&self, group: &Group<'a>, endpoints: &[(&Lead<'a>, Endpoint<'a>)]) -> Vec<Option<Mismatch>>;

    /// The chance that is written at a rule of a group, given from 1, for one of several choices; `None` if the rule leads
    /// clients to an endpoint again.
    fn chance(&self, group: &Group<'a>, rule: usize, choice: u32) -> Option<Chance>;

    /// The chain that a rule leads to and that the text does not have.
    fn missing(&self, chain: &str, rule: usize) -> Option<&'a str>;
}
