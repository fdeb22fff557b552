//! Defects of cascades.

use std::fmt;

use super::affinity_defect::AffinityDefect;
use super::outcome::{ConnectionOutcome, of_all};
use crate::cluster::Protocol;
use crate::walk::Share;

/// A defect and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Defect {
    /// The number of the rule in the chain, from 1; 0 for the chain as a whole.
    pub rule: usize,
    /// The kind.
    pub kind: Kind,
}

/// The kind of a defect, with its effect on shares. Shares are fractions of all new connections.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// The probability is not 1/n for the n endpoints that remain.
    Probability {
        /// The probability as written.
        written: String,
        /// The probability that would be even.
        even: f64,
        /// n if the probability is 1/n; `None` if it is not the inverse of a whole number.
        of: Option<usize>,
        /// The share of the endpoint.
        share: Share,
    },
    /// The probability fits no even cascade, whatever rules an excerpt omits: probabilities are 1/n, and n decreases from rule to rule.
    FitsNone {
        /// The probability as written.
        written: String,
        /// The number of the rule before it that it cannot follow; `None` if it is not 1/n for any n.
        after: Option<usize>,
    },
    /// The probabilities are those of an even cascade, but in another order.
    Order {
        /// The smallest share of an endpoint.
        least: Share,
        /// The largest share of an endpoint.
        most: Share,
    },
    /// Rules are missing after this one, as the probabilities before and after it imply.
    Missing {
        /// The number of missing rules.
        endpoints: usize,
        /// The share of the rule's own endpoint, and of each missing one if it were there.
        share: Share,
        /// The share of the next endpoint; `None` if there is none.
        next: Option<Share>,
    },
    /// Probabilities are even, but written with five digits, as kube-proxy up to 1.16 does: rounding errors add up.
    FiveDigits {
        /// The number of rules with such a probability.
        rules: usize,
        /// The number of rules whose probability equals that of the rule before: 1/320 and 1/319, for example, are both 0.00313.
        alike: usize,
        /// The endpoint whose share is farthest from even.
        endpoint: String,
        /// The deviation relative to an even share.
        deviation: f64,
    },
    /// The map of `numgen` lacks values: connections that draw such a number continue with the next rule.
    Gap {
        /// The number of values that the map lacks.
        lacking: u32,
        /// The modulus of `numgen`.
        of: u32,
    },
    /// An earlier rule already sends connections to the endpoint.
    Duplicate {
        /// The endpoint.
        endpoint: String,
        /// The number of the first rule.
        first: usize,
        /// The share that its rules up to this one give it.
        share: Share,
    },
    /// The chain has the rule several times; this is the second one.
    Repeated {
        /// The number of the first one.
        first: usize,
        /// The number of copies.
        times: usize,
        /// The endpoint that the rule sends connections to, if any.
        endpoint: Option<String>,
        /// The share of all copies together.
        share: Share,
    },
    /// No packet reaches this rule: an earlier rule takes everything that is left.
    Unreachable {
        /// The endpoint that gets no connections from this rule.
        endpoint: String,
    },
    /// Some connections are handled differently from others.
    Conditional {
        /// An example, as what distinguishes it from other connections: `from 10.0.0.1`.
        example: String,
        /// The outcomes, each with its share.
        fates: Vec<(ConnectionOutcome, Share)>,
    },
    /// The rule depends on more than a connection's first packet: a list's content, a rate, the connection mark, a bridge port.
    History {
        /// The chain and number of the rule, if it is in another chain.
        within: Option<String>,
    },
    /// A rule takes connections that then reach no endpoint.
    TakenWithoutEndpoint {
        /// The outcomes, each with its share.
        fate: ConnectionOutcome,
        /// The chain of the rule that decides, if it is another one.
        within: Option<String>,
        /// The share of all new connections.
        share: Share,
    },
    /// No connection to the service matches the rule.
    NeverTaken {
        /// The endpoint that gets no connections from this rule.
        endpoint: String,
    },
    /// The endpoint's chain translates a different protocol than the service's.
    Protocol {
        /// The chain.
        chain: String,
        /// The protocol that it translates.
        translates: Protocol,
        /// The protocol of the service.
        service: Protocol,
    },
    /// The endpoint's chain translates to a different address than the endpoint that it is meant for.
    Address {
        /// The chain.
        chain: String,
        /// The destination of its DNAT.
        destination: String,
        /// The endpoint that the chain is meant for.
        named: String,
        /// The source: `its masquerade rule`.
        by: &'static str,
    },
    /// The endpoint's chain translates, but not to one address with one port.
    NoEndpoint {
        /// The chain.
        chain: String,
        /// The destination of its DNAT: `10.0.0.1 without a port`.
        destination: String,
    },
    /// Shares are uneven, although no single rule is wrong.
    Uneven {
        /// The endpoint whose share is farthest from even.
        endpoint: String,
        /// The deviation relative to an even share.
        deviation: f64,
    },
    /// The endpoint's chain has no DNAT: connections return from it and continue with the next rule.
    NoDestination {
        /// The chain.
        chain: String,
    },
    /// An endpoint of the service has a chain, but no rule jumps to it.
    Orphan {
        /// The endpoint.
        endpoint: String,
        /// Its chain.
        chain: String,
    },
    /// Session affinity does not work.
    Affinity(AffinityDefect),
    /// A rule translates to a port, but matches no protocol with ports: the kernel rejects it.
    PortWithoutProtocol {
        /// The chain of the rule, if it is an endpoint's.
        chain: Option<String>,
    },
    /// Packets that no rule takes leave the chain untranslated.
    FallsThrough {
        /// The share of all new connections.
        share: Share,
    },
}

impl AffinityDefect {
    /// Places the defect at a rule.
    pub(super) fn at(self, rule: usize) -> Defect {
        Defect { rule, kind: Kind::Affinity(self) }
    }
}

impl Kind {
    /// Returns a stable identifier for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Probability { .. } | Self::FitsNone { .. } => "probability",
            Self::Order { .. } => "order",
            Self::Missing { .. } => "missing",
            Self::FiveDigits { .. } => "five-digits",
            Self::Gap { .. } => "gap",
            Self::Duplicate { .. } => "duplicate",
            Self::Repeated { .. } => "repeated",
            Self::Unreachable { .. } => "unreachable",
            Self::Conditional { .. } => "conditional",
            Self::History { .. } => "history",
            Self::TakenWithoutEndpoint { fate, .. } => fate.code(),
            Self::NeverTaken { .. } => "never-taken",
            Self::Protocol { .. } => "protocol",
            Self::Address { .. } => "address",
            Self::NoEndpoint { .. } => "no-endpoint",
            Self::Uneven { .. } => "uneven",
            Self::NoDestination { .. } => "no-destination",
            Self::Orphan { .. } => "orphan",
            Self::Affinity(defect) => defect.code(),
            Self::FallsThrough { .. } => "falls-through",
            Self::PortWithoutProtocol { .. } => "port-without-protocol",
        }
    }

    /// Returns whether clients lose their endpoint because of this defect.
    pub(super) fn is_of_affinity(&self) -> bool {
        matches!(self, Self::Affinity(defect) if defect.loses_clients())
    }

    /// Returns whether the defect depends on the number of endpoints, which an excerpt does not show.
    pub(super) fn depends_on_count(&self) -> bool {
        matches!(self, Self::Probability { .. } | Self::Order { .. } | Self::FiveDigits { .. })
    }

    /// Returns whether the defect is a missing rule, which an excerpt cannot prove.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::Affinity(defect) => defect.is_absence(),
            Self::Missing { .. } | Self::NoDestination { .. } | Self::Orphan { .. } | Self::FallsThrough { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rule > 0 {
            write!(f, "rule {}: ", self.rule)?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability { written, even, of, share } => probability(f, written, *even, *of, *share),
            Self::FitsNone { written, after } => fits_none(f, written, *after),
            Self::Order { least, most } => order(f, *least, *most),
            Self::Missing { endpoints, share, next } => missing(f, *endpoints, *share, *next),
            Self::FiveDigits { rules, alike, endpoint, deviation } => {
                five_digits(f, *rules, *alike, endpoint, *deviation)
            }
            Self::Gap { lacking, of } => gap(f, *lacking, *of),
            Self::Duplicate { endpoint, first, share } => {
                write!(f, "{endpoint} has rule {first} already: together they get {}", of_all(*share))
            }
            Self::Repeated { first, times, endpoint, share } => {
                repeated(f, *first, *times, endpoint.as_deref(), *share)
            }
            Self::Unreachable { endpoint } => {
                write!(f, "nothing is left for {endpoint}: a rule before it takes everything")
            }
            Self::Conditional { example, fates } => conditional(f, example, fates),
            Self::History { within } => history(f, within.as_deref()),
            Self::TakenWithoutEndpoint { fate, within, share } => escapes(f, fate, within.as_deref(), *share),
            Self::NeverTaken { endpoint } => never_taken(f, endpoint),
            Self::Protocol { chain, translates, service } => protocol(f, chain, *translates, *service),
            Self::Address { chain, destination, named, by } => {
                write!(f, "{chain} translates to {destination}, but {by} is for {named}")
            }
            Self::NoEndpoint { chain, destination } => {
                write!(f, "{chain} translates to {destination}: an endpoint is one address with one port")
            }
            Self::Uneven { endpoint, deviation } => {
                write!(f, "the shares are not even: {endpoint} is {:+.4} % off", deviation * 100.0)
            }
            Self::NoDestination { chain } => {
                write!(f, "{chain} translates to no address: connections continue with the next rule")
            }
            Self::Orphan { endpoint, chain } => {
                write!(f, "{endpoint} has a chain, {chain}, but no rule leads there: it gets nothing")
            }
            Self::Affinity(defect) => defect.fmt(f),
            Self::FallsThrough { share } => write!(f, "{} reach no endpoint", new_connections(*share)),
            Self::PortWithoutProtocol { chain } => no_protocol(f, chain.as_deref()),
        }
    }
}

fn probability(f: &mut fmt::Formatter<'_>, written: &str, even: f64, of: Option<usize>, share: Share) -> fmt::Result {
    let of = of.map(|of| format!(", one in {of},")).unwrap_or_default();
    write!(f, "probability {written}{of} where {even:.11} would be even: its endpoint gets {}", of_all(share))
}

fn fits_none(f: &mut fmt::Formatter<'_>, written: &str, after: Option<usize>) -> fmt::Result {
    match after {
        Some(after) => write!(
            f,
            "probability {written} after that of rule {after} is uneven, whatever rules are not shown: probabilities must \
             increase from rule to rule"
        ),
        None => {
            write!(
                f,
                "probability {written} is uneven for any number of endpoints: it is not 1/n for any whole number n"
            )
        }
    }
}

fn order(f: &mut fmt::Formatter<'_>, least: Share, most: Share) -> fmt::Result {
    f.write_str("the probabilities are those of an even cascade, but in another order: ")?;
    write!(f, "endpoints get from {least} to {most} of all")
}

fn gap(f: &mut fmt::Formatter<'_>, lacking: u32, of: u32) -> fmt::Result {
    write!(f, "the map has no value for {lacking} of the {of} numbers of numgen: ")?;
    f.write_str("connections that get one of them go on to the next rule")
}

fn history(f: &mut fmt::Formatter<'_>, within: Option<&str>) -> fmt::Result {
    in_chain(f, within)?;
    f.write_str("depends on more than the connection itself, as earlier packets, rates or a connection mark: ")?;
    f.write_str("the shares hold for connections without earlier state")
}

fn never_taken(f: &mut fmt::Formatter<'_>, endpoint: &str) -> fmt::Result {
    write!(f, "no connection to the service meets the conditions of this rule: {endpoint} gets nothing by it")
}

fn protocol(f: &mut fmt::Formatter<'_>, chain: &str, translates: Protocol, service: Protocol) -> fmt::Result {
    write!(f, "{chain} translates {translates} only, but the service is {service}: it takes none of its connections")
}

fn no_protocol(f: &mut fmt::Formatter<'_>, chain: Option<&str>) -> fmt::Result {
    in_chain(f, chain)?;
    f.write_str("a rule translates to a port, but matches no protocol (`-p tcp`): ")?;
    f.write_str("the kernel rejects it, for only TCP, UDP, SCTP and DCCP have ports")
}

/// `1/2 of new connections`, `all new connections`.
fn new_connections(share: Share) -> String {
    if share == Share::ONE { "all new connections".to_owned() } else { format!("{share} of new connections") }
}

fn missing(f: &mut fmt::Formatter<'_>, endpoints: usize, share: Share, next: Option<Share>) -> fmt::Result {
    let what = if endpoints == 1 { "1 missing rule".to_owned() } else { format!("{endpoints} missing rules") };
    write!(f, "its probability implies {what} after it: its endpoint gets {}, ", of_all(share))?;
    match next {
        Some(next) => write!(f, "each of those after it {next}"),
        None => write!(f, "and what is left goes to no endpoint"),
    }
}

fn five_digits(f: &mut fmt::Formatter<'_>, rules: usize, alike: usize, endpoint: &str, deviation: f64) -> fmt::Result {
    let percent = deviation * 100.0;
    let (have, what) = if rules == 1 { ("1 probability has", "it") } else { ("probabilities have", "them") };
    if rules > 1 {
        write!(f, "{rules} ")?;
    }
    write!(f, "{have} five digits only, as kube-proxy up to 1.16 writes {what}: {endpoint} is {percent:+.4} % off")?;
    if alike > 0 {
        write!(f, "; {alike} of them equal the one before")?;
    }
    Ok(())
}

/// Number of outcomes listed in a message.
const LISTED: usize = 3;

fn conditional(f: &mut fmt::Formatter<'_>, example: &str, fates: &[(ConnectionOutcome, Share)]) -> fmt::Result {
    write!(f, "depends on the connection: one {example} ")?;
    for ((fate, share), place) in fates.iter().take(LISTED).zip(0..) {
        let before = if place > 0 { ", " } else { "" };
        match *share {
            Share::ONE => write!(f, "{before}{fate}")?,
            share => write!(f, "{before}{fate} ({share})")?,
        }
    }
    match fates.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

fn repeated(
    f: &mut fmt::Formatter<'_>,
    first: usize,
    times: usize,
    endpoint: Option<&str>,
    share: Share,
) -> fmt::Result {
    let takes = endpoint.map_or_else(|| "take".to_owned(), |endpoint| format!("give {endpoint}"));
    write!(f, "the same as rule {first}; the chain has this rule {times} times, which {takes} {}", of_all(share))
}

/// Writes the chain of a rule if it is not the cascade's own.
fn in_chain(f: &mut fmt::Formatter<'_>, chain: Option<&str>) -> fmt::Result {
    chain.map_or(Ok(()), |chain| write!(f, "{chain}: "))
}

fn escapes(f: &mut fmt::Formatter<'_>, fate: &ConnectionOutcome, within: Option<&str>, share: Share) -> fmt::Result {
    let within = within.map(|chain| format!(" in {chain}")).unwrap_or_default();
    let becomes = match fate {
        ConnectionOutcome::Returned => "leave the chain untranslated".to_owned(),
        ConnectionOutcome::Accepted => "are accepted untranslated".to_owned(),
        ConnectionOutcome::Dropped => "are dropped".to_owned(),
        ConnectionOutcome::Rejected => "are rejected".to_owned(),
        ConnectionOutcome::Handed(chain) => format!("go on with {chain}, another group of endpoints,"),
        other => other.to_string(),
    };
    write!(f, "{} {becomes}{within} and reach no endpoint of this chain", new_connections(share))
}
